/*
 * bench-broker [--json] [--runs N] [--case PART-OF-NAME]: what the delivery core does on one core, in this process.
 *
 * One operation is a submit, a pull and an ack, with leases, the history of settlements and a
 * predictor of 1,000 keys: asked for each submission, taught by each ack. The queue is filled to a
 * depth first, which then stays. Time inside goes on by 5 us per operation, so that a depth of
 * 1,000,000 means waits of seconds, and aging (5 s, every 500 ms) has work.
 *
 * Each run is a pass of many operations; printed are the median of the runs, the least and the
 * most, in operations per second of the thread's CPU time. The peer of the same minute is a bare
 * list with malloc'ed messages and the same predictor: no levels, leases, tokens or history.
 */
#include "base/compiler.h"
#include "base/list.h"
#include "base/rng.h"
#include "harbinger/broker.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    KEYS = 1000,
    RUNS = 7,
    RUNS_MAX = 1000,
    OPS = 200000, /* of a run */
    TICK_EVERY = 1000,
    PAYLOAD = 100,
    IN_FLIGHT = 4,
    MEMORY_MESSAGES = 1000000
};

#define STEP_NS 5000

struct bench {
    struct hb_predictor *predictor;
    struct hb_broker *broker;
    struct hb_key keys[KEYS];
    double ms[KEYS];
    struct rng rng;
    int64_t now;
    struct hb_delivery in_flight[IN_FLIGHT];
    unsigned n_in_flight, turn;
};

static const char payload[PAYLOAD];

static void *need(void *p)
{
    if (p == NULL) {
        fputs("bench-broker: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return p;
}

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench-broker: %s failed\n", what);
        exit(EXIT_FAILURE);
    }
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the core ---- */

static void learn(void *ctx, const struct hb_lesson *l, int64_t now)
{
    struct bench *b = ctx;
    if (l->predicted)
        hb_predictor_score(b->predictor, l->level, l->estimate_ms, l->duration_ms);
    hb_predictor_observe(b->predictor, l->key, l->parent, l->duration_ms, now);
}

static unsigned any_key(struct bench *b)
{
    return (unsigned)(rng_next(&b->rng) % KEYS);
}

static void submit(struct bench *b)
{
    struct hb_key key = b->keys[any_key(b)];
    struct hb_prediction p;
    hb_predictor_predict(b->predictor, key, (struct hb_key){0}, b->now, &p);
    struct hb_submission s = {
        .payload = {payload, sizeof payload},
        .key = key,
        .level = p.level,
        .estimate_ms = p.has_estimate ? p.estimate_ms : -1,
        .predicted = p.has_estimate,
        .predicted_level = p.level,
        .predicted_ms = p.estimate_ms,
        .ttl_ns = HB_TTL_DEFAULT,
    };
    must(hb_broker_submit(b->broker, &s, b->now, NULL, NULL) == HB_BROKER_OK, "submit");
}

/* The handler's time; which key it was, nobody remembers, and for the cost of learning any will do.
 */
static void settle(struct bench *b, const struct hb_delivery *d, bool failed)
{
    struct hb_settlement s = {.id = d->id, .token = d->token, .duration_ms = b->ms[d->id % KEYS]};
    int r = failed ? hb_broker_nack(b->broker, &s, b->now) : hb_broker_ack(b->broker, &s, b->now);
    must(r == HB_BROKER_OK, "settlement");
}

static void pull(struct bench *b, struct hb_delivery *d)
{
    must(hb_broker_pull(b->broker, 0, b->now, d) == HB_BROKER_OK, "pull");
}

/* One message in, one pulled, and the one pulled four operations ago settled. */
static void operate(struct bench *b, bool with_failures)
{
    struct hb_delivery *slot = &b->in_flight[b->turn++ % IN_FLIGHT];
    submit(b);
    if (b->n_in_flight == IN_FLIGHT)
        settle(b, slot, with_failures && slot->attempt == 1);
    else
        b->n_in_flight++;
    pull(b, slot);
    b->now += STEP_NS;
    if (b->turn % TICK_EVERY == 0)
        while (hb_broker_tick(b->broker, b->now) <= b->now)
            continue;
}

static void make_keys(struct bench *b, char (*names)[32])
{
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(names[i], sizeof names[i], "producer-%02u\x1fjob_%05u", i % 97, i);
        b->keys[i] = (struct hb_key){names[i], strlen(names[i])};
        b->ms[i] = 2 * pow(1000, (i * 7919 % KEYS) / (double)KEYS);
    }
}

