#include "sim/router.h"

#include "flow/key.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE_HEADER "size"

enum { ROUTER_NEW = 0xffff, GROUP_SHIFT = 8, KEY_LEVEL_MASK = 0xff };

static bool uses_flow(enum sim_router r)
{
    return r == SIM_FLOW || r == SIM_SHADOW;
}

const char *sim_router_name(enum sim_router r)
{
    static const char *const names[] = {
#define SIM_ROUTER_WORD(name, word) word,
        SIM_ROUTER_MAP(SIM_ROUTER_WORD)
#undef SIM_ROUTER_WORD
    };
    return (unsigned)r < ARRAY_SIZE(names) ? names[r] : "unknown";
}

/* ---- the core for it ---- */

/* A level per key, all with the same share: what is charged is the level's running average. */
static int adjust_queues(const struct sim_plan *plan, struct sim_options *o, struct err *e)
{
    uint32_t n = plan->info.n_keys;
    if (n > HB_LEVELS_MAX)
        return err_set(e, ERR_INVALID, "a queue per key: %lu keys, but at most %d levels",
                       (unsigned long)n, HB_LEVELS_MAX);
    o->predictor.levels = n;
    o->predictor.default_level = 0;
    o->broker.aging_threshold_ns = 0;
    o->broker.weighted = true;
    for (uint32_t i = 0; i < n; i++)
        o->broker.weights[i] = 1;
    return 0;
}

int router_adjust(const struct sim_plan *plan, struct sim_options *o, struct err *e)
{
    char why[160];
    if (o->router == SIM_QUEUES && adjust_queues(plan, o, e) < 0)
        return e->code;
    if (o->router == SIM_FIFO)
        o->broker.order = HB_ORDER_FIFO;
    if (o->router == SIM_MAP && o->map == NULL)
        return err_set(e, ERR_INVALID, "there is no map from keys to levels");
    o->broker.levels = o->predictor.levels;
    if (!hb_predictor_options_valid(&o->predictor, why, sizeof why))
        return err_set(e, ERR_INVALID, "predictor: %s", why);
    if (!hb_broker_options_valid(&o->broker, why, sizeof why))
        return err_set(e, ERR_INVALID, "broker: %s", why);
    return 0;
}

/* ---- the flow's view of a job ---- */

static struct text size_header(const void *message, const char *name,
                               char scratch[JOB_SCRATCH_BYTES])
{
    const struct sim_job *job = message;
    if (job->size == SIM_NO_SIZE || strcmp(name, SIZE_HEADER) != 0)
        return (struct text){NULL, 0};
    int n = snprintf(scratch, JOB_SCRATCH_BYTES, "%llu", (unsigned long long)job->size);
    return (struct text){scratch, (size_t)n};
}

/* The producer is the application, the key its label. */
static struct job job_of(const struct router *r, const struct sim_job *job)
{
    const struct sim_source *s = r->source;
    struct job out = {
        .type = s->key(s->ctx, job->key),
        .message = job,
        .header = size_header,
    };
    if (job->producer != SIM_NO_PRODUCER && s->producer != NULL)
        out.app_id = s->producer(s->ctx, job->producer);
    return out;
}

static struct flow_rules rules_of(const struct sim_options *o)
{
    struct flow_rules rules = {
        .mode = o->router == SIM_SHADOW ? FLOW_SHADOW : FLOW_PREDICTIVE,
        .key = {.producer = {{KEY_APP_ID, NULL}},
                .n_producer = 1,
                .label = {{KEY_TYPE, NULL}},
                .n_label = 1},
        .max_duration_ms = (double)INFINITY,
    };
    if (o->size_bins)
        rules.key.size = (struct key_source){KEY_HEADER, SIZE_HEADER};
    return rules;
}

