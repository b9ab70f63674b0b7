#include "amqp/backoff.h"

#include "lib/testmain.h"

/* Delays double up to the limit and stay there; the random part is the second half. */
START_TEST(delays_double_up_to_the_limit)
{
    struct backoff b;
    backoff_init(&b, 100, 1000);
    const mono_t expected[] = {100, 200, 400, 800, 1000, 1000, 1000};
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(backoff_down(&b, 0, 0.0), expected[i] / 2);
    mono_t almost = backoff_down(&b, 0, 0.999999);
    ck_assert_int_ge(almost, 998);
    ck_assert_int_lt(almost, 1000);
}
END_TEST

/* What failed right after coming up goes on growing; what was up for five seconds starts over. */
START_TEST(only_a_proven_up_time_starts_over)
{
    struct backoff b;
    backoff_init(&b, 100, 1000);
    ck_assert_int_eq(backoff_down(&b, 0, 0), 50);
    backoff_up(&b, 1000);
    ck_assert_int_eq(backoff_down(&b, 1000 + 5 * MONO_S - 1, 0), 100);
    backoff_up(&b, 1000);
    ck_assert_int_eq(backoff_down(&b, 1000 + 5 * MONO_S, 0), 50);
    ck_assert_int_eq(backoff_down(&b, INT64_MAX, 0), 100);
}
END_TEST

/* The largest limits do not overflow, however often it fails. */
START_TEST(huge_limits_do_not_overflow)
{
    struct backoff b;
    backoff_init(&b, 1, 365 * 24 * 3600 * MONO_S);
    mono_t last = 0;
    for (int i = 0; i < 1000; i++) {
        mono_t d = backoff_down(&b, 0, 0);
        ck_assert_int_ge(d, last);
        last = d;
    }
    ck_assert_int_eq(last, 365 * 24 * 3600 * MONO_S / 2);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {delays_double_up_to_the_limit, only_a_proven_up_time_starts_over,
                                  huge_limits_do_not_overflow, NULL};
    return suite_of("backoff", tests);
}
