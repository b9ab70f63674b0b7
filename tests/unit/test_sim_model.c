/* Random traces through the simulator and through the plain one: every decision is the same. */
#include "base/rng.h"
#include "lib/jobs.h"
#include "lib/sim_model.h"
#include "lib/testmain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_MAX = 400, TRACES = 150 };

struct log {
    struct sim_decision at[JOBS_MAX];
    size_t n;
};

static void note(void *ctx, const struct sim_decision *d)
{
    struct log *log = ctx;
    log->at[log->n++] = *d;
}

static unsigned below(struct rng *r, unsigned n)
{
    return (unsigned)(rng_next(r) % n);
}

/* Few different times and durations, so that much happens at the same moment. */
static size_t make_jobs(struct rng *r, struct sim_job *jobs)
{
    size_t n = 20 + below(r, JOBS_MAX - 20);
    unsigned keys = 1 + below(r, 8), grid_ms = 1 + below(r, 3) * 49;
    int64_t now = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t key = below(r, keys);
        now += (int64_t)below(r, 4) * grid_ms * 1000 * (below(r, 40) == 0 ? 50 : 1);
        jobs[i] = (struct sim_job){
            .arrival_us = now + 5000000,
            .duration_us = (int64_t)(1 + key * key) * 40000 * below(r, 4) + below(r, 2) * 500,
            .size = SIM_NO_SIZE,
            .key = key,
            .producer = SIM_NO_PRODUCER,
        };
    }
    jobs[n - 1].arrival_us++; /* never all at once */
    jobs[0].duration_us++;    /* never without work */
    return n;
}

static int by_key_in_map(void *ctx, struct text key)
{
    return (key.p[1] - '0') % 3 == 0 ? -1 : (key.p[1] - '0') % 3 - 1;
}

static unsigned level_zero(const struct sim_job *job, unsigned levels, unsigned default_level)
{
    return 0;
}

static unsigned level_in_map(const struct sim_job *job, unsigned levels, unsigned default_level)
{
    return job->key % 3 == 0 ? default_level : job->key % 3 - 1;
}

static unsigned level_default(const struct sim_job *job, unsigned levels, unsigned default_level)
{
    return default_level;
}

static void make_options(struct rng *r, struct sim_options *o)
{
    sim_options_init(o);
    o->workers = 1 + below(r, 4);
    o->load = below(r, 3) == 0 ? 0 : 0.5 + below(r, 8) / 10.0;
    o->warm = below(r, 2) == 0;
    o->predictor.levels = 2 + below(r, 3);
    o->predictor.default_level = below(r, o->predictor.levels);
    o->predictor.min_samples = 1 + below(r, 5);
    o->predictor.pooled_min_samples = 5 + below(r, 20);
    o->predictor.boundary_every = 1 + below(r, 16);
    o->predictor.stale_after_ns = below(r, 2) * (1 + below(r, 60)) * MONO_S;
    o->broker.aging_threshold_ns = below(r, 4) == 0 ? 0 : (1 + below(r, 60)) * 100 * MONO_MS;
    o->broker.aging_interval_ns = (1 + below(r, 10)) * 50 * MONO_MS;
    o->broker.weighted = below(r, 2) == 0;
    o->broker.pause = (enum hb_pause)below(r, 3);
    o->map = by_key_in_map;
    o->decided = note;
}

static void check_same(const struct sim_decision *a, const struct sim_decision *b, size_t i)
{
    ck_assert_msg(a->decided_at == b->decided_at && a->job == b->job && a->level == b->level &&
                      a->estimate_ms == b->estimate_ms && strcmp(a->reason, b->reason) == 0 &&
                      a->started_at == b->started_at && a->served_level == b->served_level &&
                      a->worker == b->worker,
                  "start %zu: job %llu at %lld to worker %u from %u (%u %g %s), "
                  "model: job %llu at %lld to worker %u from %u (%u %g %s)",
                  i, (unsigned long long)a->job, (long long)a->started_at, a->worker,
                  a->served_level, a->level, a->estimate_ms, a->reason, (unsigned long long)b->job,
                  (long long)b->started_at, b->worker, b->served_level, b->level, b->estimate_ms,
                  b->reason);
}

static void compare(uint64_t seed, struct model_run *run, enum sim_router router)
{
    struct rng rng = {seed};
    struct sim_job jobs[JOBS_MAX];
    struct jobs memory = {.at = jobs, .n = make_jobs(&rng, jobs)};
    struct sim_source source = jobs_source(&memory);
    struct sim_split split = {.history = below(&rng, 3) * 0.25, .windows = 1 + below(&rng, 4)};
    struct sim_options o;
    struct sim_plan_info info;
    struct sim_result result;
    struct log log = {.n = 0};
    struct err e = {0};
    make_options(&rng, &o);
    o.router = router;
    o.ctx = &log;
    struct sim_plan *plan = sim_plan_new(&source, &split, &e);
    ck_assert_msg(plan != NULL, "%s", e.msg);
    ck_assert_msg(sim_run(plan, &source, &o, &result, &e) == 0, "seed %llu: %s",
                  (unsigned long long)seed, e.msg);
    sim_plan_info(plan, &info);
    run->jobs = jobs;
    run->n_history = info.n_history;
    run->n = memory.n;
    run->options = &o;
    struct sim_decision *model = model_decisions(run);
    ck_assert_uint_eq(log.n, info.n_evaluation);
    for (size_t i = 0; i < log.n; i++)
        check_same(&log.at[i], &model[i], i);
    free(model);
    sim_result_fini(&result);
    sim_plan_free(plan);
}

/* The predictor's levels, with and without aging, pausing, weights, a history, a load. */
START_TEST(predictive_runs_decide_as_the_model)
{
    for (uint64_t seed = 1; seed <= TRACES; seed++)
        compare(seed, &(struct model_run){.predicts = true}, SIM_FLOW);
}
END_TEST

START_TEST(fifo_runs_decide_as_the_model)
{
    for (uint64_t seed = 1; seed <= TRACES; seed++)
        compare(seed, &(struct model_run){.reason = "fifo", .level_of = level_zero}, SIM_FIFO);
}
END_TEST

/* Levels by hand, charged by the running averages of the levels where there are weights. */
START_TEST(mapped_runs_decide_as_the_model)
{
    for (uint64_t seed = 1; seed <= TRACES; seed++)
        compare(seed, &(struct model_run){.reason = "map", .level_of = level_in_map}, SIM_MAP);
}
END_TEST

/* In shadow mode all share a level, and nothing is estimated. */
START_TEST(shadow_runs_decide_as_the_model)
{
    for (uint64_t seed = 1; seed <= TRACES; seed++)
        compare(seed, &(struct model_run){.reason = "shadow", .level_of = level_default},
                SIM_SHADOW);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("sim_model");
    TCase *t = tcase_create("sim_model");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, predictive_runs_decide_as_the_model);
    tcase_add_test(t, fifo_runs_decide_as_the_model);
    tcase_add_test(t, mapped_runs_decide_as_the_model);
    tcase_add_test(t, shadow_runs_decide_as_the_model);
    suite_add_tcase(s, t);
    return s;
}
