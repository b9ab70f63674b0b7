#include "amqp/shape.h"

#include "lib/testmain.h"

#include <stdio.h>

#define WORDS(arg, received, current)              \
    "PRECONDITION_FAILED - inequivalent arg '" arg \
    "' for queue 'q' in vhost '/': received " received " but current is " current

static bool take(struct shape *s, const char *words)
{
    struct difference d;
    return difference_read(words, &d) && shape_take(s, &d);
}

/* The broker's words are taken apart in each of their forms; other words are none. */
START_TEST(words_are_taken_apart)
{
    struct difference d;
    ck_assert(difference_read(WORDS("x-max-priority", "the value '2' of type 'signedint'",
                                    "the value '10' of type 'long'"),
                              &d));
    ck_assert(text_equal(d.arg, text_of("x-max-priority")));
    ck_assert(text_equal(d.received, text_of("2")));
    ck_assert(text_equal(d.exists, text_of("10")));
    ck_assert(text_equal(d.exists_type, text_of("long")));
    ck_assert(difference_read(WORDS("durable", "'true'", "'false'"), &d));
    ck_assert(text_equal(d.exists, text_of("false")));
    ck_assert_uint_eq(d.exists_type.n, 0);
    ck_assert(!difference_read("PRECONDITION_FAILED - invalid arg 'x-max-priority'", &d));
}
END_TEST

/* Each difference is taken over once; the same one again means that taking it over does not help.
 */
START_TEST(differences_are_taken_over_once)
{
    static const char *const words[] = {
        WORDS("durable", "'true'", "'false'"),
        WORDS("auto_delete", "'false'", "'true'"),
        WORDS("internal", "'false'", "'true'"),
        WORDS("type", "'direct'", "'topic'"),
        WORDS("x-dead-letter-exchange", "none", "the value '' of type 'longstr'"),
        WORDS("x-max-length", "none", "the value '5' of type 'long'"),
        WORDS("x-single-active-consumer", "none", "the value 'true' of type 'bool'"),
    };
    struct shape s;
    shape_init(&s);
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        ck_assert_msg(take(&s, words[i]), "%s", words[i]);
        ck_assert_msg(!take(&s, words[i]), "%s", words[i]);
    }
    ck_assert(s.transient && s.auto_delete && s.internal);
    ck_assert_str_eq(s.type, "topic");
    ck_assert_uint_eq(s.n_extra, 3);
    ck_assert_str_eq(s.extra[0].text, "");
    ck_assert_int_eq(s.extra[1].number, 5);
    ck_assert(s.extra[2].kind == SHAPE_BOOL && s.extra[2].number == 1);
}
END_TEST

/* A type that cannot be declared, a value that does not fit and one extra too many are left alone.
 */
START_TEST(what_does_not_fit_is_left)
{
    struct shape s;
    char words[600];
    shape_init(&s);
    ck_assert(!take(&s, WORDS("x-table", "none", "the value '[]' of type 'table'")));
    snprintf(words, sizeof words, WORDS("x-long", "none", "the value '%0300d' of type 'longstr'"),
             1);
    ck_assert(!take(&s, words));
    for (int i = 0; i < SHAPE_EXTRAS; i++) {
        snprintf(words, sizeof words, WORDS("x-%d", "none", "the value '1' of type 'long'"), i);
        ck_assert(take(&s, words));
    }
    ck_assert(!take(&s, WORDS("x-more", "none", "the value '1' of type 'long'")));
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {words_are_taken_apart, differences_are_taken_over_once,
                                  what_does_not_fit_is_left, NULL};
    return suite_of("shape", tests);
}
