#include "trace/gen_mg1.h"
#include "trace/gen_serverless.h"
#include "trace/gen_toy.h"

#include "lib/testmain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The paper's Table 18, row by row, to its printed digits. */
START_TEST(closed_forms_are_the_papers)
{
    static const struct {
        double p, r, load, work, short_wait, long_wait, all;
    } rows[] = {
        {0.9, 10, 0.5, 0.47, 0.66, 1.31, 0.72},   {0.9, 10, 0.8, 0.47, 0.32, 1.61, 0.45},
        {0.9, 10, 0.95, 0.47, 0.09, 1.82, 0.26},  {0.9, 100, 0.5, 0.08, 0.52, 1.04, 0.57},
        {0.9, 100, 0.8, 0.08, 0.21, 1.07, 0.30},  {0.9, 100, 0.95, 0.08, 0.05, 1.09, 0.16},
        {0.5, 100, 0.5, 0.01, 0.50, 1.00, 0.75},  {0.5, 100, 0.8, 0.01, 0.20, 1.01, 0.60},
        {0.5, 100, 0.95, 0.01, 0.05, 1.01, 0.53},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct mg1_options o;
        struct mg1_waits w;
        mg1_options_init(&o, 1);
        o.short_share = rows[i].p;
        o.ratio = rows[i].r;
        o.load = rows[i].load;
        ck_assert_int_eq(mg1_waits(&o, &w), 0);
        ck_assert_double_eq_tol(w.short_work, rows[i].work, 0.006);
        ck_assert_double_eq_tol(w.short_us / w.fifo_us, rows[i].short_wait, 0.0051);
        ck_assert_double_eq_tol(w.long_us / w.fifo_us, rows[i].long_wait, 0.0051);
        ck_assert_double_eq_tol(w.all_us / w.fifo_us, rows[i].all, 0.0051);
    }
}
END_TEST

static struct trace_job *jobs_new(size_t n)
{
    struct trace_job *jobs = calloc(n, sizeof *jobs);
    ck_assert_ptr_nonnull(jobs);
    return jobs;
}

/* One server in order of arrival waits as the formula says: Lindley's recursion over the jobs. */
START_TEST(jobs_of_two_classes_wait_as_the_closed_form_says)
{
    struct mg1_options o;
    struct mg1_waits w;
    mg1_options_init(&o, 7);
    o.load = 0.5; /* where a million jobs are enough for a per cent or two */
    struct trace_job *jobs = jobs_new(o.jobs);
    ck_assert_int_eq(mg1_generate(&o, jobs), 0);
    ck_assert_int_eq(mg1_waits(&o, &w), 0);
    double wait = 0, sum = 0;
    size_t n_short = 0;
    for (size_t i = 0; i < o.jobs; i++) {
        if (i > 0) {
            wait +=
                (double)(jobs[i - 1].duration_us - (jobs[i].arrival_us - jobs[i - 1].arrival_us));
            wait = fmax(wait, 0);
        }
        sum += wait;
        n_short += jobs[i].key == MG1_SHORT;
        ck_assert_int_eq(jobs[i].duration_us, jobs[i].key == MG1_SHORT ? 10000 : 100000);
    }
    ck_assert_double_eq_tol(sum / (double)o.jobs / w.fifo_us, 1, 0.03);
    ck_assert_double_eq_tol((double)n_short / (double)o.jobs, 0.9, 0.002);
    free(jobs);
    o.load = 1;
    ck_assert_int_eq(mg1_generate(&o, NULL), ERR_INVALID);
    o.load = (double)NAN;
    ck_assert_int_eq(mg1_waits(&o, &w), ERR_INVALID);
}
END_TEST

START_TEST(toys_are_as_the_figures_say)
{
    struct toy_options o;
    toy_options_init(&o, 3);
    ck_assert_uint_eq(toy_backlog_jobs(&o), 144);
    ck_assert_uint_eq(toy_overload_jobs(&o), 18000); /* 120 % of 100 a second for 150 s */
    struct trace_job *jobs = jobs_new(18000);
    size_t n[TOY_N_CLASSES] = {0};
    toy_backlog(&o, jobs);
    for (size_t i = 0; i < 144; i++) {
        ck_assert_int_eq(jobs[i].arrival_us, 0);
        n[jobs[i].key]++;
    }
    ck_assert(n[0] == 48 && n[1] == 48 && n[2] == 48);
    memset(n, 0, sizeof n);
    toy_overload(&o, jobs);
    for (size_t i = 0; i < 18000; i++) {
        ck_assert_int_eq(jobs[i].duration_us, 10000);
        ck_assert(i == 0 || jobs[i].arrival_us - jobs[i - 1].arrival_us >= 8333);
        n[jobs[i].key]++;
    }
    ck_assert_int_lt(jobs[17999].arrival_us, 150000000);
    ck_assert_double_eq_tol((double)n[TOY_SHORT] / 18000, 0.5, 0.02);
    ck_assert_double_eq_tol((double)n[TOY_MEDIUM] / 18000, 0.3, 0.02);
    free(jobs);
    o.service_us = 0;
    ck_assert_uint_eq(toy_overload_jobs(&o), 0);
    ck_assert_uint_eq(toy_backlog_jobs(&o), 0);
}
END_TEST

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nearest rank. */
static double quantile(const double *sorted, size_t n, double q)
{
    return sorted[(size_t)ceil((double)n * q) - 1];
}

