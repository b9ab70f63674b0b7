/* What a worker sees of an AMQP message. */
#include "sidecar/workers.h"

#include "lib/testmain.h"

#include <string.h>

/* Raw properties: flags, then the list. */
static struct message *message(const char *props, size_t n)
{
    struct message *m = message_new(text_of("ex"), text_of("key"), (struct text){props, n}, 0);
    ck_assert_ptr_nonnull(m);
    return m;
}

#define MESSAGE(literal) message((literal), sizeof(literal) - 1)

static void expect(const struct buf *headers, const char *name, const char *value)
{
    struct rpc_submission s = {.headers = {headers->p, headers->n}};
    struct text got = rpc_submission_header(&s, name);
    if (value == NULL)
        ck_assert_msg(got.p == NULL, "%s: %.*s", name, (int)got.n, got.p);
    else
        ck_assert_msg(text_equal(got, text_of(value)), "%s: %.*s, not %s", name, (int)got.n,
                      got.p != NULL ? got.p : "", value);
}

/* Texts and numbers come through as texts, each under its name. */
START_TEST(texts_and_numbers_are_headers)
{
    struct buf out = {0};
    struct message *m = MESSAGE("\x20\x00\0\0\0\x38"
                                "\1sS\0\0\0\2hi"
                                "\1iI\0\0\0\7"
                                "\1tt\1"
                                "\1dd\x3f\xe0\0\0\0\0\0\0"
                                "\1xx\0\0\0\1y"
                                "\1vV"
                                "\1FF\0\0\0\0"
                                "\1eS\0\0\0\0");
    ck_assert(!m->props.opaque);
    ck_assert_int_eq(workers_headers(m, &out), 0);
    expect(&out, "s", "hi");
    expect(&out, "i", "7");
    expect(&out, "t", "1");
    expect(&out, "d", "0.5");
    expect(&out, "x", "y");
    expect(&out, "v", NULL);
    expect(&out, "F", NULL);
    expect(&out, "e", "");
    message_free(m);
    buf_fini(&out);
}
END_TEST

/* A number is the one that was sent, written as people write it: ids of 64 bits are no doubles. */
START_TEST(numbers_are_exact)
{
    struct buf out = {0};
    struct message *m = MESSAGE("\x20\x00\0\0\0\x46"
                                "\1ll\0\x20\0\0\0\0\0\1"
                                "\1nl\x80\0\0\0\0\0\0\0"
                                "\1uL\xff\xff\xff\xff\xff\xff\xff\xff"
                                "\1TT\0\x20\0\0\0\0\0\1"
                                "\1dd\x3f\xb9\x99\x99\x99\x99\x99\x9a"
                                "\1DD\2\0\0\0\7"
                                "\1iI\0\1\x86\xa0");
    ck_assert(!m->props.opaque);
    ck_assert_int_eq(workers_headers(m, &out), 0);
    expect(&out, "l", "9007199254740993");
    expect(&out, "n", "-9223372036854775808");
    expect(&out, "u", "18446744073709551615");
    expect(&out, "T", "9007199254740993");
    expect(&out, "d", "0.1");
    expect(&out, "D", "0.07");
    expect(&out, "i", "100000");
    message_free(m);
    buf_fini(&out);
}
END_TEST

/* The properties have names of their own, and what is no UTF-8 is left out. */
START_TEST(properties_are_headers)
{
    struct buf out = {0};
    /* content type, correlation id, reply to, message id, type, app id */
    struct message *m = MESSAGE("\x86\xa8"
                                "\4text\1c\2\xff\xfe\1m\1t\1a");
    ck_assert(!m->props.opaque);
    ck_assert_int_eq(workers_headers(m, &out), 0);
    expect(&out, "content-type", "text");
    expect(&out, "correlation-id", "c");
    expect(&out, "reply-to", NULL);
    expect(&out, "message-id", "m");
    expect(&out, "type", "t");
    expect(&out, "app-id", "a");
    expect(&out, "content-encoding", NULL);
    message_free(m);
    buf_fini(&out);
}
END_TEST

/* A list that cannot be read has nothing to show. */
START_TEST(opaque_properties_are_none)
{
    struct buf out = {0};
    struct message *m = MESSAGE("\x80\x00\x09short");
    ck_assert(m->props.opaque);
    ck_assert_int_eq(workers_headers(m, &out), 0);
    ck_assert_uint_eq(out.n, 0);
    message_free(m);
    buf_fini(&out);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {texts_and_numbers_are_headers, numbers_are_exact,
                                  properties_are_headers, opaque_properties_are_none, NULL};
    return suite_of("workers", tests);
}
