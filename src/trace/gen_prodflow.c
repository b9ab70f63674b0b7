#include "trace/gen_prodflow.h"

#include "base/err.h"
#include "trace/mt64.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *service;
    double rate;                           /* jobs per second */
    double multipliers[PRODFLOW_N_PHASES]; /* of the rate, by phase */
} types[PRODFLOW_N_TYPES] = {
    {"send_order_email", "checkout", 6, {1, 1.8, 3.0, 1.4, 1}},
    {"generate_invoice", "checkout", 6, {1, 1.8, 3.0, 1.4, 1}},
    {"reserve_inventory", "checkout", 8, {1, 1.8, 3.0, 1.4, 1}},
    {"resize_image", "catalog", 4, {1, 1, 1.2, 1, 1}},
    {"reindex_product", "catalog", 6, {1, 1, 1.0, 1, 1}},
    {"push_notification", "notifications", 10, {1, 1.5, 2.5, 1.3, 1}},
    {"send_sms", "notifications", 2, {1, 1.5, 2.5, 1.3, 1}},
    {"deliver_webhook", "partners", 5, {1, 1.5, 2.0, 1.2, 1}},
    {"export_report", "analytics", 0.1, {1, 1, 1, 1, 1}},
};

static const struct {
    const char *name;
    double from; /* fraction of the run */
} phases[PRODFLOW_N_PHASES] = {
    {"steady", 0}, {"ramp", 0.20}, {"flash", 0.30}, {"recovery", 0.50}, {"shifted", 0.70}};

static const struct {
    const char *name;
    struct prodflow_calibration it;
} calibrations[] = {
    {"v2", {0.00526, 0.0544, 8.595, 8.70e-5, 22.30}},
    {"v3-sizebins", {0.01159, 0.0639, 11.93, 1.004e-4, 23.80}},
    {"v3-aging", {0.00959, 0.1132, 13.14, 1.31e-4, 33.48}},
};

struct generator {
    const struct prodflow_options *o;
    struct mt64 rng;
    struct prodflow_job *jobs;
    size_t n, cap;
};

void prodflow_options_init(struct prodflow_options *o, uint64_t seed)
{
    *o = (struct prodflow_options){.seed = seed, .seconds = 300, .rate_scale = 1.8};
}

static enum prodflow_phase phase_at(double fraction)
{
    int p = PRODFLOW_N_PHASES - 1;
    while (fraction < phases[p].from)
        p--;
    return (enum prodflow_phase)p;
}

static double highest(const double *multipliers)
{
    double m = multipliers[0];
    for (int p = 1; p < PRODFLOW_N_PHASES; p++)
        m = fmax(m, multipliers[p]);
    return m;
}

static void draw_webhook(struct mt64 *rng, bool shifted, struct prodflow_job *j)
{
    double r = mt64_unit(rng);
    j->fails = r < 0.02;
    if (j->fails || r >= (shifted ? 0.37 : 0.14))
        j->sleep_ms = mt64_lognormal(rng, 40, 0.4); /* a failed one's second attempt */
    else
        j->sleep_ms = mt64_lognormal(rng, 300, 0.3);
}

static void draw_resize(struct mt64 *rng, bool shifted, struct prodflow_job *j)
{
    bool high = mt64_unit(rng) < (shifted ? 0.55 : 0.08);
    j->units = (uint32_t)(high ? mt64_lognormal(rng, 9e6, 0.3) : mt64_lognormal(rng, 0.8e6, 0.4));
    j->sleep_ms = mt64_lognormal(rng, 8, 0.4);
}

/* The cost of a job, in the reference's order of draws. `hash` stands for its content. */
static void draw_cost(struct mt64 *rng, uint64_t hash, struct prodflow_job *j)
{
    bool shifted = j->phase == PRODFLOW_SHIFTED;
    switch (j->type) {
    case PRODFLOW_SEND_ORDER_EMAIL:
        j->units = 24;
        j->sleep_ms = mt64_lognormal(rng, 35, 0.5);
        break;
    case PRODFLOW_GENERATE_INVOICE:
        j->units = (uint32_t)fmin(fmax(trunc(mt64_lognormal(rng, 12, 0.9)), 1), 400);
        j->sleep_ms = mt64_lognormal(rng, 4, 0.3);
        break;
    case PRODFLOW_RESERVE_INVENTORY: j->sleep_ms = mt64_lognormal(rng, 6, 0.4); break;
    case PRODFLOW_RESIZE_IMAGE: draw_resize(rng, shifted, j); break;
    case PRODFLOW_REINDEX_PRODUCT:
        j->units = 3000 + (uint32_t)(hash % 3000);
        j->sleep_ms = mt64_lognormal(rng, 2, 0.3);
        break;
    case PRODFLOW_PUSH_NOTIFICATION: j->sleep_ms = mt64_lognormal(rng, 9, 0.35); break;
    case PRODFLOW_SEND_SMS: j->sleep_ms = mt64_lognormal(rng, 80, 0.4); break;
    case PRODFLOW_DELIVER_WEBHOOK: draw_webhook(rng, shifted, j); break;
    case PRODFLOW_EXPORT_REPORT: j->units = 40 + (uint32_t)(hash % 80); break;
    case PRODFLOW_N_TYPES: break;
    }
}