static void within_tenth(double value, double published, const char *what)
{
    ck_assert_msg(fabs(value / published - 1) <= 0.1, "%s: %g, published %g", what, value,
                  published);
}

struct key_stats {
    size_t n[2];
    double spread, first_spread;
};

/* Durations in ms, by key, and sorted within each; key k has those from starts[k] to starts[k + 1]. */
static void by_key(const struct trace_job *jobs, size_t n, double *ms, size_t *starts)
{
    size_t at[SERVERLESS_KEYS];
    memset(starts, 0, (SERVERLESS_KEYS + 1) * sizeof *starts);
    for (size_t i = 0; i < n; i++)
        starts[jobs[i].key + 1]++;
    for (size_t k = 0; k < SERVERLESS_KEYS; k++) {
        starts[k + 1] += starts[k];
        at[k] = starts[k];
    }
    for (size_t i = 0; i < n; i++)
        ms[at[jobs[i].key]++] = (double)jobs[i].duration_us / 1000;
    for (size_t k = 0; k < SERVERLESS_KEYS; k++)
        qsort(ms + starts[k], starts[k + 1] - starts[k], sizeof *ms, by_value);
}

static double spread(const double *ms, size_t n)
{
    return n > 0 ? quantile(ms, n, 0.99) / quantile(ms, n, 0.5) : 0;
}

static struct trace_job *serverless(uint64_t seed)
{
    struct serverless_options o;
    serverless_options_init(&o, seed);
    struct trace_job *jobs = jobs_new(o.jobs);
    ck_assert_int_eq(serverless_generate(&o, jobs), 0);
    return jobs;
}

/* Durations have the published quantiles. */
START_TEST(serverless_durations_are_as_published)
{
    enum { N = SERVERLESS_JOBS };
    struct trace_job *jobs = serverless(1);
    double *ms = calloc(N, sizeof *ms), work = 0;
    for (size_t i = 0; i < N; i++) {
        ms[i] = (double)jobs[i].duration_us / 1000;
        work += i >= N / 2 ? ms[i] : 0;
        ck_assert(i == 0 || jobs[i].arrival_us >= jobs[i - 1].arrival_us);
    }
    double span = (double)(jobs[N - 1].arrival_us - jobs[N / 2].arrival_us) / 1000;
    within_tenth(work / span, 6.13, "busy workers of the second half");
    within_tenth((double)jobs[N - 1].arrival_us / 86400e6, 14, "days");
    qsort(ms, N, sizeof *ms, by_value);
    within_tenth(quantile(ms, N, 1.0 / 3), 1, "first tercile");
    within_tenth(quantile(ms, N, 2.0 / 3), 171, "second tercile");
    within_tenth(quantile(ms, N, 0.5), 31, "p50");
    within_tenth(quantile(ms, N, 0.9), 1620, "p90");
    within_tenth(quantile(ms, N, 0.99), 72200, "p99");
    ck_assert_double_eq(ms[N - 1], 578620);
    free(ms);
    free(jobs);
}
END_TEST

static int by_spread(const void *a, const void *b)
{
    double x = ((const struct key_stats *)a)->spread, y = ((const struct key_stats *)b)->spread;
    return (x > y) - (x < y);
}

/* The spread below which the keys of a share `q` of all jobs are. */
static double spread_by_volume(const struct key_stats *keys, double q)
{
    double sum = 0;
    for (size_t k = 0; k < SERVERLESS_KEYS; k++) {
        sum += (double)(keys[k].n[0] + keys[k].n[1]);
        if (sum >= q * SERVERLESS_JOBS)
            return keys[k].spread;
    }
    return (double)INFINITY;
}