static void teach(struct bench *b)
{
    for (unsigned round = 0; round < 40; round++)
        for (unsigned i = 0; i < KEYS; i++)
            hb_predictor_observe(b->predictor, b->keys[i], (struct hb_key){0}, b->ms[i], b->now);
}

/* ---- the peer ---- */

struct bare {
    struct list link;
    size_t n_key;
    char bytes[];
};

static void bare_operate(struct bench *b, struct list *queue)
{
    struct hb_key key = b->keys[any_key(b)];
    struct hb_prediction p;
    hb_predictor_predict(b->predictor, key, (struct hb_key){0}, b->now, &p);
    struct bare *m = need(malloc(sizeof *m + key.n + sizeof payload));
    m->n_key = key.n;
    memcpy(m->bytes, key.p, key.n);
    memcpy(m->bytes + key.n, payload, sizeof payload);
    list_push_back(queue, &m->link);
    struct bare *first = LIST_ENTRY(list_first(queue), struct bare, link);
    list_remove(&first->link);
    hb_predictor_observe(b->predictor, (struct hb_key){first->bytes, first->n_key},
                         (struct hb_key){0}, b->ms[b->turn++ % KEYS], b->now);
    free(first);
    b->now += STEP_NS;
}

/* ---- cases ---- */

struct bench_case {
    const char *name;
    unsigned depth;
    bool weighted, with_failures, bare;
};

static const struct bench_case cases[] = {
    {"strict 1000", 1000, false, false, false},
    {"strict 10000", 10000, false, false, false},
    {"strict 100000", 100000, false, false, false},
    {"strict 1000000", 1000000, false, false, false},
    {"weighted 1000", 1000, true, false, false},
    {"weighted 10000", 10000, true, false, false},
    {"weighted 100000", 100000, true, false, false},
    {"weighted 1000000", 1000000, true, false, false},
    {"strict 1000, each fails once", 1000, false, true, false},
    {"bare list 1000", 1000, false, false, true},
    {"bare list 1000000", 1000000, false, false, true},
};

static void options_of(const struct bench_case *c, struct hb_broker_options *o)
{
    static const uint16_t weights[] = {8, 3, 1};
    hb_broker_options_init(o);
    o->aging_threshold_ns = INT64_C(5000000000);
    o->weighted = c->weighted;
    memcpy(o->weights, weights, sizeof weights);
}