static int append(struct generator *g, enum prodflow_type type, double at)
{
    if (g->n == g->cap) {
        size_t cap = g->cap > 0 ? 2 * g->cap : 4096;
        struct prodflow_job *jobs = reallocarray(g->jobs, cap, sizeof *jobs);
        if (jobs == NULL)
            return ERR_NOMEM;
        g->jobs = jobs;
        g->cap = cap;
    }
    struct prodflow_job j = {
        .arrival_us = (int64_t)(at * 1e6), .type = type, .phase = phase_at(at / g->o->seconds)};
    draw_cost(&g->rng, mt64_mix(g->o->seed + g->n), &j);
    g->jobs[g->n++] = j;
    return 0;
}

/* A Poisson process whose rate changes with the phase, by thinning one of the highest rate. */
static int draw_type(struct generator *g, enum prodflow_type type)
{
    double base = types[type].rate * g->o->rate_scale;
    double rate = base * highest(types[type].multipliers), at = 0;
    for (;;) {
        at += mt64_exponential(&g->rng, rate);
        if (at >= g->o->seconds)
            return 0;
        double now = base * types[type].multipliers[phase_at(at / g->o->seconds)];
        if (mt64_unit(&g->rng) * rate <= now && append(g, type, at) < 0)
            return ERR_NOMEM;
    }
}

/* Jobs of one microsecond keep the order of their types: a job's place before is its tie-breaker,
 * and stands in `at`. */
struct place {
    int64_t arrival_us;
    size_t at;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->arrival_us != y->arrival_us)
        return x->arrival_us < y->arrival_us ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int sort(struct generator *g)
{
    struct place *places = reallocarray(NULL, g->n + 1, sizeof *places);
    struct prodflow_job *jobs = reallocarray(NULL, g->n + 1, sizeof *jobs);
    if (places == NULL || jobs == NULL) {
        free(places);
        free(jobs);
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < g->n; i++)
        places[i] = (struct place){g->jobs[i].arrival_us, i};
    qsort(places, g->n, sizeof *places, by_place);
    for (size_t i = 0; i < g->n; i++)
        jobs[i] = g->jobs[places[i].at];
    free(places);
    free(g->jobs);
    g->jobs = jobs;
    return 0;
}

int prodflow_generate(const struct prodflow_options *o, struct prodflow_job **out, size_t *n)
{
    if (!(o->seconds > 0 && o->seconds <= 86400 && o->rate_scale > 0 && o->rate_scale <= 1000))
        return ERR_INVALID;
    struct generator g = {.o = o};
    mt64_seed(&g.rng, o->seed);
    int r = 0;
    for (int t = 0; r == 0 && t < PRODFLOW_N_TYPES; t++)
        r = draw_type(&g, (enum prodflow_type)t);
    if (r == 0)
        r = sort(&g);
    if (r < 0) {
        free(g.jobs);
        return r;
    }
    *out = g.jobs;
    *n = g.n;
    return 0;
}

double prodflow_planned_ms(const struct prodflow_job *j, const struct prodflow_calibration *c)
{
    double cpu = 0, units = j->units;
    switch (j->type) {
    case PRODFLOW_SEND_ORDER_EMAIL: cpu = units * c->render_kib; break;
    case PRODFLOW_GENERATE_INVOICE: cpu = units * c->invoice_item; break;
    case PRODFLOW_RESIZE_IMAGE: cpu = units / 1e6 * c->resize_megapixel; break;
    case PRODFLOW_REINDEX_PRODUCT: cpu = units * c->reindex_word; break;
    case PRODFLOW_EXPORT_REPORT: cpu = units * c->export_chunk; break;
    default: break;
    }
    return cpu + j->sleep_ms;
}

const struct prodflow_calibration *prodflow_calibration(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(calibrations); i++)
        if (strcmp(calibrations[i].name, name) == 0)
            return &calibrations[i].it;
    return NULL;
}

bool prodflow_size_hint(const struct prodflow_job *j, uint64_t *out)
{
    if (j->type != PRODFLOW_RESIZE_IMAGE && j->type != PRODFLOW_GENERATE_INVOICE &&
        j->type != PRODFLOW_EXPORT_REPORT)
        return false;
    *out = j->units;
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int prodflow_boundaries(const struct prodflow_job *jobs, size_t n,
                        const struct prodflow_calibration *c, double out[2])
{
    double *ms = reallocarray(NULL, n, sizeof *ms);
    if (ms == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        ms[i] = prodflow_planned_ms(&jobs[i], c);
    qsort(ms, n, sizeof *ms, by_value);
    out[0] = ms[n / 3];
    out[1] = ms[2 * n / 3];
    free(ms);
    return 0;
}

const char *prodflow_type_name(enum prodflow_type t)
{
    return types[t].name;
}

const char *prodflow_service_name(enum prodflow_type t)
{
    return types[t].service;
}

const char *prodflow_phase_name(enum prodflow_phase p)
{
    return phases[p].name;
}
