#include "flow/station.h"

#include "port/backend_impl.h"

#include <stdlib.h>

struct station {
    struct backend backend;
    struct station_options options;
    struct hb_broker *broker;
    mono_t now; /* of the submission that is under way */
};

static unsigned level_of(const struct station *s, const struct ticket *t)
{
    if (!t->keep_priority)
        return t->level;
    unsigned lowest = s->options.broker.levels - 1;
    return t->priority < lowest ? lowest - t->priority : 0;
}

static int submit(struct backend *b, void *message, const struct ticket *t)
{
    struct station *s = CONTAINER_OF(b, struct station, backend);
    struct station_message *m = message;
    m->level = level_of(s, t);
    m->reason = t->reason;
    m->estimate_ms = t->estimate_ms;
    struct hb_submission submission = {
        .payload = m->payload,
        .headers = m->headers,
        .owner = m->owner,
        .key = {t->raw_key.p, t->raw_key.n},
        .n_parent = t->n_parent,
        .level = m->level,
        .estimate_ms = t->estimate_ms,
        .predicted = t->predicted,
        .predicted_level = t->predicted_level,
        .predicted_ms = t->predicted_ms,
        .ttl_ns = m->ttl_ns,
    };
    return hb_broker_submit(s->broker, &submission, s->now, &m->id, &m->message);
}

static const struct backend_ops station_ops = {
    .name = "harbinger", .submit = submit, .unprinted = true};

static void learn(void *ctx, const struct hb_lesson *lesson, int64_t now)
{
    const struct station *s = ctx;
    flow_learn(s->options.flow, lesson, now);
}

static void censor(void *ctx, struct hb_key key, struct hb_key parent, int64_t now)
{
    const struct station *s = ctx;
    flow_censor(s->options.flow, key, parent, now);
}

static void ended(void *ctx, void *owner, const struct hb_end *end, int64_t now)
{
    const struct station *s = ctx;
    if (s->options.ended != NULL)
        s->options.ended(s->options.ctx, owner, end, now);
}

static void available(void *ctx)
{
    const struct station *s = ctx;
    if (s->options.available != NULL)
        s->options.available(s->options.ctx);
}

struct station *station_new(const struct station_options *o, struct err *err)
{
    char why[160];
    if (!hb_broker_options_valid(&o->broker, why, sizeof why)) {
        err_set(err, ERR_INVALID, "broker: %s", why);
        return NULL;
    }
    struct station *s = calloc(1, sizeof *s);
    if (s != NULL) {
        struct hb_broker_events events = {learn, censor, ended, available, s};
        s->backend.ops = &station_ops;
        s->options = *o;
        s->broker = hb_broker_new(&o->broker, &events);
    }
    if (s != NULL && s->broker != NULL)
        return s;
    free(s);
    err_set(err, ERR_NOMEM, "no memory for the broker");
    return NULL;
}

void station_free(struct station *s)
{
    if (s == NULL)
        return;
    hb_broker_free(s->broker);
    free(s);
}

struct hb_broker *station_broker(struct station *s)
{
    return s->broker;
}

int station_submit(struct station *s, struct station_message *m, mono_t now)
{
    s->now = now;
    return flow_submit(s->options.flow, &s->backend, m, m->job, now);
}
