#include "policy/policy.h"

#include "lib/testmain.h"

#include <math.h>

static const uint16_t weights[3] = {8, 3, 1};

static struct policy *weighted(void)
{
    struct policy_paper_options o = {.n_levels = 3, .weights = weights};
    return policy_paper_new(&o);
}

static struct policy_msg message(unsigned level, double estimate_ms)
{
    struct policy_msg m = {.estimate_ms = estimate_ms, .original_level = (uint8_t)level};
    list_init(&m.link);
    return m;
}

static struct policy_level_stats stats(const struct policy *p, unsigned level)
{
    struct policy_level_stats s;
    policy_level_stats(p, level, &s);
    return s;
}

/* Pulls N messages from levels that never run dry: each is placed again at once. */
static void serve(struct policy *p, struct policy_msg *m, int n_messages, int n_pulls)
{
    for (int i = 0; i < n_messages; i++)
        policy_place(p, &m[i], 0);
    for (int i = 0; i < n_pulls; i++)
        policy_place(p, policy_next(p, 0), 0);
}

/* Worker time is shared 2/3, 1/4, 1/12 within one message's cost, though the pulls differ by far
 * more than the weights (costs 2, 30 and 600 ms; 200,000 pulls). */
START_TEST(worker_time_follows_the_weights)
{
    struct policy *p = weighted();
    struct policy_msg m[3] = {message(0, 2), message(1, 30), message(2, 600)};
    serve(p, m, 3, 200000);
    double total = 0;
    for (unsigned i = 0; i < 3; i++)
        total += stats(p, i).charged_ms;
    for (unsigned i = 0; i < 3; i++)
        ck_assert_double_eq_tol(stats(p, i).charged_ms, total * weights[i] / 12, 600 * 8);
    ck_assert_uint_gt(stats(p, 0).pulls, 50 * stats(p, 2).pulls);
    policy_free(p);
}
END_TEST

/* Equal costs: the first 12 pulls serve 8, 3 and 1 messages; ties go to the higher level. */
START_TEST(equal_costs_make_rounds_of_the_weights)
{
    struct policy *p = weighted();
    struct policy_msg m[3] = {message(0, 1), message(1, 1), message(2, 1)};
    static const char expected[] = "012001000100";
    char order[sizeof expected] = "";
    for (int i = 0; i < 3; i++)
        policy_place(p, &m[i], 0);
    for (int i = 0; i < 12; i++) {
        struct policy_msg *got = policy_next(p, 0);
        order[i] = (char)('0' + got->level);
        policy_place(p, got, 0);
    }
    ck_assert_str_eq(order, expected);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_double_eq(stats(p, i).clock_ms, 1);
    policy_free(p);
}
END_TEST

/* A level that alone has work is served all the time. */
START_TEST(no_worker_idles_while_a_level_has_work)
{
    struct policy *p = weighted();
    struct policy_msg m = message(2, 100);
    serve(p, &m, 1, 1000);
    ck_assert_uint_eq(stats(p, 2).pulls, 1000);
    policy_free(p);
}
END_TEST

/* A level that was idle for 100 pulls gets its share from then on, and no more. */
START_TEST(an_idle_level_saves_no_credit)
{
    static const uint16_t equal[2] = {1, 1};
    struct policy_paper_options o = {.n_levels = 2, .weights = equal};
    struct policy *p = policy_paper_new(&o);
    struct policy_msg busy = message(1, 10), late = message(0, 10);
    serve(p, &busy, 1, 100);
    policy_place(p, &late, 0);
    int n_late = 0;
    for (int i = 0; i < 10; i++) {
        struct policy_msg *got = policy_next(p, 0);
        n_late += got == &late;
        policy_place(p, got, 0);
    }
    ck_assert_int_ge(n_late, 4);
    ck_assert_int_le(n_late, 6);
    policy_free(p);
}
END_TEST

/* The clock of a level that ran dry ahead of the others stays ahead. */
START_TEST(a_level_keeps_its_debt)
{
    struct policy *p = weighted();
    struct policy_msg long_one = message(2, 100), again = message(2, 100);
    policy_place(p, &long_one, 0);
    policy_next(p, 0);
    ck_assert_double_eq(stats(p, 2).clock_ms, 100);
    policy_place(p, &again, 0);
    ck_assert_double_eq(stats(p, 2).clock_ms, 100);
    policy_free(p);
}
END_TEST

