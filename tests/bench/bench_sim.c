/*
 * bench-sim [--json] [--runs N] [--jobs N] [--case PART-OF-NAME]: simulated jobs per second of one core.
 *
 * The trace is in memory: 424 keys whose use falls off as 1/rank, durations lognormal around a
 * median per key (1 ms .. 10 s), Poisson arrivals. 64 workers, load 0.8. One run is a whole
 * simulation with its quantiles; the plan, made once per trace, is timed by itself. Printed are the
 * median of the runs, the least and the most, in simulated jobs per second of the thread's CPU time.
 *
 * The peer is the least that a simulation of FIFO can do: the times at which workers are free, in a heap,
 * and a sum; no quantiles, classes, windows or decisions. Memory is the most that the process had,
 * beyond the trace, per job.
 */
#include "base/compiler.h"
#include "base/rng.h"
#include "lib/jobs.h"
#include "sim/sim.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { KEYS = 424, JOBS = 2000000, RUNS = 7, RUNS_MAX = 1000 };

static void fail(const char *what)
{
    fprintf(stderr, "bench-sim: %s\n", what);
    exit(EXIT_FAILURE);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the trace ---- */

static double normal(struct rng *r)
{
    return sqrt(-2 * log(1 - rng_unit(r))) * cos(6.283185307179586 * rng_unit(r));
}

static uint32_t draw_key(struct rng *r, const double *share)
{
    double u = rng_unit(r);
    uint32_t lo = 0, hi = KEYS - 1;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (u <= share[mid])
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static void make_trace(struct jobs *m, size_t n)
{
    struct rng rng = {2026};
    double share[KEYS], median[KEYS], sum = 0, now = 0;
    for (int i = 0; i < KEYS; i++) {
        sum += 1.0 / (i + 1);
        share[i] = sum;
        median[i] = pow(10, 4 * rng_unit(&rng)) * 1000;
    }
    for (int i = 0; i < KEYS; i++)
        share[i] /= sum;
    m->at = malloc(n * sizeof m->at[0]);
    if (m->at == NULL)
        fail("out of memory");
    for (m->n = 0; m->n < n; m->n++) {
        uint32_t key = draw_key(&rng, share);
        now += -log(1 - rng_unit(&rng)) * 10000;
        m->at[m->n] = (struct sim_job){
            .arrival_us = (int64_t)now,
            .duration_us = (int64_t)(median[key] * exp(0.5 * normal(&rng))),
            .size = SIM_NO_SIZE,
            .key = key,
            .producer = SIM_NO_PRODUCER,
        };
    }
}

/* ---- runs ---- */

struct bench {
    struct jobs memory;
    struct sim_source source;
    struct sim_plan *plan;
    struct sim_plan_info info;
    int runs;
    const char *part; /* of the names of the cases that are run */
    json_t *all;      /* NULL: print text */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double run_once(struct bench *b, const struct sim_options *o)
{
    struct sim_result result;
    struct err e;
    double before = cpu_s();
    if (sim_run(b->plan, &b->source, o, &result, &e) != 0)
        fail(e.msg);
    double spent = cpu_s() - before;
    sim_result_fini(&result);
    return (double)b->info.n_evaluation / spent;
}

/* ---- the peer ---- */

enum { WORKERS = 64 };

/* The worker that is free first gets another job. */
static void sift_down(int64_t *heap, int64_t until)
{
    size_t i = 0;
    for (size_t child = 1; child < WORKERS; child = 2 * i + 1) {
        child += child + 1 < WORKERS && heap[child + 1] < heap[child];
        if (heap[child] >= until)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = until;
}

static double plain_fifo(struct bench *b, const struct sim_options *o)
{
    int64_t heap[WORKERS] = {0};
    double before = cpu_s(), sum = 0;
    double compress = o->load * WORKERS * (double)b->info.span_us / b->info.work_us;
    for (size_t i = 0; i < b->memory.n; i++) {
        const struct sim_job *job = &b->memory.at[i];
        int64_t arrival = (int64_t)((double)job->arrival_us / compress);
        int64_t start = heap[0] > arrival ? heap[0] : arrival;
        sift_down(heap, start + job->duration_us);
        sum += (double)(start + job->duration_us - arrival);
    }
    if (sum <= 0)
        fail("the peer has done nothing");
    return (double)b->memory.n / (cpu_s() - before);
}

/* ---- figures ---- */

static void measure(struct bench *b, const char *name,
                    double (*once)(struct bench *b, const struct sim_options *o),
                    const struct sim_options *o)
{
    double rate[RUNS_MAX];
    if (strstr(name, b->part) == NULL)
        return;
    for (int i = 0; i < b->runs; i++)
        rate[i] = once(b, o);
    qsort(rate, (size_t)b->runs, sizeof rate[0], by_value);
    double median = rate[b->runs / 2], least = rate[0], most = rate[b->runs - 1];
    if (b->all != NULL)
        json_object_set_new(
            b->all, name, json_pack("{s:f,s:f,s:f}", "median", median, "min", least, "max", most));
    else
        printf("%-20s %6.2f M jobs/s  (%.2f .. %.2f)\n", name, median / 1e6, least / 1e6,
               most / 1e6);
    fflush(stdout);
}

static void plan(struct bench *b)
{
    struct err e;
    struct sim_split split = {.windows = 7};
    double before = cpu_s();
    b->plan = sim_plan_new(&b->source, &split, &e);
    if (b->plan == NULL)
        fail(e.msg);
    double spent = cpu_s() - before;
    sim_plan_info(b->plan, &b->info);
    if (b->all != NULL)
        json_object_set_new(b->all, "plan_s", json_real(spent));
    else
        printf("%-20s %6.2f s for %zu jobs\n", "plan", spent, b->memory.n);
}

static size_t most_bytes(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (size_t)u.ru_maxrss * 1024;
}

static void tell_memory(const struct bench *b, size_t before)
{
    double per_job = (double)(most_bytes() - before) / (double)b->memory.n;
    if (b->all != NULL)
        json_object_set_new(b->all, "bytes_per_job", json_real(per_job));
    else
        printf("%-20s %6.2f bytes per job beyond the trace\n", "memory", per_job);
}

static void measure_all(struct bench *b)
{
    struct sim_options o, base;
    sim_options_init(&base);
    base.load = 0.8;
    o = base;
    o.router = SIM_FIFO;
    measure(b, "peer: plain fifo", plain_fifo, &o);
    measure(b, "fifo", run_once, &o);
    o = base;
    measure(b, "predictive", run_once, &o);
    o.broker.weighted = true;
    measure(b, "weighted, pausing", run_once, &o);
    o = base;
    o.router = SIM_ORACLE;
    measure(b, "oracle", run_once, &o);
}

int main(int argc, char **argv)
{
    struct bench b = {.runs = RUNS, .part = ""};
    size_t n = JOBS;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            b.runs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc)
            n = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            b.part = argv[++i];
        else
            fail("usage: bench-sim [--json] [--runs N] [--jobs N] [--case PART-OF-NAME]");
    }
    if (b.runs < 1 || b.runs > RUNS_MAX || n < 1000)
        fail("--runs must be 1..1000, --jobs at least 1000");
    b.all = json ? json_object() : NULL;
    make_trace(&b.memory, n);
    b.source = jobs_source(&b.memory);
    size_t before = most_bytes();
    plan(&b);
    measure_all(&b);
    tell_memory(&b, before);
    if (json) {
        json_dumpf(b.all, stdout, JSON_COMPACT);
        puts("");
        json_decref(b.all);
    }
    sim_plan_free(b.plan);
    free(b.memory.at);
    return EXIT_SUCCESS;
}
