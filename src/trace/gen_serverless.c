#include "trace/gen_serverless.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>

/* Durations are a mixture of lognormals, fitted to the published quantiles: each key belongs to one
 * of these. A spread is the p99 over the p50. */
static const struct component {
    double weight, spread, median_ms;
    int stable, new; /* keys of that kind, see below */
} components[] = {
    {0.16, 3.5, 0.3551, 12, 24}, {0.06, 4.1, 0.45, 8, 9},    {0.14, 7.25, 0.3672, 14, 22},
    {0.10, 5.5, 9.818, 12, 15},  {0.10, 7.0, 43.95, 12, 15}, {0.10, 7.5, 88.5, 12, 15},
    {0.08, 5.5, 274.5, 10, 12},  {0.06, 3.5, 656.3, 8, 9},   {0.0725, 12, 678.2, 6, 10},
    {0.0075, 1.9, 308400, 3, 2}, {0.03, 32.4, 5000, 4, 0},   {0.09, 45, 2109, 8, 12},
};

enum {
    N_COMPONENTS = ARRAY_SIZE(components),
    WIDE = N_COMPONENTS - 2, /* from here on keys are too wide to be routed by */
    N_RARE = 170,            /* keys of the first half with too few jobs to be routed by */
    HALF_HOURS = 7 * 24,
};

#define HOUR_US INT64_C(3600000000)
#define MAX_US  578620000.0
#define Z99     2.3263 /* the standard normal's 99th percentile */

/* Shares of the second half whose keys the first half has not seen: of the narrow components
 * together and of the last one. */
#define NEW_SHARE      0.1693
#define NEW_SHARE_WIDE (0.02 / 0.09)

struct key {
    double median_us, sigma;
    double weight[2];  /* share of what the rare ones leave, in the first and second half */
    size_t n_fixed[2]; /* jobs of a rare key */
};

struct generator {
    struct rng rng;
    struct key keys[SERVERLESS_KEYS];
    int n_keys;
};

/* n keys of a component share its weight like 1, 1/2, 1/3, ...; their medians lie around its own.
 * */
static void add_keys(struct generator *g, const struct component *c, int n, const double share[2])
{
    double total = 0;
    for (int i = 0; i < n; i++)
        total += 1.0 / (i + 1);
    for (int i = 0; i < n; i++) {
        double part = c->weight / (i + 1) / total, place = (i * 7 % n + 0.5) / n;
        g->keys[g->n_keys++] = (struct key){
            .median_us = c->median_ms * 1e3 * exp(0.2 * (2 * place - 1)),
            .sigma = log(c->spread) / Z99,
            .weight = {part * share[0], part * share[1]},
        };
    }
}

/* Keys of the first half: 97 to route by, 12 too wide, 170 too rare. Then those that are new in the
 * second half: 145. */
static void make_keys(struct generator *g)
{
    for (int i = 0; i < N_COMPONENTS; i++) {
        const struct component *c = &components[i];
        double new = i < WIDE ? NEW_SHARE : c->new > 0 ? NEW_SHARE_WIDE : 0;
        add_keys(g, c, c->stable, (double[]){1, 1 - new});
        add_keys(g, c, c->new, (double[]){0, new});
    }
    for (int i = 0; i < N_RARE; i++) {
        const struct component *c = &components[i % N_COMPONENTS];
        g->keys[g->n_keys++] = (struct key){.median_us = c->median_ms * 1e3,
                                            .sigma = log(c->spread) / Z99,
                                            .n_fixed = {(size_t)(1 + i % 19), (size_t)(i % 5)}};
    }
}

static double normal(struct rng *r)
{
    double x, y, r2;
    do {
        x = 2 * rng_unit(r) - 1;
        y = 2 * rng_unit(r) - 1;
        r2 = x * x + y * y;
    } while (r2 >= 1 || r2 == 0);
    return x * sqrt(-2 * log(r2) / r2);
}

