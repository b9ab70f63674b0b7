/*
 * bench-predictor [--json] [--runs N]: what one call of the predictor costs, in nanoseconds.
 *
 * Each case is run N times; a run is one pass over a fixed random order of keys, and its number is
 * the time of the whole pass divided by the calls, so that the clock itself costs nothing. Reported
 * are the median of the runs and their 10th and 90th percentile. "hot" is 64 keys, "cold" 16,384 in
 * random order. "after" is a prediction right after a duration of the same key was learned, where
 * nothing is cached: the pass does both, and a pass of learning alone, in the same order and run
 * just before, is subtracted.
 *
 * Time is the thread's CPU time: what else runs on the machine costs this program cache lines, but
 * not its time slices.
 *
 * The same passes run through the plain model of the tests (chained hash table, logarithms, no
 * caches), so that each number has a peer from the same machine and minute.
 */
#include "base/compiler.h"
#include "base/rng.h"
#include "harbinger/predictor.h"
#include "lib/model.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    HOT_KEYS = 64,
    COLD_KEYS = 16384,
    CALLS = 16384,
    RUNS = 41,
    RUNS_MAX = 10000,
    MODEL_RUNS = 5
};

struct subject {
    const char *name;
    void *it;
    void (*predict)(void *it, struct hb_key key, int64_t now);
    void (*observe)(void *it, struct hb_key key, double ms, int64_t now);
};

struct load {
    unsigned n_keys;
    char (*keys)[32];
    struct hb_key *order; /* CALLS of them */
    double *durations;
    int64_t now;
};

static volatile unsigned sink; /* keeps results alive */

static void real_predict(void *it, struct hb_key key, int64_t now)
{
    struct hb_prediction out;
    hb_predictor_predict(it, key, (struct hb_key){0}, now, &out);
    sink = out.level;
}

static void real_observe(void *it, struct hb_key key, double ms, int64_t now)
{
    sink = hb_predictor_observe(it, key, (struct hb_key){0}, ms, now);
}

static void plain_predict(void *it, struct hb_key key, int64_t now)
{
    struct hb_prediction out;
    model_predict(it, key, (struct hb_key){0}, now, &out);
    sink = out.level;
}

