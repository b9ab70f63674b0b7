#include "trace/info.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Durations in ms, grouped by key and sorted within each: those of key k stand from starts[k] to
 * starts[k + 1]. */
struct groups {
    double *ms;
    size_t *starts, *next;
    uint32_t n_keys;
};

/* What the first half teaches. */
struct lessons {
    double global, terciles[2];
    double *median; /* by key; -1: it did not occur */
    bool *routable;
};

struct work {
    const struct trace_set *set;
    struct groups groups;
    struct lessons lessons;
    double *values; /* as many as there are jobs, for sorting */
    struct {
        double spread, jobs;
    } * spreads; /* as many as there are keys */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double job_ms(const struct trace_job *j)
{
    return (double)j->duration_us / 1000;
}

static double floored(double ms)
{
    return ms > 1 ? ms : 1;
}

static double quantile(const double *sorted, size_t n, double q)
{
    double rank = ceil((double)n * q);
    return sorted[rank < 1 ? 0 : (size_t)rank - 1];
}

/* Groups the first n jobs. */
static void group(struct work *w, size_t n)
{
    struct groups *g = &w->groups;
    const struct trace_job *jobs = w->set->jobs;
    memset(g->starts, 0, (g->n_keys + 1) * sizeof *g->starts);
    for (size_t i = 0; i < n; i++)
        g->starts[jobs[i].key + 1]++;
    for (uint32_t k = 0; k < g->n_keys; k++) {
        g->starts[k + 1] += g->starts[k];
        g->next[k] = g->starts[k];
    }
    for (size_t i = 0; i < n; i++)
        g->ms[g->next[jobs[i].key]++] = job_ms(&jobs[i]);
    for (uint32_t k = 0; k < g->n_keys; k++)
        qsort(g->ms + g->starts[k], g->starts[k + 1] - g->starts[k], sizeof *g->ms, by_value);
}

/* The sorted durations of the first n jobs, in w->values. */
static const double *sorted(struct work *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w->values[i] = job_ms(&w->set->jobs[i]);
    qsort(w->values, n, sizeof *w->values, by_value);
    return w->values;
}

static void describe(struct work *w, struct info *out)
{
    const struct trace_set *s = w->set;
    const double *ms = sorted(w, s->n);
    size_t n = s->n, n_top = (n + 99) / 100;
    double sum = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        sum += ms[i];
        top += i >= n - n_top ? ms[i] : 0;
    }
    out->jobs = n;
    out->keys = s->keys.n;
    out->producers = s->producers.n;
    out->span_s = (double)(s->jobs[n - 1].arrival_us - s->jobs[0].arrival_us) / 1e6;
    out->work_s = sum / 1e3;
    out->concurrency = out->span_s > 0 ? out->work_s / out->span_s : 0;
    out->top_share = sum > 0 ? top / sum : 0;
    out->ms.mean = sum / (double)n;
    out->ms.min = ms[0];
    out->ms.p25 = quantile(ms, n, 0.25);
    out->ms.p50 = quantile(ms, n, 0.50);
    out->ms.p75 = quantile(ms, n, 0.75);
    out->ms.p90 = quantile(ms, n, 0.90);
    out->ms.p95 = quantile(ms, n, 0.95);
    out->ms.p99 = quantile(ms, n, 0.99);
    out->ms.p999 = quantile(ms, n, 0.999);
    out->ms.max = ms[n - 1];
}

static int by_spread(const void *a, const void *b)
{
    return by_value(a, b); /* the first member */
}

/* The spread up to which a share q of the weight lies. */
static double weighted(const struct work *w, size_t n, double total, bool of_jobs, double q)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += of_jobs ? w->spreads[i].jobs : 1;
        if (sum >= q * total)
            return w->spreads[i].spread;
    }
    return n > 0 ? w->spreads[n - 1].spread : 0;
}

static struct info_spread spread_of(const struct work *w, size_t n, double total, bool of_jobs)
{
    return (struct info_spread){
        weighted(w, n, total, of_jobs, 0.25), weighted(w, n, total, of_jobs, 0.50),
        weighted(w, n, total, of_jobs, 0.75), weighted(w, n, total, of_jobs, 0.90)};
}

static void spreads(struct work *w, struct info *out)
{
    struct groups *g = &w->groups;
    size_t n = 0;
    group(w, w->set->n);
    for (uint32_t k = 0; k < g->n_keys; k++) {
        const double *ms = g->ms + g->starts[k];
        size_t count = g->starts[k + 1] - g->starts[k];
        if (count == 0)
            continue;
        double p50 = fmax(quantile(ms, count, 0.5), 0.001);
        w->spreads[n].spread = fmax(quantile(ms, count, 0.99), 0.001) / p50;
        w->spreads[n++].jobs = (double)count;
    }
    qsort(w->spreads, n, sizeof *w->spreads, by_spread);
    out->spread_of_keys = spread_of(w, n, (double)n, false);
    out->spread_of_jobs = spread_of(w, n, (double)w->set->n, true);
}

static void learn(struct work *w, size_t n, struct info *out)
{
    struct lessons *l = &w->lessons;
    struct groups *g = &w->groups;
    const double *ms = sorted(w, n);
    l->global = quantile(ms, n, 0.5);
    out->terciles_ms[0] = l->terciles[0] = quantile(ms, n, 1.0 / 3);
    out->terciles_ms[1] = l->terciles[1] = quantile(ms, n, 2.0 / 3);
    group(w, n);
    for (uint32_t k = 0; k < g->n_keys; k++) {
        const double *of_key = g->ms + g->starts[k];
        size_t count = g->starts[k + 1] - g->starts[k];
        l->routable[k] = false;
        l->median[k] = -1;
        if (count == 0)
            continue;
        l->median[k] = quantile(of_key, count, 0.5);
        l->routable[k] = count >= INFO_MIN_SAMPLES &&
                         quantile(of_key, count, 0.99) / floored(l->median[k]) <= INFO_MAX_SPREAD;
        out->keys_taught++;
        out->keys_routable += l->routable[k];
    }
}