int router_init(struct router *r, const struct sim_plan *plan, const struct sim_source *source,
                const struct sim_options *o, struct err *e)
{
    *r = (struct router){.plan = plan, .source = source, .options = o};
    struct flow_options flow = {.rules = rules_of(o), .predictor = o->predictor};
    r->key_rules = flow.rules.key;
    r->flow = flow_new(&flow, e);
    if (r->flow == NULL)
        return e->code;
    r->station = station_new(&(struct station_options){.flow = r->flow, .broker = o->broker}, e);
    if (r->station != NULL) {
        r->by_key = malloc(plan->info.n_keys * sizeof r->by_key[0]);
        if (r->by_key == NULL)
            err_set(e, ERR_NOMEM, "no memory for %lu keys", (unsigned long)plan->info.n_keys);
    }
    if (r->by_key == NULL) {
        router_fini(r);
        return e->code;
    }
    for (uint32_t i = 0; i < plan->info.n_keys; i++)
        r->by_key[i] = ROUTER_NEW;
    return 0;
}

void router_fini(struct router *r)
{
    station_free(r->station);
    flow_free(r->flow);
    free(r->by_key);
    *r = (struct router){0};
}

void router_teach(struct router *r, const struct sim_job *job, mono_t at)
{
    struct key key;
    struct text label;
    char scratch[JOB_SCRATCH_BYTES];
    if (!uses_flow(r->options->router) || !r->options->warm)
        return;
    struct job view = job_of(r, job);
    key_of(&r->key_rules, &view, &key, &label, scratch);
    struct text parent = key_parent(&key);
    (void)hb_predictor_observe(flow_predictor(r->flow), (struct hb_key){key.raw, key.n},
                               (struct hb_key){parent.p, parent.n}, (double)job->duration_us / 1000,
                               at);
}

/* ---- levels that hang on the key alone ---- */

static unsigned drawn_level(const struct router *r, struct text key)
{
    const struct hash_seed seed = {r->options->seed, 0};
    return (unsigned)(hash_bytes(&seed, key.p, key.n) % r->options->predictor.levels);
}

static unsigned level_by_key(const struct router *r, uint32_t i, struct text key)
{
    const struct sim_options *o = r->options;
    int by_hand = -1;
    switch (o->router) {
    case SIM_RANDOM: return drawn_level(r, key);
    case SIM_QUEUES: return i;
    case SIM_HISTORY:
        if (r->plan->median_us[i] >= 0)
            return plan_level(r->plan, o->predictor.levels, r->plan->median_us[i]);
        break;
    case SIM_MAP: by_hand = o->map(o->ctx, key); break;
    default: return 0;
    }
    return by_hand >= 0 ? (unsigned)by_hand : o->predictor.default_level;
}

static uint16_t look_at_key(const struct router *r, uint32_t i)
{
    const struct sim_options *o = r->options;
    struct text key = r->source->key(r->source->ctx, i);
    unsigned level = level_by_key(r, i, key);
    unsigned group = o->group != NULL ? o->group(o->ctx, key) % SIM_GROUPS : 0;
    if (level >= o->predictor.levels)
        level = o->predictor.levels - 1;
    return (uint16_t)(group << GROUP_SHIFT | level);
}

/* ---- in ---- */

static int submit_by_hand(struct router *r, struct routed_job *to)
{
    to->reason = sim_router_name(r->options->router);
    to->estimate_ms = -1;
    return hb_broker_submit(
        station_broker(r->station),
        &(struct hb_submission){.owner = to, .level = to->level, .estimate_ms = -1}, to->arrived_at,
        NULL, NULL);
}

static int submit_to_flow(struct router *r, const struct sim_job *job, struct routed_job *to)
{
    struct job view = job_of(r, job);
    struct station_message m = {.job = &view, .owner = to};
    int result = station_submit(r->station, &m, to->arrived_at);
    to->level = (uint8_t)m.level;
    to->reason = m.reason;
    to->estimate_ms = m.estimate_ms;
    return result;
}

int router_submit(struct router *r, const struct sim_job *job, struct routed_job *to)
{
    if (r->by_key[job->key] == ROUTER_NEW)
        r->by_key[job->key] = look_at_key(r, job->key);
    to->level = (uint8_t)(r->by_key[job->key] & KEY_LEVEL_MASK);
    to->group = (uint8_t)(r->by_key[job->key] >> GROUP_SHIFT);
    to->class = (uint8_t)plan_level(r->plan, SIM_CLASSES, job->duration_us);
    if (uses_flow(r->options->router))
        return submit_to_flow(r, job, to);
    if (r->options->router == SIM_ORACLE)
        to->level = (uint8_t)plan_level(r->plan, r->options->predictor.levels, job->duration_us);
    return submit_by_hand(r, to);
}
