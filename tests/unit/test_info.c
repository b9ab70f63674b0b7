#include "trace/info.h"

#include "lib/testmain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct trace_set set;

/* A job a second, of this key and duration. */
static void add(const char *key, double ms)
{
    struct trace_job j = {.arrival_us = (int64_t)set.n * 1000000,
                          .duration_us = llround(ms * 1000),
                          .size = TRACE_NO_SIZE,
                          .producer = TRACE_NO_PRODUCER};
    ck_assert_int_eq(names_add(&set.keys, text_of(key), &j.key, NULL), 0);
    ck_assert_int_eq(trace_set_add(&set, &j), 0);
}

static struct info info_and_end(uint64_t seed)
{
    struct info i;
    ck_assert_int_eq(info_of(&set, seed, &i), 0);
    trace_set_fini(&set);
    return i;
}

static void eight_jobs(void)
{
    trace_set_init(&set);
    add("a", 10);
    add("a", 20);
    add("b", 100);
    add("b", 400);
    add("a", 15);
    add("b", 200);
    add("c", 40);
    add("a", 0.5);
}

#define CLOSE(a, b) ck_assert_double_eq_tol(a, b, 1e-9)

/* Eight jobs, worked out by hand. */
START_TEST(work_and_durations)
{
    eight_jobs();
    struct info i = info_and_end(1);
    ck_assert_uint_eq(i.jobs, 8);
    ck_assert_uint_eq(i.keys, 3);
    CLOSE(i.span_s, 7);
    CLOSE(i.work_s, 0.7855);
    CLOSE(i.concurrency, 0.7855 / 7);
    CLOSE(i.top_share, 400 / 785.5); /* 1 % of eight is one job */
    CLOSE(i.ms.min, 0.5);
    CLOSE(i.ms.p25, 10);
    CLOSE(i.ms.p50, 20);
    CLOSE(i.ms.p75, 100);
    CLOSE(i.ms.p90, 400);
    CLOSE(i.ms.max, 400);
    /* a: 0.5 10 15 20, spread 2; b: 100 200 400, 2; c: 40, 1 */
    CLOSE(i.spread_of_keys.p25, 1);
    CLOSE(i.spread_of_keys.p50, 2);
    CLOSE(i.spread_of_jobs.p25, 2);
}
END_TEST

/* The first half teaches: a 10 20, b 100 400; median 20, terciles 20 and 100. The second half, 15 200
 * 40 0.5, is predicted by 20 20 20 20, and by 10 100 20 10. */
START_TEST(predictions_of_the_second_half)
{
    eight_jobs();
    struct info i = info_and_end(1);
    ck_assert_uint_eq(i.taught, 4);
    ck_assert_uint_eq(i.predicted, 4);
    ck_assert_uint_eq(i.keys_taught, 2);
    CLOSE(i.terciles_ms[0], 20);
    CLOSE(i.terciles_ms[1], 100);
    CLOSE(i.global.median_error, 1); /* of 0.415, 1, 3.32, 4.32 (0.5 ms counts as 1) */
    CLOSE(i.global.within_2x, 0.5);
    CLOSE(i.global.tier_accuracy, 0.25);
    CLOSE(i.global.mean_error_ms, 224.5 / 4);
    CLOSE(i.per_key.median_error, 1); /* of 0.585, 1, 1, 3.32 */
    CLOSE(i.per_key.within_2x, 0.75);
    CLOSE(i.per_key.tier_accuracy, 1);
    CLOSE(i.per_key.mean_error_ms, 134.5 / 4);
    CLOSE(i.jobs_unseen, 0.25);
    /* No key has 20 jobs. */
    ck_assert_uint_eq(i.keys_routable, 0);
    CLOSE(i.jobs_routable, 0);
    ck_assert_int_eq(memcmp(&i.gated, &i.global, sizeof i.gated), 0);
}
END_TEST