enum predictor { GLOBAL, PER_KEY, GATED };

static double predict(const struct lessons *l, enum predictor p, uint32_t key)
{
    bool own = p == PER_KEY ? l->median[key] >= 0 : p == GATED && l->routable[key];
    return own ? l->median[key] : l->global;
}

static int tier(const struct lessons *l, double ms)
{
    return (ms >= l->terciles[0]) + (ms >= l->terciles[1]);
}

static void score(struct work *w, enum predictor p, size_t from, struct info_score *out)
{
    const struct lessons *l = &w->lessons;
    size_t n = w->set->n - from, within = 0, right = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const struct trace_job *j = &w->set->jobs[from + i];
        double actual = job_ms(j), predicted = predict(l, p, j->key);
        w->values[i] = fabs(log2(floored(predicted) / floored(actual)));
        within += w->values[i] <= 1;
        right += tier(l, predicted) == tier(l, actual);
        sum += fabs(predicted - actual);
    }
    qsort(w->values, n, sizeof *w->values, by_value);
    *out = (struct info_score){.median_error = quantile(w->values, n, 0.5),
                               .within_2x = (double)within / (double)n,
                               .tier_accuracy = (double)right / (double)n,
                               .mean_error_ms = sum / (double)n};
}

static void know(const struct work *w, size_t from, struct info *out)
{
    size_t routable = 0, unseen = 0, n = w->set->n - from;
    for (size_t i = from; i < w->set->n; i++) {
        uint32_t key = w->set->jobs[i].key;
        routable += w->lessons.routable[key];
        unseen += w->lessons.median[key] < 0;
    }
    out->jobs_routable = (double)routable / (double)n;
    out->jobs_unseen = (double)unseen / (double)n;
}

/* 1: rightly ordered, 0: tied, -1: wrongly; 2: the two cost much the same. */
static int order(const struct work *w, const struct trace_job *a, const struct trace_job *b)
{
    double x = floored(job_ms(a)), y = floored(job_ms(b));
    if (x <= 2 * y && y <= 2 * x)
        return 2;
    double p = predict(&w->lessons, PER_KEY, a->key), q = predict(&w->lessons, PER_KEY, b->key);
    if (p == q)
        return 0;
    return (x < y) == (p < q) ? 1 : -1;
}

static void pair_up(const struct work *w, size_t from, uint64_t seed, struct info *out)
{
    struct rng rng = {seed};
    size_t n = w->set->n - from, right = 0, tied = 0;
    if (n < 2)
        return;
    for (size_t i = 0; i < INFO_PAIRS; i++) {
        size_t a = from + (size_t)(rng_unit(&rng) * (double)(n - 1));
        size_t b = a + 1 + (size_t)(rng_unit(&rng) * INFO_NEAR);
        if (b >= w->set->n)
            continue;
        int o = order(w, &w->set->jobs[a], &w->set->jobs[b]);
        out->pairs.sampled++;
        out->pairs.different += o != 2;
        right += o == 1;
        tied += o == 0;
    }
    if (out->pairs.different == 0)
        return;
    double all = (double)out->pairs.different;
    out->pairs.right = (double)right / all;
    out->pairs.tied = (double)tied / all;
    out->pairs.wrong = (all - (double)right - (double)tied) / all;
}

static int work_init(struct work *w, const struct trace_set *set)
{
    size_t n_keys = set->keys.n;
    *w = (struct work){.set = set, .groups.n_keys = set->keys.n};
    w->values = calloc(set->n, sizeof *w->values);
    w->spreads = calloc(n_keys, sizeof *w->spreads);
    w->groups.ms = calloc(set->n, sizeof *w->groups.ms);
    w->groups.starts = calloc(n_keys + 1, sizeof *w->groups.starts);
    w->groups.next = calloc(n_keys, sizeof *w->groups.next);
    w->lessons.median = calloc(n_keys, sizeof *w->lessons.median);
    w->lessons.routable = calloc(n_keys, sizeof *w->lessons.routable);
    return w->values != NULL && w->spreads != NULL && w->groups.ms != NULL &&
                   w->groups.starts != NULL && w->groups.next != NULL &&
                   w->lessons.median != NULL && w->lessons.routable != NULL
               ? 0
               : ERR_NOMEM;
}

static void work_fini(struct work *w)
{
    free(w->values);
    free(w->spreads);
    free(w->groups.ms);
    free(w->groups.starts);
    free(w->groups.next);
    free(w->lessons.median);
    free(w->lessons.routable);
}

int info_of(const struct trace_set *set, uint64_t seed, struct info *out)
{
    struct work w;
    *out = (struct info){0};
    int r = work_init(&w, set);
    if (r == 0) {
        describe(&w, out);
        spreads(&w, out);
        out->taught = set->n / 2;
        out->predicted = out->taught > 0 ? set->n - out->taught : 0;
    }
    if (r == 0 && out->taught > 0) {
        learn(&w, out->taught, out);
        know(&w, out->taught, out);
        score(&w, GLOBAL, out->taught, &out->global);
        score(&w, PER_KEY, out->taught, &out->per_key);
        score(&w, GATED, out->taught, &out->gated);
        pair_up(&w, out->taught, seed, out);
    }
    work_fini(&w);
    return r;
}
