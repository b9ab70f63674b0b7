/* Tiny schedules, worked out by hand: one per rule. */
#include "lib/jobs.h"
#include "lib/testmain.h"
#include "sim/arms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_MAX = 64 };

/* A job of the given arrival and duration in ms. */
#define JOB(key_, at_ms, for_ms)                                                       \
    {                                                                                  \
        .arrival_us = (at_ms)*1000, .duration_us = (for_ms)*1000, .size = SIM_NO_SIZE, \
        .key = (key_), .producer = SIM_NO_PRODUCER                                     \
    }

struct world {
    struct sim_options o;
    struct sim_split split;
    struct jobs jobs;
    struct sim_decision log[JOBS_MAX];
    size_t n;
    struct sim_result result;
    struct sim_plan_info info;
    struct err e;
    int code;
};

static void note(void *ctx, const struct sim_decision *d)
{
    struct world *w = ctx;
    w->log[w->n++] = *d;
}

/* Key k0 is level 0, k1 level 1, ...; a k9 has none. */
static int level_of_key(void *ctx, struct text key)
{
    return key.p[1] == '9' ? -1 : key.p[1] - '0';
}

static void world_init(struct world *w, struct sim_job *jobs, size_t n)
{
    *w = (struct world){.split = {.windows = 1}, .jobs = {.at = jobs, .n = n}};
    sim_options_init(&w->o);
    w->o.workers = 1;
    w->o.router = SIM_MAP;
    w->o.map = level_of_key;
    w->o.decided = note;
    w->o.ctx = w;
}

static void run(struct world *w)
{
    struct sim_source s = jobs_source(&w->jobs);
    sim_result_fini(&w->result);
    w->jobs.next = w->n = 0;
    struct sim_plan *plan = sim_plan_new(&s, &w->split, &w->e);
    w->code = plan == NULL ? w->e.code : sim_run(plan, &s, &w->o, &w->result, &w->e);
    if (plan != NULL)
        sim_plan_info(plan, &w->info);
    sim_plan_free(plan);
}

/* The order in which the jobs started, as digits of their rows. */
static const char *order(const struct world *w)
{
    static char text[JOBS_MAX + 1];
    size_t i = 0;
    for (; i < w->n; i++)
        text[i] = (char)('a' + w->log[i].job);
    text[i] = '\0';
    return text;
}

static int64_t started_ms(const struct world *w, uint64_t job)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->log[i].job == job)
            return w->log[i].started_at / MONO_MS;
    return -1;
}

