#include "policy/policy.h"

#include "lib/testmain.h"

#define S MONO_S

static struct policy_msg message(unsigned level, mono_t arrived_at)
{
    struct policy_msg m = {
        .estimate_ms = -1, .original_level = (uint8_t)level, .arrived_at = arrived_at};
    list_init(&m.link);
    return m;
}

/* The defaults of the reference's server: 5 s, looked at every half second. */
static struct policy *aged(bool pause_when_behind)
{
    struct policy_paper_options o = {.n_levels = 3,
                                     .aging_threshold = 5 * S,
                                     .aging_interval = S / 2,
                                     .pause_when_behind = pause_when_behind,
                                     .slice = 256};
    return policy_paper_new(&o);
}

static struct policy_level_stats stats(const struct policy *p, unsigned level)
{
    struct policy_level_stats s;
    policy_level_stats(p, level, &s);
    return s;
}

/* A message climbs one level after each threshold, and then stays at the top. */
START_TEST(a_message_climbs_one_level_per_threshold)
{
    struct policy *p = aged(false);
    struct policy_msg m = message(2, 0);
    policy_place(p, &m, 0);
    ck_assert_int_eq(policy_tick(p, 0), 5 * S);
    ck_assert_int_eq(policy_tick(p, 5 * S - 1), 5 * S);
    ck_assert_uint_eq(m.level, 2);
    ck_assert_int_eq(policy_tick(p, 5 * S), 10 * S);
    ck_assert_uint_eq(m.level, 1);
    ck_assert_int_eq(m.placed_at, 5 * S);
    ck_assert_int_eq(policy_tick(p, 10 * S), MONO_NEVER);
    ck_assert_uint_eq(m.level, 0);
    ck_assert_uint_eq(m.original_level, 2);
    ck_assert_uint_eq(stats(p, 0).promoted, 1);
    policy_free(p);
}
END_TEST

/* Passes lie an interval apart: what becomes due between two waits for the later one. */
START_TEST(passes_keep_their_interval)
{
    struct policy *p = aged(false);
    struct policy_msg first = message(1, 0), second = message(1, 0);
    policy_place(p, &first, 0);
    policy_place(p, &second, S / 10);
    ck_assert_int_eq(policy_tick(p, 5 * S), 5 * S + S / 2);
    ck_assert_uint_eq(first.level, 0);
    ck_assert_uint_eq(second.level, 1);
    ck_assert_int_eq(policy_tick(p, 5 * S + S / 2), MONO_NEVER);
    ck_assert_uint_eq(second.level, 0);
    policy_free(p);
}
END_TEST

/* Passes are counted from when the levels were last empty. */
START_TEST(an_empty_policy_restarts_the_passes)
{
    struct policy *p = aged(false);
    struct policy_msg m = message(1, 0);
    policy_place(p, &m, 0);
    ck_assert_ptr_eq(policy_next(p, S / 4), &m);
    policy_place(p, &m, S / 4);
    ck_assert_int_eq(policy_tick(p, S), 5 * S + S / 4);
    policy_free(p);
}
END_TEST

/* Two messages of one level keep their order on the way up, behind what is there already. */
START_TEST(promotion_keeps_the_order)
{
    struct policy *p = aged(false);
    struct policy_msg top = message(0, 0), a = message(1, 0), b = message(1, 0);
    policy_place(p, &a, 0);
    policy_place(p, &b, 1);
    policy_place(p, &top, 2);
    policy_tick(p, 6 * S);
    ck_assert_ptr_eq(policy_next(p, 6 * S), &top);
    ck_assert_ptr_eq(policy_next(p, 6 * S), &a);
    ck_assert_ptr_eq(policy_next(p, 6 * S), &b);
    policy_free(p);
}
END_TEST

/* A pull that is undone leaves the message where its age counts: the old one behind a younger
 * put-back is found. */