/* Counts of keys are exact; their spreads, and what the first half teaches, are as published. */
START_TEST(serverless_keys_are_as_published)
{
    enum { N = SERVERLESS_JOBS };
    struct trace_job *jobs = serverless(2);
    double *ms = calloc(N, sizeof *ms), routable = 0, unseen = 0;
    struct key_stats *keys = calloc(SERVERLESS_KEYS, sizeof *keys);
    size_t n_keys = 0, n_first = 0, n_routable = 0;
    size_t starts[SERVERLESS_KEYS + 1];
    by_key(jobs, N / 2, ms, starts);
    for (size_t k = 0; k < SERVERLESS_KEYS; k++) {
        keys[k].n[0] = starts[k + 1] - starts[k];
        keys[k].first_spread = spread(ms + starts[k], keys[k].n[0]);
    }
    by_key(jobs, N, ms, starts);
    for (size_t k = 0; k < SERVERLESS_KEYS; k++) {
        size_t all = starts[k + 1] - starts[k];
        keys[k].n[1] = all - keys[k].n[0];
        keys[k].spread = spread(ms + starts[k], all);
        n_keys += all > 0;
        n_first += keys[k].n[0] > 0;
        bool good = keys[k].n[0] >= 20 && keys[k].first_spread <= 16;
        n_routable += good;
        routable += good ? (double)keys[k].n[1] : 0;
        unseen += keys[k].n[0] == 0 ? (double)keys[k].n[1] : 0;
    }
    ck_assert_uint_eq(n_keys, 424);
    ck_assert_uint_eq(n_first, 279);
    ck_assert_uint_eq(n_routable, 97);
    within_tenth(routable / (N - N / 2), 0.731, "routable share");
    within_tenth(unseen / (N - N / 2), 0.169, "unseen share");
    qsort(keys, SERVERLESS_KEYS, sizeof *keys, by_spread);
    within_tenth(spread_by_volume(keys, 0.25), 4.1, "spread p25");
    within_tenth(spread_by_volume(keys, 0.50), 7, "spread p50");
    within_tenth(spread_by_volume(keys, 0.75), 7.5, "spread p75");
    within_tenth(spread_by_volume(keys, 0.90), 32.4, "spread p90");
    free(keys);
    free(ms);
    free(jobs);
}
END_TEST

/* The hours of the second half, at load 0.5: most run at a sixth, five are over capacity, one by
 * far. */
START_TEST(serverless_hours_are_as_published)
{
    enum { N = SERVERLESS_JOBS, HOURS = 168 };
    struct trace_job *jobs = serverless(3);
    double work[HOURS] = {0}, total = 0;
    for (size_t i = N / 2; i < N; i++) {
        int64_t h = (jobs[i].arrival_us / INT64_C(3600000000)) - HOURS;
        ck_assert(h >= 0 && h < HOURS);
        work[h] += (double)jobs[i].duration_us;
        total += (double)jobs[i].duration_us;
    }
    qsort(work, HOURS, sizeof *work, by_value);
    size_t over = 0;
    for (int h = 0; h < HOURS; h++)
        over += 0.5 * work[h] / (total / HOURS) > 1;
    within_tenth(0.5 * work[HOURS / 2] / (total / HOURS), 0.16, "the median hour");
    within_tenth(0.5 * work[HOURS - 1] / (total / HOURS), 53, "the busiest hour");
    ck_assert_uint_eq(over, 5);
    free(jobs);
}
END_TEST

START_TEST(serverless_follows_from_its_seed)
{
    struct serverless_options o;
    serverless_options_init(&o, 9);
    o.jobs = SERVERLESS_JOBS_MIN;
    struct trace_job *a = jobs_new(o.jobs), *b = jobs_new(o.jobs);
    ck_assert_int_eq(serverless_generate(&o, a), 0);
    ck_assert_int_eq(serverless_generate(&o, b), 0);
    ck_assert_int_eq(memcmp(a, b, o.jobs * sizeof *a), 0);
    o.seed++;
    ck_assert_int_eq(serverless_generate(&o, b), 0);
    ck_assert_int_ne(memcmp(a, b, o.jobs * sizeof *a), 0);
    char x[32], y[32];
    serverless_key_name(0, x);
    serverless_key_name(101, y);
    ck_assert_str_ne(x, y);
    o.jobs = 10;
    ck_assert_int_eq(serverless_generate(&o, b), ERR_INVALID);
    free(a);
    free(b);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {
        closed_forms_are_the_papers,      jobs_of_two_classes_wait_as_the_closed_form_says,
        toys_are_as_the_figures_say,      serverless_durations_are_as_published,
        serverless_keys_are_as_published, serverless_hours_are_as_published,
        serverless_follows_from_its_seed, NULL};
    return suite_of("generators", tests);
}