/* While a (100 ms) runs, b, c and d come; the level decides, then the arrival. */
START_TEST(shorter_levels_go_first)
{
    struct sim_job jobs[] = {JOB(0, 0, 100), JOB(2, 10, 10), JOB(1, 20, 10), JOB(0, 30, 10),
                             JOB(0, 40, 10)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    run(&w);
    ck_assert_int_eq(w.code, 0);
    ck_assert_str_eq(order(&w), "adecb");
    ck_assert_int_eq(started_ms(&w, 1), 130);
    ck_assert_uint_eq(w.result.max_waiting, 4);
    /* latencies 100, 130, 110, 80, 80 */
    ck_assert_double_eq_tol(w.result.all.mean_ms, 100, 1e-9);
    ck_assert_double_eq(w.result.all.p50_ms, 100);
    ck_assert_double_eq(w.result.all.p99_ms, 130);
    ck_assert_double_eq(w.result.all.max_wait_ms, 120);
    ck_assert_double_eq_tol(w.result.all.mean_wait_ms, (0 + 120 + 100 + 70 + 70) / 5.0, 1e-9);
    ck_assert_double_eq_tol(w.result.all.mean_slowdown, (1 + 13 + 11 + 8 + 8) / 5.0, 1e-9);
    ck_assert_int_eq(w.result.ended_at, 140 * MONO_MS);
    ck_assert_double_eq(w.result.utilisation, 1);
    sim_result_fini(&w.result);
}
END_TEST

/* The same in the order of arrival. */
START_TEST(fifo_takes_no_notice_of_levels)
{
    struct sim_job jobs[] = {JOB(0, 0, 100), JOB(2, 10, 10), JOB(1, 20, 10), JOB(0, 30, 10)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.router = SIM_FIFO;
    run(&w);
    ck_assert_str_eq(order(&w), "abcd");
    ck_assert_str_eq(w.log[3].reason, "fifo");
    ck_assert_double_lt(w.log[3].estimate_ms, 0);
    sim_result_fini(&w.result);
}
END_TEST

/* c arrives at the very moment at which a completes: the worker is handed to b first. */
START_TEST(completion_comes_before_an_arrival_of_the_same_time)
{
    struct sim_job jobs[] = {JOB(0, 0, 100), JOB(2, 10, 10), JOB(0, 100, 10)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    run(&w);
    ck_assert_str_eq(order(&w), "abc");
    sim_result_fini(&w.result);
}
END_TEST

/* Both workers complete at 100; a's began first, so it is the first one idle. */
START_TEST(completions_of_the_same_time_come_in_the_order_of_their_starts)
{
    struct sim_job jobs[] = {JOB(0, 0, 100), JOB(0, 50, 50), JOB(0, 60, 5), JOB(0, 60, 5)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.workers = 2;
    run(&w);
    ck_assert_uint_eq(w.log[2].job, 2);
    ck_assert_uint_eq(w.log[2].worker, 0);
    ck_assert_uint_eq(w.log[3].worker, 1);
    sim_result_fini(&w.result);
}
END_TEST

/* Of three idle workers the one that is idle for longest gets the next job: 0, 1, 2, then 0. */
START_TEST(longest_idle_worker_is_next)
{
    struct sim_job jobs[] = {JOB(0, 0, 5), JOB(0, 10, 5), JOB(0, 20, 5), JOB(0, 30, 5)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.workers = 3;
    run(&w);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(w.log[i].worker, i % 3);
    sim_result_fini(&w.result);
}
END_TEST

/*
 * Nothing waited any more when b started, at 130: passes are made at 630, 1130 and 1630. c waits in
 * level 2 from 150 on and has waited for 1000 at 1150; the pass of 1630 moves it to level 1, behind
 * d, which is there since 1550, and before e, which comes at 1650.
 */
START_TEST(passes_are_counted_from_when_the_queues_were_empty)
{
    struct sim_job jobs[] = {JOB(0, 0, 10), JOB(0, 130, 1600), JOB(2, 150, 10), JOB(1, 1550, 10),
                             JOB(9, 1650, 10)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.broker.aging_threshold_ns = MONO_S;
    run(&w);
    ck_assert_str_eq(order(&w), "abdce");
    ck_assert_uint_eq(w.log[3].level, 2);
    ck_assert_uint_eq(w.log[3].served_level, 1);
    ck_assert_uint_eq(w.result.promotions, 1);
    w.o.broker.aging_threshold_ns = 0;
    run(&w);
    ck_assert_str_eq(order(&w), "abdec");
    ck_assert_uint_eq(w.result.promotions, 0);
    sim_result_fini(&w.result);
}
END_TEST

/* a ends at 1500, a pass's time, at which b has waited for 1000: b is still in its level. When a ends a
 * microsecond later, it is not. */
START_TEST(completion_comes_before_a_pass_of_the_same_time)
{
    struct sim_job jobs[] = {JOB(0, 0, 1500), JOB(2, 500, 10)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.broker.aging_threshold_ns = MONO_S;
    run(&w);
    ck_assert_uint_eq(w.log[1].served_level, 2);
    jobs[0].duration_us++;
    run(&w);
    ck_assert_uint_eq(w.log[1].served_level, 1);
    sim_result_fini(&w.result);
}
END_TEST

/* The same with an arrival: c, which starts nothing, does not come after the pass. */
START_TEST(arrival_comes_before_a_pass_of_the_same_time)
{
    struct sim_job jobs[] = {JOB(0, 0, 1700), JOB(2, 500, 10), JOB(1, 1500, 10)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.broker.aging_threshold_ns = MONO_S;
    run(&w);
    ck_assert_str_eq(order(&w), "acb");
    jobs[2].arrival_us++;
    run(&w);
    ck_assert_str_eq(order(&w), "abc");
    sim_result_fini(&w.result);
}
END_TEST

/* Weights 2 and 1, equal costs: two of level 0 for each of level 1. Levels by map are charged by
 * their running average, which is 10 ms from the first completion of each on. */
START_TEST(weights_share_worker_time)
{
    struct sim_job jobs[9];
    struct world w;
    for (unsigned i = 0; i < ARRAY_SIZE(jobs); i++)
        jobs[i] = (struct sim_job)JOB(i % 2, 0, 10);
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.predictor.levels = 2;
    w.o.broker.weighted = true;
    w.o.broker.weights[0] = 2;
    w.o.broker.weights[1] = 1;
    run(&w);
    /* a at once, costs 1/2 = .5; b: 0 < .5, costs 1; c: .5 < 1, costs 10/2; d: 1 < 5.5, costs 10; e: to
     * 10.5; f: 11 is more than 10.5: g, 15.5; f, 21; i, 20.5; h */
    ck_assert_int_eq(w.code, 0);
    ck_assert_str_eq(order(&w), "abcdegfih");
    sim_result_fini(&w.result);
}
END_TEST

/* Two keys that are always as long; the boundaries of the pool part them. */
START_TEST(predictions_are_learned_from_completions)
{
    struct sim_job jobs[60];
    struct world w;
    for (unsigned i = 0; i < ARRAY_SIZE(jobs); i++)
        jobs[i] = (struct sim_job)JOB(i % 2, i * 1000, i % 2 == 0 ? 10 : 800);
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.router = SIM_FLOW;
    w.o.predictor.levels = 2;
    w.o.predictor.pooled_min_samples = 10;
    w.o.predictor.min_samples = 15;
    w.o.predictor.boundary_every = 1;
    run(&w);
    ck_assert_int_eq(w.code, 0);
    ck_assert_str_eq(w.log[9].reason, "unready");
    ck_assert_str_eq(w.log[10].reason, "cold_key");
    ck_assert_str_eq(w.log[58].reason, "predicted");
    ck_assert_uint_eq(w.log[58].level, 0);
    ck_assert_uint_eq(w.log[59].level, 1);
    ck_assert_double_eq_tol(w.log[59].estimate_ms, 800, 150);
    ck_assert(w.result.learns);
    ck_assert_uint_eq(w.result.predictor.lookups, 60);
    ck_assert_uint_eq(w.result.predictor.observations, 60);
    sim_result_fini(&w.result);
}
END_TEST

/* What the history taught is there at the first arrival; a cold run begins from nothing. */
START_TEST(history_teaches_warm_runs)
{
    struct sim_job jobs[60];
    struct world w;
    for (unsigned i = 0; i < ARRAY_SIZE(jobs); i++)
        jobs[i] = (struct sim_job)JOB(i % 2, i * 1000, i % 2 == 0 ? 10 : 800);
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.split.history = 0.5;
    w.o.router = SIM_FLOW;
    w.o.predictor.levels = 2;
    w.o.predictor.pooled_min_samples = 10;
    w.o.predictor.min_samples = 10;
    run(&w);
    ck_assert_int_eq(w.code, 0);
    ck_assert_uint_eq(w.n, 30);
    ck_assert_str_eq(w.log[0].reason, "predicted");
    ck_assert_uint_eq(w.result.predictor.observations, 60);
    w.o.warm = false;
    run(&w);
    ck_assert_str_eq(w.log[0].reason, "unready");
    ck_assert_uint_eq(w.result.predictor.observations, 30);
    sim_result_fini(&w.result);
}
END_TEST

/* Evaluation: 10 jobs of 50 ms over 900 ms on 2 workers. At load 0.5 C = 0.5 x 2 x 900 / 500 = 1.8. */
START_TEST(load_compresses_arrivals)
{
    struct sim_job jobs[20];
    struct world w;
    for (unsigned i = 0; i < ARRAY_SIZE(jobs); i++)
        jobs[i] = (struct sim_job)JOB(0, 5000 + 100 * i, 50);
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.split.history = 0.5;
    w.o.workers = 2;
    w.o.load = 0.5;
    run(&w);
    ck_assert_int_eq(w.code, 0);
    ck_assert_double_eq_tol(w.result.compress, 1.8, 1e-12);
    ck_assert_uint_eq(w.n, 10);
    ck_assert_int_eq(w.log[9].decided_at, 500 * MONO_MS);
    ck_assert_int_eq(w.log[1].decided_at, 55555555);
    sim_result_fini(&w.result);
}
END_TEST

/* Rows: the first 4 of 8. Time: what arrives in the first half of 0..1000. */
START_TEST(split_by_rows_or_by_time)
{
    struct sim_job jobs[] = {JOB(0, 0, 1),   JOB(0, 100, 1), JOB(0, 200, 1), JOB(0, 300, 1),
                             JOB(0, 400, 1), JOB(0, 499, 1), JOB(0, 500, 1), JOB(0, 1000, 1)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.split = (struct sim_split){.history = 0.5, .windows = 2};
    run(&w);
    ck_assert_uint_eq(w.info.n_history, 4);
    ck_assert_uint_eq(w.result.windows[0].all.n, 2);
    ck_assert_uint_eq(w.result.windows[1].all.n, 2);
    w.split.windows_by = SIM_BY_TIME; /* of 400..1000: up to 700 */
    run(&w);
    ck_assert_uint_eq(w.result.windows[0].all.n, 3);
    ck_assert_uint_eq(w.result.windows[1].all.n, 1);
    w.split.by = SIM_BY_TIME;
    run(&w);
    ck_assert_uint_eq(w.info.n_history, 6);
    ck_assert_uint_eq(w.info.n_evaluation, 2);
    ck_assert_int_eq(w.info.span_us, 500000);
    sim_result_fini(&w.result);
}
END_TEST

/* Durations 1..9 ms: the terciles are the third and the sixth; what equals one belongs above it. */
START_TEST(oracle_and_classes_go_by_the_terciles)
{
    struct sim_job jobs[9];
    struct world w;
    for (unsigned i = 0; i < 9; i++)
        jobs[i] = (struct sim_job)JOB(0, i * 100, i + 1);
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.router = SIM_ORACLE;
    run(&w);
    ck_assert_int_eq(w.info.class_us[0], 3000);
    ck_assert_int_eq(w.info.class_us[1], 6000);
    static const unsigned level[] = {0, 0, 1, 1, 1, 2, 2, 2, 2};
    for (unsigned i = 0; i < 9; i++)
        ck_assert_uint_eq(w.log[i].level, level[i]);
    ck_assert_uint_eq(w.result.by_class[0].n, 2);
    ck_assert_uint_eq(w.result.by_class[1].n, 3);
    ck_assert_uint_eq(w.result.by_class[2].n, 4);
    ck_assert_double_eq(w.result.by_class[2].p50_ms, 7);
    sim_result_fini(&w.result);
}
END_TEST

/* k1's median in the history is long, k2 is not in it: the default level. */
START_TEST(static_history_knows_the_keys_of_the_history)
{
    struct sim_job jobs[] = {JOB(0, 0, 1),   JOB(0, 1, 1),  JOB(0, 2, 10),  JOB(1, 3, 50),
                             JOB(1, 4, 50),  JOB(1, 5, 50), JOB(0, 10, 50), JOB(1, 110, 1),
                             JOB(2, 210, 1), JOB(0, 310, 1)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.split.history = 0.6;
    w.o.router = SIM_HISTORY;
    run(&w); /* terciles 1 (rank 2) and 50 (rank 4): k0's median 1 is level 1 */
    ck_assert_int_eq(w.code, 0);
    ck_assert_uint_eq(w.log[0].level, 1);
    ck_assert_uint_eq(w.log[1].level, 2);
    ck_assert_uint_eq(w.log[2].level, 1);
    ck_assert_str_eq(w.log[0].reason, "history");
    sim_result_fini(&w.result);
}
END_TEST

/* Each key its level and its share, however many wait in one: k1 and k2 go in turn with k0. */
START_TEST(queues_share_alike)
{
    struct sim_job jobs[] = {JOB(0, 0, 10), JOB(0, 0, 10), JOB(0, 0, 10),
                             JOB(0, 0, 10), JOB(1, 0, 10), JOB(2, 0, 10)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.router = SIM_QUEUES;
    run(&w);
    ck_assert_int_eq(w.code, 0);
    ck_assert_str_eq(order(&w), "aefbcd");
    sim_result_fini(&w.result);
}
END_TEST

static unsigned group_of_key(void *ctx, struct text key)
{
    return (unsigned)(key.p[1] - '0');
}

START_TEST(groups_are_summed_up)
{
    struct sim_job jobs[] = {JOB(0, 0, 10), JOB(1, 100, 20), JOB(1, 200, 40), JOB(2, 300, 5)};
    struct world w;
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.group = group_of_key;
    run(&w);
    ck_assert_uint_eq(w.result.by_group[1].n, 2);
    ck_assert_double_eq(w.result.by_group[1].mean_ms, 30);
    ck_assert_double_eq(w.result.by_group[1].p50_ms, 20);
    ck_assert_double_eq(w.result.by_group[2].p99_ms, 5);
    ck_assert_uint_eq(w.result.by_group[3].n, 0);
    sim_result_fini(&w.result);
}
END_TEST

/* A key has the same level wherever it comes in the trace; another seed deals anew. */
START_TEST(random_levels_hang_on_seed_and_key)
{
    struct sim_job jobs[20], backwards[20];
    unsigned level[10], differ = 0;
    struct world w, v;
    for (unsigned i = 0; i < 20; i++) {
        jobs[i] = (struct sim_job)JOB(i % 10, i * 10, 1);
        backwards[i] = (struct sim_job)JOB(9 - i % 10, i * 10, 1);
    }
    world_init(&w, jobs, 20);
    world_init(&v, backwards, 20);
    w.o.router = v.o.router = SIM_RANDOM;
    run(&w);
    run(&v);
    for (unsigned i = 0; i < 10; i++) {
        level[i] = w.log[i].level;
        ck_assert_uint_eq(level[i], w.log[i + 10].level);
        ck_assert_uint_eq(level[i], v.log[9 - i].level);
    }
    w.o.seed = 1;
    run(&w);
    for (unsigned i = 0; i < 10; i++)
        differ += level[i] != w.log[i].level;
    ck_assert_uint_gt(differ, 0);
    sim_result_fini(&w.result);
    sim_result_fini(&v.result);
}
END_TEST

/* ---- bad input ---- */

static void expect_error(struct world *w, const char *part)
{
    run(w);
    ck_assert_int_lt(w->code, 0);
    ck_assert_msg(strstr(w->e.msg, part) != NULL, "'%s' is not in '%s'", part, w->e.msg);
}

START_TEST(bad_options_are_named)
{
    struct sim_job jobs[] = {JOB(0, 0, 10), JOB(1, 100, 20)};
    struct world good, w;
    world_init(&good, jobs, ARRAY_SIZE(jobs));
#define BAD(change, part)       \
    do {                        \
        w = good;               \
        w.o.ctx = &w;           \
        change;                 \
        expect_error(&w, part); \
    } while (0)
    BAD(w.o.workers = 0, "workers");
    BAD(w.o.workers = 1000001, "workers");
    BAD(w.o.load = (double)NAN, "load");
    BAD(w.o.load = -1, "load");
    BAD(w.o.load = (double)INFINITY, "load");
    BAD(w.o.map = NULL, "map");
    BAD(w.o.predictor.levels = 0, "levels");
    BAD(w.o.predictor.decay = 2, "decay");
    BAD(w.o.broker.aging_interval_ns = 0, "aging_interval");
    BAD(w.split.windows = 0, "windows");
    BAD(w.split.history = 1, "history");
    BAD(w.split.history = (double)NAN, "history");
#undef BAD
}
END_TEST

START_TEST(bad_traces_are_named)
{
    struct sim_job jobs[] = {JOB(0, 10, 10), JOB(1, 100, 20), JOB(1, 50, 20)};
    struct world w;
    world_init(&w, jobs, 3);
    expect_error(&w, "job 2 arrives before");
    w.jobs.n = 0;
    expect_error(&w, "no jobs");
    w.jobs.n = 2;
    jobs[1].duration_us = -1;
    expect_error(&w, "job 1");
    jobs[1].duration_us = 0;
    jobs[0].duration_us = 0;
    w.o.load = 0.5;
    expect_error(&w, "take no time");
    jobs[0].duration_us = 10;
    jobs[1].arrival_us = 10000;
    expect_error(&w, "all arrive at once");
    w.o.load = 0;
    jobs[0].duration_us = SIM_MAX_US;
    expect_error(&w, "73 years");
    w.o.router = SIM_QUEUES;
    jobs[0].duration_us = 10;
    jobs[1].key = 255;
    expect_error(&w, "queue per key");
}
END_TEST

/* What waits is bounded: more is an error, not a run out of memory. */
START_TEST(overload_is_told)
{
    struct sim_job jobs[40];
    struct world w;
    for (unsigned i = 0; i < 40; i++)
        jobs[i] = (struct sim_job)JOB(0, i, 1000);
    world_init(&w, jobs, 40);
    w.o.broker.max_messages = 10;
    expect_error(&w, "more than 10 jobs wait");
}
END_TEST

static bool stop(void *ctx, uint64_t n)
{
    return false;
}

START_TEST(runs_can_be_stopped)
{
    static struct sim_job jobs[20000];
    struct world w;
    for (unsigned i = 0; i < ARRAY_SIZE(jobs); i++)
        jobs[i] = (struct sim_job)JOB(0, i, 0);
    world_init(&w, jobs, ARRAY_SIZE(jobs));
    w.o.decided = NULL;
    w.o.progress = stop;
    run(&w);
    ck_assert_int_eq(w.code, SIM_STOPPED);
}
END_TEST

/* ---- arms ---- */

START_TEST(every_arm_can_be_applied)
{
    for (const struct sim_arm *arm = sim_arms; arm->name != NULL; arm++) {
        struct sim_options o;
        struct err e;
        sim_options_init(&o);
        ck_assert_msg(sim_arm_apply(&o, arm->name, &e) == 0, "%s: %s", arm->name, e.msg);
        ck_assert_int_eq(o.router, arm->router);
    }
}
END_TEST

START_TEST(arms_take_settings)
{
    struct sim_options o;
    struct err e;
    sim_options_init(&o);
    ck_assert_int_eq(sim_arm_apply(&o, "weighted:predictor.min_samples=5:weights=4/2:levels=4", &e),
                     0);
    ck_assert_uint_eq(o.predictor.min_samples, 5);
    ck_assert_uint_eq(o.predictor.levels, 4);
    ck_assert(o.broker.weighted);
    ck_assert_uint_eq(o.broker.weights[0], 4);
    ck_assert_uint_eq(o.broker.weights[1], 2);
    ck_assert_uint_eq(o.broker.weights[2], 1);
    ck_assert_int_eq(o.broker.pause, HB_PAUSE_NEVER);
    ck_assert_int_eq(sim_arm_apply(&o, "p75:aging_threshold=1s", &e), 0);
    ck_assert_int_eq(o.predictor.summary, HB_SUMMARY_P75);
    ck_assert_int_eq(o.broker.aging_threshold_ns, MONO_S);
}
END_TEST

START_TEST(unknown_names_are_answered_with_the_nearest)
{
    static const struct {
        const char *spec, *part;
    } bad[] = {
        {"predictiv", "nearest one is 'predictive'"},
        {"FIFO", "there is no arm 'FIFO'"},
        {"", "there is no arm ''"},
        {"fifo:min_sample=3", "nearest one is 'predictor.min_samples'"},
        {"fifo:min_samples", "form NAME=VALUE"},
        {"fifo:min_samples=x", "predictor.min_samples: 'x'"},
        {"fifo:min_samples=-1", "predictor.min_samples: '-1'"},
        {"fifo:stale_after=5", "predictor.stale_after: '5'"},
        {"fifo:weights=8/0/1", "broker.weights: '8/0/1'"},
        {"fifo:weights=8//1", "broker.weights"},
        {"fifo:summary=mode", "predictor.summary: 'mode'"},
        {"fifo:warm=yes", "warm: 'yes'"},
        {"fifo:decay=nan", "predictor.decay: 'nan'"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct sim_options o;
        struct err e = {0};
        sim_options_init(&o);
        ck_assert_int_eq(sim_arm_apply(&o, bad[i].spec, &e), ERR_INVALID);
        ck_assert_msg(strstr(e.msg, bad[i].part) != NULL, "'%s': '%s'", bad[i].spec, e.msg);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("sim");
    TCase *t = tcase_create("sim");
    tcase_add_test(t, shorter_levels_go_first);
    tcase_add_test(t, fifo_takes_no_notice_of_levels);
    tcase_add_test(t, completion_comes_before_an_arrival_of_the_same_time);
    tcase_add_test(t, completions_of_the_same_time_come_in_the_order_of_their_starts);
    tcase_add_test(t, longest_idle_worker_is_next);
    tcase_add_test(t, passes_are_counted_from_when_the_queues_were_empty);
    tcase_add_test(t, completion_comes_before_a_pass_of_the_same_time);
    tcase_add_test(t, arrival_comes_before_a_pass_of_the_same_time);
    tcase_add_test(t, weights_share_worker_time);
    tcase_add_test(t, predictions_are_learned_from_completions);
    tcase_add_test(t, history_teaches_warm_runs);
    tcase_add_test(t, load_compresses_arrivals);
    tcase_add_test(t, split_by_rows_or_by_time);
    tcase_add_test(t, oracle_and_classes_go_by_the_terciles);
    tcase_add_test(t, static_history_knows_the_keys_of_the_history);
    tcase_add_test(t, queues_share_alike);
    tcase_add_test(t, groups_are_summed_up);
    tcase_add_test(t, random_levels_hang_on_seed_and_key);
    tcase_add_test(t, bad_options_are_named);
    tcase_add_test(t, bad_traces_are_named);
    tcase_add_test(t, overload_is_told);
    tcase_add_test(t, runs_can_be_stopped);
    tcase_add_test(t, every_arm_can_be_applied);
    tcase_add_test(t, arms_take_settings);
    tcase_add_test(t, unknown_names_are_answered_with_the_nearest);
    suite_add_tcase(s, t);
    return s;
}