START_TEST(an_old_message_behind_a_put_back_is_found)
{
    struct policy *p = aged(false);
    struct policy_msg old = message(1, 0), young = message(1, 0);
    policy_place(p, &old, 0);
    policy_place(p, &young, 4 * S);
    policy_next(p, 4 * S);
    policy_next(p, 4 * S);
    policy_put_back(p, &old);
    policy_put_back(p, &young);
    policy_tick(p, 5 * S);
    ck_assert_uint_eq(old.level, 0);
    ck_assert_uint_eq(young.level, 1);
    policy_free(p);
}
END_TEST

/* A failed attempt is at its original level again, with a new wait, and not promoted. */
START_TEST(a_requeued_message_is_not_promoted)
{
    struct policy *p = aged(false);
    struct policy_msg m = message(1, 0);
    policy_place(p, &m, 0);
    policy_tick(p, 5 * S);
    ck_assert_uint_eq(stats(p, 0).promoted, 1);
    policy_next(p, 5 * S);
    policy_requeue(p, &m, 6 * S);
    ck_assert_uint_eq(m.level, 1);
    ck_assert_uint_eq(stats(p, 1).promoted, 0);
    policy_tick(p, 10 * S);
    ck_assert_uint_eq(m.level, 1);
    policy_free(p);
}
END_TEST

/* A pass of 1,000 promotions is made in slices; what is pulled or comes in between does no harm. */
START_TEST(a_long_pass_is_made_in_slices)
{
    enum { N = 1000 };
    static struct policy_msg m[N + 1];
    struct policy *p = aged(false);
    for (int i = 0; i < N; i++) {
        m[i] = message(i % 2 == 0 ? 2 : 1, 0);
        policy_place(p, &m[i], 0);
    }
    ck_assert_int_eq(policy_tick(p, 5 * S), 5 * S);
    ck_assert_uint_eq(stats(p, 2).waiting, N / 2 - 256);
    m[N] = message(2, 5 * S);
    policy_place(p, &m[N], 5 * S);
    ck_assert_ptr_eq(policy_next(p, 5 * S), &m[1]);
    int ticks = 1;
    while (policy_tick(p, 5 * S + ticks) <= 5 * S + ticks)
        ticks++;
    ck_assert_int_eq(ticks, 3);
    ck_assert_ptr_null(policy_check(p));
    ck_assert_uint_eq(stats(p, 2).waiting, 1);
    ck_assert_uint_eq(stats(p, 1).waiting, N / 2);
    ck_assert_uint_eq(stats(p, 0).waiting, N / 2 - 1);
    policy_free(p);
}
END_TEST

/* Long waiting of native messages alone does not pause; a pass then promotes just one. */
START_TEST(pausing_promotes_one_per_pass)
{
    struct policy *p = aged(true);
    struct policy_msg native = message(0, 0), low[50];
    policy_place(p, &native, 0);
    for (int i = 0; i < 50; i++) {
        low[i] = message(1, 4 * S);
        policy_place(p, &low[i], 4 * S);
    }
    ck_assert_int_eq(policy_tick(p, 9 * S), 9 * S + S / 2);
    ck_assert_uint_eq(low[0].level, 0);
    ck_assert_uint_eq(stats(p, 0).promoted, 1);
    policy_free(p);
}
END_TEST

/* After one promotion the flood stops, until the promoted message is served. */
START_TEST(pausing_stops_while_the_level_above_is_behind)
{
    struct policy *p = aged(true);
    struct policy_msg native = message(0, 0), low[3];
    policy_place(p, &native, 0);
    for (int i = 0; i < 3; i++) {
        low[i] = message(1, 0);
        policy_place(p, &low[i], 0);
    }
    policy_tick(p, 5 * S);
    for (mono_t at = 5 * S + S / 2; at < 10 * S; at += S / 2)
        policy_tick(p, at);
    ck_assert_uint_eq(stats(p, 0).promoted, 1);
    ck_assert_ptr_eq(policy_next(p, 10 * S), &native);
    policy_tick(p, 10 * S); /* the promoted one is at the front, and arrived 10 s ago */
    ck_assert_uint_eq(stats(p, 0).promoted, 1);
    ck_assert_ptr_eq(policy_next(p, 10 * S), &low[0]);
    policy_tick(p, 10 * S + S / 2);
    ck_assert_uint_eq(low[1].level, 0);
    ck_assert_uint_eq(low[2].level, 1);
    policy_free(p);
}
END_TEST

