#include "base/err.h"

#include "lib/testmain.h"

/* The outer layer's words come first and the code survives. */
START_TEST(prefix_keeps_code_and_inner_words)
{
    struct err e = {0};
    ck_assert_int_eq(err_set(&e, ERR_REFUSED, "access to '%s' denied", "q"), ERR_REFUSED);
    ck_assert_int_eq(err_prefix(&e, "queue %s", "intake"), ERR_REFUSED);
    ck_assert_str_eq(e.msg, "queue intake: access to 'q' denied");
}
END_TEST

/* A text longer than the buffer is cut, never overrun. */
START_TEST(long_messages_are_cut)
{
    struct err e = {0};
    for (int i = 0; i < 200; i++) {
        err_set(&e, ERR_INVALID, "%s", e.msg);
        err_prefix(&e, "prefix %d", i);
    }
    ck_assert_uint_lt(strlen(e.msg), sizeof e.msg);
    ck_assert_int_eq(e.code, ERR_INVALID);
}
END_TEST

/* Every code has words of its own. */
START_TEST(every_code_has_a_name)
{
    const char *seen[16] = {0};
    int n = 0;
#define CHECK_NAME(name, value, text)              \
    for (int i = 0; i < n; i++)                    \
        ck_assert_str_ne(seen[i], err_name(name)); \
    seen[n++] = err_name(name);
    ERR_MAP(CHECK_NAME)
#undef CHECK_NAME
    ck_assert_str_eq(err_name(0), "ok");
    ck_assert_str_eq(err_name(77), "unknown error");
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {prefix_keeps_code_and_inner_words, long_messages_are_cut,
                                  every_code_has_a_name, NULL};
    return suite_of("err", tests);
}