/* A pull that is undone is refunded to the last unit, though the level's average moved since. */
START_TEST(a_refund_is_exact)
{
    struct policy *p = weighted();
    struct policy_msg m[4] = {message(1, -1), message(1, -1), message(1, 1.0 / 3), message(2, 7)};
    for (int i = 0; i < 4; i++)
        policy_place(p, &m[i], 0);
    policy_next(p, 0); /* level 1: charged 1 ms, nothing known */
    policy_done(p, &m[0], 41.5);
    policy_next(p, 0); /* level 2 */
    struct policy_level_stats before = stats(p, 1);
    ck_assert_ptr_eq(policy_next(p, 0), &m[1]); /* charged 41.5 */
    policy_done(p, &m[0], 1000);
    policy_put_back(p, &m[1]);
    struct policy_level_stats after = stats(p, 1);
    ck_assert_double_eq(after.clock_ms, before.clock_ms);
    ck_assert_double_eq(after.charged_ms, before.charged_ms);
    ck_assert_uint_eq(after.pulls, before.pulls);
    ck_assert_ptr_eq(policy_next(p, 0), &m[1]);
    policy_free(p);
}
END_TEST

/* Undone in the pull that emptied the level: it has the very clock back, since nobody else was
 * served. */
START_TEST(a_refund_of_the_last_message_is_exact)
{
    struct policy *p = weighted();
    struct policy_msg m = message(0, 80);
    policy_place(p, &m, 0);
    policy_next(p, 0);
    policy_put_back(p, &m);
    ck_assert_double_eq(stats(p, 0).clock_ms, 0);
    policy_free(p);
}
END_TEST

/* Without an estimate the level's average is charged: 1 ms at first, then the first duration, then
 * a running average of gain 0.05. */
START_TEST(the_average_of_the_level_is_charged_without_an_estimate)
{
    struct policy *p = weighted();
    struct policy_msg m = message(2, -1);
    policy_place(p, &m, 0);
    policy_next(p, 0);
    ck_assert_double_eq(stats(p, 2).charged_ms, 1);
    policy_done(p, &m, 40);
    policy_place(p, &m, 0);
    policy_next(p, 0);
    ck_assert_double_eq(stats(p, 2).charged_ms, 41);
    policy_done(p, &m, 140);
    ck_assert_double_eq(stats(p, 2).average_ms, 45);
    policy_place(p, &m, 0);
    policy_next(p, 0);
    ck_assert_double_eq(stats(p, 2).charged_ms, 86);
    policy_free(p);
}
END_TEST

/* A cost is at least 1 ms and always finite, so a clock always advances and never runs away. */
START_TEST(a_wrong_cost_counts_as_1_ms)
{
    static const double wrong[] = {0, 0.25, -1, (double)NAN, (double)INFINITY};
    struct policy *p = weighted();
    for (int i = 0; i < 5; i++) {
        struct policy_msg m = message(2, wrong[i]);
        policy_place(p, &m, 0);
        policy_next(p, 0);
        ck_assert_double_eq(stats(p, 2).charged_ms, i + 1);
    }
    policy_free(p);
}
END_TEST

/* An all-zero level has no average: it is charged 1 ms. */
START_TEST(zero_durations_leave_the_average_unset)
{
    struct policy *p = weighted();
    struct policy_msg m = message(0, -1);
    policy_place(p, &m, 0);
    policy_next(p, 0);
    policy_done(p, &m, 0);
    policy_place(p, &m, 0);
    policy_next(p, 0);
    ck_assert_double_eq(stats(p, 0).charged_ms, 2);
    policy_free(p);
}
END_TEST

/* Promotion into an idle level wakes it: no credit is saved that way either. */
START_TEST(a_promotion_wakes_an_idle_level)
{
    struct policy_paper_options o = {
        .n_levels = 3, .weights = weights, .aging_threshold = 5, .aging_interval = 1, .slice = 8};
    struct policy *p = policy_paper_new(&o);
    struct policy_msg busy = message(2, 50), low = message(1, 1);
    for (int i = 0; i < 10; i++) {
        policy_place(p, &busy, 0);
        policy_next(p, 0);
    }
    policy_place(p, &low, 0);
    policy_tick(p, 5);
    ck_assert_uint_eq(low.level, 0);
    ck_assert_double_eq(stats(p, 0).clock_ms, 450);
    policy_free(p);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {worker_time_follows_the_weights,
                                  equal_costs_make_rounds_of_the_weights,
                                  no_worker_idles_while_a_level_has_work,
                                  an_idle_level_saves_no_credit,
                                  a_level_keeps_its_debt,
                                  a_refund_is_exact,
                                  a_refund_of_the_last_message_is_exact,
                                  the_average_of_the_level_is_charged_without_an_estimate,
                                  a_wrong_cost_counts_as_1_ms,
                                  zero_durations_leave_the_average_unset,
                                  a_promotion_wakes_an_idle_level,
                                  NULL};
    return suite_of("shares", tests);
}
