#include "sim/measure.h"

#include "lab/quantile.h"

#include <stdlib.h>

/* One job in a word that sorts by latency. 2^56 us are 2000 years; what is more counts as that. */
enum { CLASS_BITS = 4, GROUP_BITS = 4, LATENCY_SHIFT = CLASS_BITS + GROUP_BITS };
#define LATENCY_MAX_US ((INT64_C(1) << (64 - LATENCY_SHIFT)) - 1)

bool measure_init(struct measure *m, uint64_t n, unsigned n_windows)
{
    *m = (struct measure){.n = n, .n_windows = n_windows};
    m->latencies = calloc(n, sizeof m->latencies[0]);
    m->by_window = calloc((size_t)n_windows * SIM_CLASSES, sizeof m->by_window[0]);
    if (m->latencies != NULL && m->by_window != NULL)
        return true;
    measure_fini(m);
    return false;
}

void measure_fini(struct measure *m)
{
    free(m->latencies);
    free(m->by_window);
    *m = (struct measure){0};
}

static void count(struct measure_sums *s, const struct measured_job *job)
{
    double latency_ms = mono_to_ms(job->wait + job->duration), wait_ms = mono_to_ms(job->wait);
    s->n++;
    s->latency_ms += latency_ms;
    s->wait_ms += wait_ms;
    s->slowdown += latency_ms / (job->duration > MONO_MS ? mono_to_ms(job->duration) : 1);
    if (wait_ms > s->max_wait_ms)
        s->max_wait_ms = wait_ms;
}

void measure_add(struct measure *m, const struct measured_job *job)
{
    int64_t us = (job->wait + job->duration) / MONO_US;
    uint64_t latency = (uint64_t)(us < LATENCY_MAX_US ? us : LATENCY_MAX_US);
    m->latencies[job->row] = latency << LATENCY_SHIFT | job->class << GROUP_BITS | job->group;
    count(&m->by_window[(size_t)job->window * SIM_CLASSES + job->class], job);
    count(&m->by_group[job->group], job);
}

/* ---- the end ---- */

static void merge(struct measure_sums *into, const struct measure_sums *s)
{
    into->n += s->n;
    into->latency_ms += s->latency_ms;
    into->wait_ms += s->wait_ms;
    into->slowdown += s->slowdown;
    if (s->max_wait_ms > into->max_wait_ms)
        into->max_wait_ms = s->max_wait_ms;
}

/* The words a[0..s->n) are those that were summed up. */
static void figure(struct sim_figures *f, const struct measure_sums *s, uint64_t *a)
{
    static const double p[] = {0.5, 0.95, 0.99};
    uint64_t word[ARRAY_SIZE(p)];
    *f = (struct sim_figures){.n = s->n};
    if (s->n == 0)
        return;
    quantiles(a, s->n, p, ARRAY_SIZE(p), word);
    f->mean_ms = s->latency_ms / (double)s->n;
    f->mean_wait_ms = s->wait_ms / (double)s->n;
    f->mean_slowdown = s->slowdown / (double)s->n;
    f->max_wait_ms = s->max_wait_ms;
    f->p50_ms = (double)(word[0] >> LATENCY_SHIFT) / 1000;
    f->p95_ms = (double)(word[1] >> LATENCY_SHIFT) / 1000;
    f->p99_ms = (double)(word[2] >> LATENCY_SHIFT) / 1000;
}

/* Brings the words whose bits under `mask` are `value` to the front. */
static void gather(uint64_t *a, uint64_t n, uint64_t mask, uint64_t value)
{
    uint64_t to = 0;
    for (uint64_t i = 0; i < n; i++)
        if ((a[i] & mask) == value) {
            uint64_t x = a[to];
            a[to++] = a[i];
            a[i] = x;
        }
}

#define GROUP_MASK UINT64_C(0x0f)
#define CLASS_MASK UINT64_C(0xf0)

static void finish_classes(struct sim_figures out[SIM_CLASSES], const struct measure_sums *sums,
                           uint64_t *a, uint64_t n)
{
    for (unsigned c = 0; c < SIM_CLASSES; c++) {
        gather(a, n, CLASS_MASK, (uint64_t)c << GROUP_BITS);
        figure(&out[c], &sums[c], a);
    }
}

static uint64_t sum_up(const struct measure_sums *sums, struct measure_sums *all)
{
    *all = (struct measure_sums){0};
    for (unsigned c = 0; c < SIM_CLASSES; c++)
        merge(all, &sums[c]);
    return all->n;
}

void measure_finish(struct measure *m, struct sim_result *out)
{
    struct measure_sums whole[SIM_CLASSES] = {0}, all;
    uint64_t *a = m->latencies;
    for (unsigned w = 0; w < m->n_windows; w++) { /* the rows of a window lie together */
        const struct measure_sums *sums = &m->by_window[(size_t)w * SIM_CLASSES];
        uint64_t n = sum_up(sums, &all);
        figure(&out->windows[w].all, &all, a);
        finish_classes(out->windows[w].by_class, sums, a, n);
        for (unsigned c = 0; c < SIM_CLASSES; c++)
            merge(&whole[c], &sums[c]);
        a += n;
    }
    sum_up(whole, &all);
    figure(&out->all, &all, m->latencies);
    finish_classes(out->by_class, whole, m->latencies, m->n);
    for (unsigned g = 0; g < SIM_GROUPS; g++) {
        if (m->by_group[g].n == 0)
            continue;
        gather(m->latencies, m->n, GROUP_MASK, g);
        figure(&out->by_group[g], &m->by_group[g], m->latencies);
    }
}
