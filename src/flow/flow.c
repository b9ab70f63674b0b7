#include "flow/flow.h"

#include "flow/id.h"
#include "flow/seen.h"

#include <math.h>
#include <stdlib.h>

#define ADVICE_PERIOD    (60 * MONO_S)
#define ADVICE_MIN_JOBS  20
#define ADVICE_MIN_KEYED 100

struct flow {
    struct flow_rules rules;
    struct hb_predictor *predictor;
    unsigned default_level;
    struct hash_seed seed;
    uint64_t instance, sequence;
    struct seen *seen;
    struct flow_stats stats;
    struct flow_witness witness;

    /* The running period of flow_advise. */
    struct {
        mono_t ends_at; /* 0: none has begun */
        uint64_t jobs, reports;
        uint64_t first_key; /* hash */
        bool mixed_keys;
    } period;
};

struct flow *flow_new(const struct flow_options *o, struct err *err)
{
    char why[160];
    if (!hb_predictor_options_valid(&o->predictor, why, sizeof why)) {
        err_set(err, ERR_INVALID, "predictor: %s", why);
        return NULL;
    }
    struct flow *f = calloc(1, sizeof *f);
    if (f == NULL)
        goto out;
    f->rules = o->rules;
    f->default_level = o->predictor.default_level;
    f->seed = o->seed;
    f->instance = o->instance;
    f->witness = o->witness;
    f->predictor = hb_predictor_new(&o->predictor);
    f->seen = seen_new(o->remembered_ids);
    if (f->predictor != NULL && f->seen != NULL)
        return f;
out:
    flow_free(f);
    err_set(err, ERR_NOMEM, "no memory for %u keys and %zu remembered ids", o->predictor.max_keys,
            o->remembered_ids);
    return NULL;
}

void flow_free(struct flow *f)
{
    if (f == NULL)
        return;
    hb_predictor_free(f->predictor);
    seen_free(f->seen);
    free(f);
}

void flow_set_rules(struct flow *f, const struct flow_rules *rules)
{
    f->rules = *rules;
}

struct hb_predictor *flow_predictor(struct flow *f)
{
    return f->predictor;
}

const struct flow_stats *flow_stats(struct flow *f)
{
    f->stats.remembered_ids = seen_count(f->seen);
    return &f->stats;
}

/* ---- job -> key -> decision -> backend ---- */

static struct hb_key whole(const struct key *k)
{
    return (struct hb_key){k->raw, k->n};
}

static struct hb_key parent(const struct key *k)
{
    return (struct hb_key){k->n_parent > 0 ? k->raw : NULL, k->n_parent};
}

static bool keeps_priority(const struct flow *f, const struct job *job)
{
    switch (f->rules.respect_priority) {
    case FLOW_RESPECT_ALWAYS: return job->has_priority;
    case FLOW_RESPECT_NONZERO: return job->has_priority && job->priority != 0;
    case FLOW_RESPECT_NEVER: break;
    }
    return false;
}

/* The level that is served, and the word for it. */
static void choose_level(const struct flow *f, const struct hb_prediction *p, struct text label,
                         struct ticket *ticket)
{
    int by_hand = -1;
    ticket->level = f->default_level;
    switch (f->rules.mode) {
    case FLOW_STATIC:
        ticket->reason = FLOW_REASON_STATIC;
        if (f->rules.static_level != NULL && label.n > 0)
            by_hand = f->rules.static_level(f->rules.static_ctx, label);
        if (by_hand >= 0)
            ticket->level = (unsigned)by_hand;
        break;
    case FLOW_SHADOW: ticket->reason = FLOW_REASON_SHADOW; break;
    case FLOW_PREDICTIVE:
        ticket->reason = hb_reason_name(p->reason);
        ticket->level = p->level;
        break;
    }
}

static void count_job(struct flow *f, const struct ticket *ticket, const struct key *key)
{
    f->stats.jobs++;
    if (ticket->keep_priority)
        f->stats.kept_priority++;
    else
        f->stats.by_level[ticket->level]++;

    bool is_first = f->period.jobs++ == 0;
    if (f->period.mixed_keys)
        return;
    uint64_t hash = hash_bytes(&f->seed, key->raw, key->n);
    if (is_first)
        f->period.first_key = hash;
    else if (hash != f->period.first_key)
        f->period.mixed_keys = true;
}

/* The id of the message that is being decided about. */
static size_t print_id(const struct flow *f, const struct hb_prediction *p,
                       char out[ID_PRINT_BYTES])
{
    struct id id = {.instance = f->instance,
                    .sequence = f->sequence + 1,
                    .level = p->level,
                    .estimate_us =
                        p->has_estimate ? llround(p->estimate_ms * 1000) : ID_NO_ESTIMATE};
    return id_print(&id, out);
}