/* Behind is measured from the arrival at the broker, not from the last placement. */
START_TEST(pausing_counts_the_age_from_arrival)
{
    struct policy *p = aged(true);
    struct policy_msg fresh = message(0, 5 * S), low[2] = {message(1, 0), message(1, 0)};
    policy_place(p, &low[0], 0);
    policy_place(p, &low[1], 0);
    policy_tick(p, 5 * S); /* promotes low[0] into an empty level */
    ck_assert_uint_eq(low[0].level, 0);
    policy_tick(p, 5 * S + S / 2); /* its placement is young, but its arrival is 5.5 s ago */
    ck_assert_uint_eq(low[1].level, 1);

    policy_next(p, 6 * S);
    policy_place(p, &fresh, 6 * S);
    policy_tick(p, 6 * S); /* nothing promoted above: free to climb */
    ck_assert_uint_eq(low[1].level, 0);
    policy_free(p);
}
END_TEST

/* A front that came lately means that the level is not behind, whatever stands after it. */
START_TEST(pausing_looks_at_the_front_alone)
{
    struct policy *p = aged(true);
    struct policy_msg fresh = message(0, 4 * S), low[2] = {message(1, 0), message(1, 0)};
    policy_place(p, &low[0], 0);
    policy_place(p, &low[1], 0);
    policy_place(p, &fresh, 4 * S);
    policy_tick(p, 5 * S);
    policy_tick(p, 5 * S + S / 2);
    ck_assert_uint_eq(low[0].level, 0);
    ck_assert_uint_eq(low[1].level, 0);
    policy_free(p);
}
END_TEST

/* Level 2's promotion is checked against level 1 before level 1 moves. */
START_TEST(several_levels_may_promote_in_one_pass_bottom_first)
{
    struct policy *p = aged(true);
    struct policy_msg a = message(1, 0), b = message(2, 0);
    policy_place(p, &a, 0);
    policy_place(p, &b, 0);
    policy_tick(p, 5 * S);
    ck_assert_uint_eq(a.level, 0);
    ck_assert_uint_eq(b.level, 1);
    policy_free(p);
}
END_TEST

/* Thresholds and times at the ends of their ranges mean never, and overflow nothing. */
START_TEST(extreme_values_mean_never)
{
    struct policy_paper_options o = {
        .n_levels = 2, .aging_threshold = INT64_MAX, .aging_interval = INT64_MAX, .slice = 1};
    struct policy *p = policy_paper_new(&o);
    struct policy_msg m = message(1, 10);
    policy_place(p, &m, 10);
    ck_assert_int_eq(policy_tick(p, 10), MONO_NEVER);
    ck_assert_int_eq(policy_tick(p, INT64_MAX - 1), MONO_NEVER);
    ck_assert_uint_eq(m.level, 1);
    policy_free(p);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {a_message_climbs_one_level_per_threshold,
                                  passes_keep_their_interval,
                                  an_empty_policy_restarts_the_passes,
                                  promotion_keeps_the_order,
                                  an_old_message_behind_a_put_back_is_found,
                                  a_requeued_message_is_not_promoted,
                                  a_long_pass_is_made_in_slices,
                                  pausing_promotes_one_per_pass,
                                  pausing_stops_while_the_level_above_is_behind,
                                  pausing_counts_the_age_from_arrival,
                                  pausing_looks_at_the_front_alone,
                                  several_levels_may_promote_in_one_pass_bottom_first,
                                  extreme_values_mean_never,
                                  NULL};
    return suite_of("aging", tests);
}