/* A key is good with 20 jobs and a spread of 16; not with 19, not with more. */
START_TEST(gates_are_where_they_should_be)
{
    trace_set_init(&set);
    for (int i = 0; i < 20; i++) {
        add("good", i == 19 ? 16 : 1); /* of 20, the p99 is the longest */
        add("wide", i == 19 ? 16.001 : 1);
        if (i < 19)
            add("few", 5);
        add("fast", i == 19 ? 16 : 0.1); /* the floor: 16 over 1 ms */
    }
    size_t n = set.n;
    for (size_t i = 0; i < n; i++)
        add(i % 2 == 0 ? "good" : "wide", 4);
    struct info i = info_and_end(1);
    ck_assert_uint_eq(i.keys_taught, 4);
    ck_assert_uint_eq(i.keys_routable, 2);
    CLOSE(i.jobs_routable, (double)((n + 1) / 2) / (double)n);
}
END_TEST

/* All near pairs whose cost differs by more than 2x are rightly ordered, or tied: (15, 0.5) have one
 * key. (200, 40) are pairs although the key c is new: it is predicted as all are. */
START_TEST(near_pairs_are_sampled_with_a_seed)
{
    eight_jobs();
    struct info a = info_and_end(1);
    eight_jobs();
    struct info b = info_and_end(1);
    eight_jobs();
    struct info c = info_and_end(2);
    ck_assert_int_eq(memcmp(&a, &b, sizeof a), 0);
    ck_assert_uint_ne(a.pairs.sampled, c.pairs.sampled);
    ck_assert_uint_gt(a.pairs.sampled, 1000);
    ck_assert_uint_eq(a.pairs.different, a.pairs.sampled); /* there are no others */
    CLOSE(a.pairs.wrong, 0);
    CLOSE(a.pairs.right + a.pairs.tied, 1);
    ck_assert_double_gt(a.pairs.tied, 0.05);
    ck_assert_double_lt(a.pairs.tied, 0.3);
}
END_TEST

/* A key whose cost turns round is ordered wrongly; jobs alike are no pairs. */
START_TEST(wrong_pairs_are_seen)
{
    trace_set_init(&set);
    for (int i = 0; i < 100; i++)
        add(i % 2 == 0 ? "x" : "y", i % 2 == 0 ? 10 : 100);
    for (int i = 0; i < 100; i++)
        add(i % 2 == 0 ? "x" : "y", i % 2 == 0 ? 100 : 10);
    struct info i = info_and_end(1);
    CLOSE(i.pairs.wrong, 1);
    ck_assert_uint_gt(i.pairs.sampled, i.pairs.different);
    trace_set_init(&set);
    for (int k = 0; k < 100; k++)
        add("x", k % 2 == 0 ? 10 : 20);
    i = info_and_end(1);
    ck_assert_uint_eq(i.pairs.different, 0);
    CLOSE(i.pairs.right, 0);
}
END_TEST

/* One job, jobs of no time, jobs at one moment: nothing is divided by 0. */
START_TEST(degenerate_traces_have_numbers)
{
    trace_set_init(&set);
    add("x", 0);
    struct info i = info_and_end(1);
    ck_assert_uint_eq(i.taught, 0);
    CLOSE(i.concurrency, 0);
    CLOSE(i.top_share, 0);
    trace_set_init(&set);
    add("x", 0);
    add("y", 0);
    set.jobs[1].arrival_us = 0;
    i = info_and_end(1);
    ck_assert_uint_eq(i.taught, 1);
    CLOSE(i.per_key.median_error, 0);
    CLOSE(i.concurrency, 0);
    CLOSE(i.spread_of_keys.p90, 1);
    ck_assert(isfinite(i.pairs.right));
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {work_and_durations,
                                  predictions_of_the_second_half,
                                  gates_are_where_they_should_be,
                                  near_pairs_are_sampled_with_a_seed,
                                  wrong_pairs_are_seen,
                                  degenerate_traces_have_numbers,
                                  NULL};
    return suite_of("info", tests);
}