int flow_submit(struct flow *f, struct backend *b, void *message, const struct job *job, mono_t now)
{
    struct key key;
    struct text label;
    char label_scratch[JOB_SCRATCH_BYTES], printed_key[KEY_PRINT_BYTES], printed_id[ID_PRINT_BYTES];
    bool prints = backend_prints(b);
    key_of(&f->rules.key, job, &key, &label, label_scratch);

    struct hb_prediction p = {.level = f->default_level};
    if (f->rules.mode != FLOW_STATIC)
        hb_predictor_predict(f->predictor, whole(&key), parent(&key), now, &p);

    struct ticket ticket = {
        .id = {printed_id, prints ? print_id(f, &p, printed_id) : 0},
        .key = {printed_key, prints ? key_print(&key, printed_key) : 0},
        .keep_priority = keeps_priority(f, job),
        .priority = job->priority,
        .raw_key = {key.raw, key.n},
        .n_parent = key.n_parent,
        .predicted = p.has_estimate,
        .predicted_level = p.level,
        .predicted_ms = p.estimate_ms,
        .estimate_ms = p.has_estimate && f->rules.mode == FLOW_PREDICTIVE ? p.estimate_ms : -1,
    };
    choose_level(f, &p, label, &ticket);
    if (ticket.keep_priority)
        ticket.reason = FLOW_REASON_PRODUCER;

    int r = backend_submit(b, message, &ticket);
    if (r != 0)
        return r;
    f->sequence++;
    count_job(f, &ticket, &key);
    if (f->witness.decided != NULL)
        f->witness.decided(f->witness.ctx, &ticket, now);
    return 0;
}

/* ---- report -> learning ---- */

static bool observe(struct flow *f, struct hb_key key, struct hb_key parent, double ms, mono_t now)
{
    bool learned = hb_predictor_observe(f->predictor, key, parent, ms, now);
    if (learned && f->witness.learned != NULL)
        f->witness.learned(f->witness.ctx, key, parent, ms, now);
    return learned;
}

static bool censor(struct flow *f, struct hb_key key, struct hb_key parent, mono_t now)
{
    bool marked = hb_predictor_censor(f->predictor, key, parent, now);
    if (marked && f->witness.timed_out != NULL)
        f->witness.timed_out(f->witness.ctx, key, parent, now);
    return marked;
}

/* An id is optional; one that is there must be ours. The drift signals need what was predicted at
 * ingress. */
static enum flow_report_result learn(struct flow *f, const struct report *r, const struct key *key,
                                     mono_t now)
{
    struct id id = {.estimate_us = ID_NO_ESTIMATE};
    if (r->id.n > 0 && id_parse(r->id, &id) < 0)
        return FLOW_MALFORMED;
    if (r->id.n == 0)
        f->stats.no_id++;
    else if (seen_add(f->seen, hash_bytes(&f->seed, r->id.p, r->id.n)))
        return FLOW_DUPLICATE;

    if (id.estimate_us != ID_NO_ESTIMATE)
        hb_predictor_score(f->predictor, id.level, (double)id.estimate_us / 1000, r->duration_ms);
    bool learned = observe(f, whole(key), parent(key), r->duration_ms, now);
    return learned ? FLOW_LEARNED : FLOW_MALFORMED;
}

static enum flow_report_result take_report(struct flow *f, const struct report *r, mono_t now)
{
    struct key key;
    if (r == NULL)
        return FLOW_MALFORMED;
    if (r->outcome == REPORT_ERROR)
        return FLOW_ERROR;
    if (key_parse(r->key, &key) < 0)
        return FLOW_NO_KEY;
    if (r->outcome == REPORT_TIMEOUT) {
        bool marked = censor(f, whole(&key), parent(&key), now);
        return marked ? FLOW_TIMEOUT : FLOW_NO_KEY;
    }
    if (!r->has_duration)
        return FLOW_MALFORMED;
    if (r->duration_ms < 0)
        return FLOW_NEGATIVE;
    if (r->duration_ms > f->rules.max_duration_ms)
        return FLOW_TOO_LONG;
    return learn(f, r, &key, now);
}

void flow_report(struct flow *f, const struct report *report, mono_t now)
{
    f->period.reports++;
    f->stats.reports[take_report(f, report, now)]++;
}

void flow_learn(struct flow *f, const struct hb_lesson *l, mono_t now)
{
    f->period.reports++;
    if (l->duration_ms > f->rules.max_duration_ms) {
        f->stats.reports[FLOW_TOO_LONG]++;
        return;
    }
    if (l->predicted)
        hb_predictor_score(f->predictor, l->level, l->estimate_ms, l->duration_ms);
    if (observe(f, l->key, l->parent, l->duration_ms, now))
        f->stats.settled++;
}

void flow_censor(struct flow *f, struct hb_key key, struct hb_key parent, mono_t now)
{
    if (censor(f, key, parent, now))
        f->stats.overrun++;
}

struct report_call {
    struct flow *flow;
    mono_t now;
};

static void report_element(void *ctx, const struct report *r)
{
    const struct report_call *call = ctx;
    flow_report(call->flow, r, call->now);
}

void flow_report_body(struct flow *f, const char *body, size_t n, mono_t now)
{
    struct report_call call = {f, now};
    report_parse(body, n, report_element, &call);
}

const char *flow_report_result_name(enum flow_report_result r)
{
    static const char *const names[] = {
#define FLOW_REPORT_WORD(name, word) word,
        FLOW_REPORT_MAP(FLOW_REPORT_WORD)
#undef FLOW_REPORT_WORD
    };
    return names[r];
}

/* ---- is it of any use? ---- */

bool flow_advise(struct flow *f, mono_t now, struct flow_advice *out)
{
    if (f->period.ends_at == 0)
        f->period.ends_at = mono_add(now, ADVICE_PERIOD);
    if (now < f->period.ends_at)
        return false;
    *out = (struct flow_advice){
        .no_reports = f->period.jobs >= ADVICE_MIN_JOBS && f->period.reports == 0,
        .one_key = f->period.jobs >= ADVICE_MIN_KEYED && !f->period.mixed_keys,
    };
    f->period.ends_at = mono_add(now, ADVICE_PERIOD);
    f->period.jobs = f->period.reports = 0;
    f->period.mixed_keys = false;
    return true;
}
