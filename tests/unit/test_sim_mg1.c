/*
 * One server, two classes, Poisson arrivals: the mean waits of FIFO and of non-preemptive priority are
 * known in closed form (the paper's equations 6 and 7). The nine cells are those of its Table 18.
 */
#include "lib/jobs.h"
#include "lib/testmain.h"
#include "sim/sim.h"
#include "trace/gen_mg1.h"

#include <math.h>
#include <stdlib.h>

enum { JOBS = 400000, SEEDS = 6 };

/* Keys k0 and k1, short and long, are levels 0 and 1. */
static int level_of_key(void *ctx, struct text key)
{
    return key.p[1] - '0';
}

static unsigned group_of_key(void *ctx, struct text key)
{
    return (unsigned)(key.p[1] - '0');
}

struct waits {
    double fifo, brief, lengthy, all; /* ms */
};

static void simulate(struct jobs *memory, enum sim_router router, struct sim_result *out)
{
    struct sim_source source = jobs_source(memory);
    struct sim_split split = {.windows = 1};
    struct sim_options o;
    struct err e = {0};
    sim_options_init(&o);
    o.workers = 1;
    o.router = router;
    o.map = level_of_key;
    o.group = group_of_key;
    o.broker.aging_threshold_ns = 0;
    memory->next = 0;
    struct sim_plan *plan = sim_plan_new(&source, &split, &e);
    ck_assert_msg(plan != NULL && sim_run(plan, &source, &o, out, &e) == 0, "%s", e.msg);
    sim_plan_free(plan);
}

static struct waits measure(const struct mg1_options *o, struct trace_job *made,
                            struct sim_job *jobs)
{
    struct jobs memory = {.at = jobs, .n = o->jobs};
    struct sim_result fifo, priority;
    ck_assert_int_eq(mg1_generate(o, made), 0);
    for (size_t i = 0; i < o->jobs; i++)
        jobs[i] = (struct sim_job){.arrival_us = made[i].arrival_us,
                                   .duration_us = made[i].duration_us,
                                   .size = SIM_NO_SIZE,
                                   .key = made[i].key,
                                   .producer = SIM_NO_PRODUCER};
    simulate(&memory, SIM_FIFO, &fifo);
    simulate(&memory, SIM_MAP, &priority);
    struct waits w = {fifo.all.mean_wait_ms, priority.by_group[0].mean_wait_ms,
                      priority.by_group[1].mean_wait_ms, priority.all.mean_wait_ms};
    sim_result_fini(&fifo);
    sim_result_fini(&priority);
    return w;
}

/* The mean over the seeds is within four of its standard errors, and that is no wide margin. */
static void check(const char *what, const double *measured, double expected)
{
    double mean = 0, square = 0;
    for (int i = 0; i < SEEDS; i++)
        mean += measured[i] / SEEDS;
    for (int i = 0; i < SEEDS; i++)
        square += (measured[i] - mean) * (measured[i] - mean);
    double error = sqrt(square / (SEEDS - 1) / SEEDS);
    ck_assert_msg(error < 0.06 * expected, "%s: an error of %g at %g says nothing", what, error,
                  expected);
    ck_assert_msg(fabs(mean - expected) < 4 * error + 0.002 * expected,
                  "%s: %g measured, %g expected, standard error %g", what, mean, expected, error);
}

/* Table 18: the mean waits relative to FIFO, as printed. */
static const struct {
    double short_share, ratio, load, brief, lengthy, all;
} cells[] = {{0.9, 10, 0.5, 0.66, 1.31, 0.72},  {0.9, 10, 0.8, 0.32, 1.61, 0.45},
             {0.9, 10, 0.95, 0.09, 1.82, 0.26}, {0.9, 100, 0.5, 0.52, 1.04, 0.57},
             {0.9, 100, 0.8, 0.21, 1.07, 0.30}, {0.9, 100, 0.95, 0.05, 1.09, 0.16},
             {0.5, 100, 0.5, 0.50, 1.00, 0.75}, {0.5, 100, 0.8, 0.20, 1.01, 0.60},
             {0.5, 100, 0.95, 0.05, 1.01, 0.53}};

START_TEST(waits_are_those_of_the_closed_forms)
{
    struct trace_job *made = malloc(JOBS * sizeof *made);
    struct sim_job *jobs = malloc(JOBS * sizeof *jobs);
    double fifo[SEEDS], brief[SEEDS], lengthy[SEEDS], all[SEEDS];
    struct mg1_options o;
    struct mg1_waits form;
    for (unsigned s = 0; s < SEEDS; s++) {
        mg1_options_init(&o, s + 1);
        o.short_share = cells[_i].short_share;
        o.ratio = cells[_i].ratio;
        o.load = cells[_i].load;
        o.jobs = (size_t)(JOBS * 0.05 / (1 - o.load)); /* where it is busier, more is needed */
        struct waits w = measure(&o, made, jobs);
        fifo[s] = w.fifo;
        brief[s] = w.brief;
        lengthy[s] = w.lengthy;
        all[s] = w.all;
    }
    ck_assert_int_eq(mg1_waits(&o, &form), 0);
    check("fifo", fifo, form.fifo_us / 1000);
    check("short", brief, form.short_us / 1000);
    check("long", lengthy, form.long_us / 1000);
    check("all", all, form.all_us / 1000);
    ck_assert_double_eq_tol(form.short_us / form.fifo_us, cells[_i].brief, 0.00501);
    ck_assert_double_eq_tol(form.long_us / form.fifo_us, cells[_i].lengthy, 0.00501);
    ck_assert_double_eq_tol(form.all_us / form.fifo_us, cells[_i].all, 0.00501);
    free(made);
    free(jobs);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("sim_mg1");
    TCase *t = tcase_create("sim_mg1");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, waits_are_those_of_the_closed_forms, 0, ARRAY_SIZE(cells));
    suite_add_tcase(s, t);
    return s;
}