/* Each key's exact number of jobs, in random order. */
static void deal_keys(struct generator *g, int half, struct trace_job *out, size_t n)
{
    size_t n_fixed = 0, at = 0, dealt = 0;
    double total = 0, sum = 0;
    for (int k = 0; k < g->n_keys; k++) {
        n_fixed += g->keys[k].n_fixed[half];
        total += g->keys[k].weight[half];
    }
    for (int k = 0; k < g->n_keys; k++) {
        sum += g->keys[k].weight[half];
        size_t until = (size_t)((double)(n - n_fixed) * (sum / total) + 0.5);
        size_t count = until - dealt + g->keys[k].n_fixed[half];
        dealt = until;
        while (count-- > 0 && at < n)
            out[at++].key = (uint32_t)k;
    }
    for (size_t i = n; i > 1; i--) {
        size_t other = (size_t)(rng_next(&g->rng) % i);
        uint32_t key = out[i - 1].key;
        out[i - 1].key = out[other].key;
        out[other].key = key;
    }
}

/* How busy an hour is. In the second half five hours have more work than twice the mean, as
 * published, and the last of them more than all others together. */
static double hour_weight(int half, int hour)
{
    double day = 1 + 0.3 * sin(hour * (2 * 3.14159265358979 / 24));
    if (half == 0)
        return day;
    switch (hour) {
    case 30: return 2.6;
    case 61: return 3.0;
    case 99: return 2.5;
    case 120: return 2.8;
    case 150: return 106;
    default: return 0.318 * day;
    }
}

/* n random moments of an hour in order: sums of exponential gaps, stretched over it. */
static void fill_hour(struct generator *g, int64_t from_us, struct trace_job *out, size_t n)
{
    struct rng again = g->rng;
    double total = -log(1 - rng_unit(&g->rng)), at = 0;
    for (size_t i = 0; i < n; i++)
        total += -log(1 - rng_unit(&g->rng));
    for (size_t i = 0; i < n; i++) {
        at += -log(1 - rng_unit(&again));
        out[i].arrival_us = from_us + (int64_t)(at / total * (double)HOUR_US);
    }
}

static void fill_half(struct generator *g, int half, struct trace_job *out, size_t n)
{
    double total = 0, sum = 0;
    size_t done = 0;
    for (int h = 0; h < HALF_HOURS; h++)
        total += hour_weight(half, h);
    for (int h = 0; h < HALF_HOURS; h++) {
        sum += hour_weight(half, h);
        size_t until = h == HALF_HOURS - 1 ? n : (size_t)((double)n * (sum / total));
        fill_hour(g, (half * HALF_HOURS + h) * HOUR_US, out + done, until - done);
        done = until;
    }
    deal_keys(g, half, out, n);
    for (size_t i = 0; i < n; i++) {
        const struct key *k = &g->keys[out[i].key];
        double us = k->median_us * exp(k->sigma * normal(&g->rng));
        out[i].duration_us = (int64_t)fmin(us, MAX_US);
        out[i].size = TRACE_NO_SIZE;
        out[i].producer = TRACE_NO_PRODUCER;
    }
}

void serverless_options_init(struct serverless_options *o, uint64_t seed)
{
    *o = (struct serverless_options){.seed = seed, .jobs = SERVERLESS_JOBS};
}

int serverless_generate(const struct serverless_options *o, struct trace_job *out)
{
    if (o->jobs < SERVERLESS_JOBS_MIN || o->jobs > SERVERLESS_JOBS_MAX)
        return ERR_INVALID;
    struct generator g = {.rng = {o->seed}};
    make_keys(&g);
    fill_half(&g, 0, out, o->jobs / 2);
    fill_half(&g, 1, out + o->jobs / 2, o->jobs - o->jobs / 2);
    return 0;
}

void serverless_key_name(uint32_t key, char out[32])
{
    snprintf(out, 32, "app-%02u/function-%03u", (unsigned)(key * 7919 % 101), (unsigned)key);
}