static void plain_observe(void *it, struct hb_key key, double ms, int64_t now)
{
    sink = model_observe(it, key, (struct hb_key){0}, ms, now);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *need(void *p)
{
    if (p == NULL) {
        fputs("bench-predictor: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return p;
}

/* Keys as the daemon makes them: 21 bytes, producer and label. Durations are lognormal around a
 * median of the key's own, 2 ms to 2 s. */
static struct load load_new(unsigned n_keys)
{
    struct load l = {.n_keys = n_keys, .now = INT64_C(1000000000)};
    struct rng rng = {n_keys};
    l.keys = need(calloc(n_keys, sizeof *l.keys));
    l.order = need(calloc(CALLS, sizeof *l.order));
    l.durations = need(calloc(CALLS, sizeof *l.durations));
    for (unsigned i = 0; i < n_keys; i++)
        snprintf(l.keys[i], sizeof l.keys[i], "producer-%02u\x1fjob_%05u", i % 97, i);
    for (unsigned i = 0; i < CALLS; i++) {
        unsigned k = (unsigned)(rng_next(&rng) % n_keys);
        double normal = rng_unit(&rng) + rng_unit(&rng) + rng_unit(&rng) - 1.5;
        l.order[i] = (struct hb_key){l.keys[k], strlen(l.keys[k])};
        l.durations[i] = 2 * pow(1000, (k * 7919 % n_keys) / (double)n_keys) * exp(normal);
    }
    return l;
}

static void load_free(struct load *l)
{
    free(l->keys);
    free(l->order);
    free(l->durations);
}

/* Every key gets enough durations to be predicted. */
static void warm_up(const struct subject *s, struct load *l)
{
    for (unsigned round = 0; round < 24; round++)
        for (unsigned i = 0; i < l->n_keys; i++)
            s->observe(s->it, (struct hb_key){l->keys[i], strlen(l->keys[i])},
                       l->durations[(i + round * 131) % CALLS], l->now);
}

static double pass_predict(const struct subject *s, struct load *l)
{
    double start = now_ns();
    for (unsigned i = 0; i < CALLS; i++)
        s->predict(s->it, l->order[i], l->now += 1000);
    return (now_ns() - start) / CALLS;
}

static double pass_observe(const struct subject *s, struct load *l)
{
    double start = now_ns();
    for (unsigned i = 0; i < CALLS; i++)
        s->observe(s->it, l->order[i], l->durations[i], l->now += 1000);
    return (now_ns() - start) / CALLS;
}

static double pass_after(const struct subject *s, struct load *l)
{
    double alone = pass_observe(s, l);
    double start = now_ns();
    for (unsigned i = 0; i < CALLS; i++) {
        s->observe(s->it, l->order[i], l->durations[i], l->now += 1000);
        s->predict(s->it, l->order[i], l->now);
    }
    return (now_ns() - start) / CALLS - alone;
}

struct measure {
    const char *name;
    unsigned n_keys;
    double (*pass)(const struct subject *s, struct load *l);
};

static const struct measure measures[] = {
    {"predict_hot", HOT_KEYS, pass_predict},
    {"predict_cold", COLD_KEYS, pass_predict},
    {"observe_hot", HOT_KEYS, pass_observe},
    {"observe_cold", COLD_KEYS, pass_observe},
    {"predict_after_observe_hot", HOT_KEYS, pass_after},
    {"predict_after_observe_cold", COLD_KEYS, pass_after},
};

struct result {
    double median, p10, p90;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct result run(const struct measure *m, const struct subject *s, struct load *l, int runs)
{
    double *ns = need(calloc((size_t)runs, sizeof *ns));
    m->pass(s, l);
    for (int i = 0; i < runs; i++)
        ns[i] = m->pass(s, l);
    qsort(ns, (size_t)runs, sizeof *ns, by_value);
    struct result r = {ns[runs / 2], ns[runs / 10], ns[runs - 1 - runs / 10]};
    free(ns);
    return r;
}

static struct result run_real(const struct measure *m, int runs)
{
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    struct subject s = {"harbinger", need(hb_predictor_new(&o)), real_predict, real_observe};
    struct load l = load_new(m->n_keys);
    warm_up(&s, &l);
    struct result r = run(m, &s, &l, runs);
    load_free(&l);
    hb_predictor_free(s.it);
    return r;
}

static struct result run_plain(const struct measure *m, int runs)
{
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    struct subject s = {"plain", need(model_new(&o)), plain_predict, plain_observe};
    struct load l = load_new(m->n_keys);
    o.stale_after_ns = 0; /* the plain model would look at every key for each newcomer */
    model_free(s.it);
    s.it = need(model_new(&o));
    warm_up(&s, &l);
    struct result r = run(m, &s, &l, runs);
    load_free(&l);
    model_free(s.it);
    return r;
}

static json_t *to_json(struct result r, struct result plain)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "median_ns", r.median, "p10_ns", r.p10, "p90_ns",
                     r.p90, "plain_median_ns", plain.median, "ratio", plain.median / r.median);
}

static int usage(void)
{
    fputs("usage: bench-predictor [--json] [--runs N]\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    bool json = false;
    int runs = RUNS;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            runs = atoi(argv[++i]);
        else
            return usage();
    }
    if (runs < 1 || runs > RUNS_MAX)
        return usage();

    json_t *all = json_object();
    printf("%-28s %8s %8s %8s   %10s %6s\n", "ns per call", "median", "p10", "p90", "plain",
           "ratio");
    for (size_t i = 0; i < ARRAY_SIZE(measures); i++) {
        const struct measure *m = &measures[i];
        fprintf(stderr, "bench-predictor: %s, %d runs of %d calls\n", m->name, runs, CALLS);
        struct result r = run_real(m, runs);
        struct result plain = run_plain(m, runs < MODEL_RUNS ? runs : MODEL_RUNS);
        printf("%-28s %8.1f %8.1f %8.1f   %10.1f %5.1fx\n", m->name, r.median, r.p10, r.p90,
               plain.median, plain.median / r.median);
        json_object_set_new(all, m->name, to_json(r, plain));
    }
    if (json) {
        char *text =
            need(json_dumps(all, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6)));
        puts(text);
        free(text);
    }
    json_decref(all);
    return EXIT_SUCCESS;
}