struct result {
    double median, low, high;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct result summary(double *ops_per_s, int n)
{
    qsort(ops_per_s, (size_t)n, sizeof *ops_per_s, by_value);
    return (struct result){ops_per_s[n / 2], ops_per_s[0], ops_per_s[n - 1]};
}

static void empty(struct list *queue)
{
    while (!list_empty(queue)) {
        struct bare *m = LIST_ENTRY(list_first(queue), struct bare, link);
        list_remove(&m->link);
        free(m);
    }
}

static void run_once(struct bench *b, const struct bench_case *c, struct list *queue)
{
    for (int i = 0; i < OPS; i++) {
        if (c->bare)
            bare_operate(b, queue);
        else
            operate(b, c->with_failures);
    }
}

static void fill(struct bench *b, const struct bench_case *c, struct list *queue)
{
    for (unsigned i = 0; i < c->depth; i++) {
        if (c->bare) {
            struct bare *m = need(calloc(1, sizeof *m + b->keys[i % KEYS].n + sizeof payload));
            m->n_key = b->keys[i % KEYS].n;
            memcpy(m->bytes, b->keys[i % KEYS].p, m->n_key);
            list_push_back(queue, &m->link);
        } else {
            submit(b);
        }
        b->now += STEP_NS;
    }
}

static void bench_init(struct bench *b, const struct bench_case *c, char (*names)[32])
{
    struct hb_predictor_options predictor;
    struct hb_broker_options broker;
    struct hb_broker_events events = {.learn = learn, .ctx = b};
    *b = (struct bench){.rng = {c->depth}, .now = 1};
    hb_predictor_options_init(&predictor);
    options_of(c, &broker);
    b->predictor = need(hb_predictor_new(&predictor));
    b->broker = need(hb_broker_new(&broker, &events));
    make_keys(b, names);
    teach(b);
}

static void bench_fini(struct bench *b)
{
    hb_broker_free(b->broker);
    hb_predictor_free(b->predictor);
}

static struct result run_case(const struct bench_case *c, int runs)
{
    char(*names)[32] = need(calloc(KEYS, sizeof *names));
    double *ops_per_s = need(calloc((size_t)runs, sizeof *ops_per_s));
    struct bench b;
    struct list queue;
    list_init(&queue);
    bench_init(&b, c, names);
    fill(&b, c, &queue);
    run_once(&b, c, &queue);
    for (int i = 0; i < runs; i++) {
        double started = cpu_s();
        run_once(&b, c, &queue);
        ops_per_s[i] = OPS / (cpu_s() - started);
    }
    struct result r = summary(ops_per_s, runs);
    empty(&queue);
    bench_fini(&b);
    free(ops_per_s);
    free(names);
    return r;
}

/* ---- memory ---- */

static double rss_bytes(void)
{
    double pages = 0;
    char text[128] = "";
    FILE *f = need(fopen("/proc/self/statm", "re"));
    if (fgets(text, sizeof text, f) != NULL)
        pages = strtod(strchr(text, ' ') + 1, NULL);
    fclose(f);
    return pages * (double)sysconf(_SC_PAGESIZE);
}

/* Bytes beyond the payload of a waiting message, in a process that has just begun. */
static double memory_per_message(void)
{
    char(*names)[32] = need(calloc(KEYS, sizeof *names));
    struct bench_case c = {.depth = MEMORY_MESSAGES};
    struct bench b;
    struct list queue;
    list_init(&queue);
    bench_init(&b, &c, names);
    double before = rss_bytes();
    fill(&b, &c, &queue);
    double each = (rss_bytes() - before) / MEMORY_MESSAGES - PAYLOAD;
    bench_fini(&b);
    free(names);
    return each;
}

static int usage(void)
{
    fputs("usage: bench-broker [--json] [--runs N] [--case PART-OF-NAME]\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    bool json = false;
    int runs = RUNS;
    const char *part = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            runs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            part = argv[++i];
        else
            return usage();
    }
    if (runs < 1 || runs > RUNS_MAX)
        return usage();

    double each = memory_per_message();
    json_t *all = json_object();
    printf("%-32s %12s %12s %12s\n", "operations per second", "median", "least", "most");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (strstr(cases[i].name, part) == NULL)
            continue;
        fprintf(stderr, "bench-broker: %s\n", cases[i].name);
        struct result r = run_case(&cases[i], runs);
        printf("%-32s %12.0f %12.0f %12.0f\n", cases[i].name, r.median, r.low, r.high);
        json_object_set_new(
            all, cases[i].name,
            json_pack("{s:f, s:f, s:f}", "median", r.median, "least", r.low, "most", r.high));
    }
    printf("\n%.0f bytes beyond its payload of %d for each of %d waiting messages\n", each, PAYLOAD,
           MEMORY_MESSAGES);
    json_t *top = json_pack("{s:o, s:f}", "core_ops_per_s", all, "bytes_per_message", each);
    if (json) {
        char *text =
            need(json_dumps(top, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(8)));
        puts(text);
        free(text);
    }
    json_decref(top);
    return EXIT_SUCCESS;
}
