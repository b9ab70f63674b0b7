#include "broker/broker_internal.h"

#include <assert.h>
#include <stdlib.h>

/* ---- life ---- */

static struct policy *policy_for(const struct hb_broker_options *o)
{
    if (o->order == HB_ORDER_FIFO)
        return policy_fifo_new();
    bool pause = o->pause == HB_PAUSE_ALWAYS || (o->pause == HB_PAUSE_WITH_WEIGHTS && o->weighted);
    return policy_paper_new(&(struct policy_paper_options){
        .n_levels = o->levels,
        .aging_threshold = o->aging_threshold_ns,
        .aging_interval = o->aging_interval_ns,
        .pause_when_behind = pause,
        .slice = o->batch,
        .weights = o->weighted ? o->weights : NULL,
    });
}

struct hb_broker *hb_broker_new(const struct hb_broker_options *o,
                                const struct hb_broker_events *events)
{
    if (!hb_broker_options_valid(o, NULL, 0))
        return NULL;
    struct hb_broker *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->options = *o;
    if (events != NULL)
        b->events = *events;
    list_init(&b->dead);
    list_init(&b->inflight.by_deadline);
    list_init(&b->inflight.unleased);
    b->policy = policy_for(o);
    if (b->policy != NULL && inflight_init(&b->inflight, o->seed[0] ^ o->seed[1]) &&
        history_init(&b->history, o->history_entries, o->history_ns))
        return b;
    hb_broker_free(b);
    return NULL;
}

void hb_broker_free(struct hb_broker *b)
{
    if (b == NULL)
        return;
    struct policy_msg *waiting;
    while (b->policy != NULL && (waiting = policy_any(b->policy)) != NULL) {
        policy_remove(b->policy, waiting);
        free(record_of(waiting));
    }
    struct attempt *a;
    while ((a = inflight_any(&b->inflight)) != NULL) {
        list_remove(&a->link);
        free(a->m);
    }
    dead_free(b);
    policy_free(b->policy);
    inflight_fini(&b->inflight);
    ttl_fini(&b->ttl);
    history_fini(&b->history);
    free(b);
}

void broker_leave(struct hb_broker *b)
{
    if (b->came_to_wait && b->events.available != NULL)
        b->events.available(b->events.ctx);
    b->came_to_wait = false;
}

/* ---- what a living message claims ---- */

static bool is_full(const struct hb_broker *b, uint64_t bytes)
{
    const struct hb_broker_options *o = &b->options;
    uint64_t living = policy_waiting(b->policy) + b->inflight.n;
    return (o->max_messages > 0 && living >= o->max_messages) ||
           (o->max_bytes > 0 && (bytes > o->max_bytes || b->count.bytes > o->max_bytes - bytes));
}

int broker_claim(struct hb_broker *b, uint64_t bytes, bool has_deadline)
{
    if (is_full(b, bytes))
        return HB_BROKER_FULL;
    if (has_deadline && !ttl_reserve(&b->ttl))
        return HB_BROKER_NOMEM;
    b->count.bytes += bytes;
    return HB_BROKER_OK;
}

static void unclaim(struct hb_broker *b, uint64_t bytes, bool has_deadline)
{
    b->count.bytes -= bytes;
    if (has_deadline)
        ttl_release(&b->ttl);
}

void broker_unclaim(struct hb_broker *b, const struct hb_message *m)
{
    unclaim(b, record_bytes(m), m->expires_at != MONO_NEVER);
}

/* ---- ways to wait, and out of it ---- */

static void now_waits(struct hb_broker *b, struct hb_message *m)
{
    m->state = RECORD_WAITING;
    ttl_add(&b->ttl, m);
    b->came_to_wait = true;
}

void broker_place(struct hb_broker *b, struct hb_message *m)
{
    policy_place(b->policy, &m->policy, b->now);
    now_waits(b, m);
}

void broker_put_back(struct hb_broker *b, struct hb_message *m)
{
    policy_put_back(b->policy, &m->policy);
    now_waits(b, m);
}

void broker_requeue(struct hb_broker *b, struct hb_message *m)
{
    policy_requeue(b->policy, &m->policy, b->now);
    now_waits(b, m);
}

bool broker_sweep_ttl(struct hb_broker *b, enum checkpoint where)
{
    struct hb_message *m;
    for (uint32_t left = b->options.batch; (m = ttl_due(&b->ttl, b->now)) != NULL; left--) {
        if (left == 0)
            return true;
        policy_remove(b->policy, &m->policy);
        ttl_remove(&b->ttl, m);
        dead_by_ttl(b, m, where, NULL);
    }
    return false;
}

/* ---- in ---- */

static mono_t expiry(const struct hb_broker *b, int64_t ttl_ns)
{
    int64_t ttl = ttl_ns < 0 ? b->options.ttl_ns : ttl_ns;
    return ttl > 0 ? mono_add(b->now, ttl) : MONO_NEVER;
}

static int refuse(struct hb_broker *b, int outcome)
{
    if (outcome == HB_BROKER_FULL)
        b->count.refused++;
    return outcome;
}

int hb_broker_submit(struct hb_broker *b, const struct hb_submission *s, int64_t now, uint64_t *id,
                     struct hb_message **message)
{
    assert(s->level < b->options.levels);
    broker_see(b, now);
    uint64_t bytes = (uint64_t)s->payload.n + s->headers.n;
    mono_t expires_at = expiry(b, s->ttl_ns);
    if (dead_is_full(b))
        return refuse(b, HB_BROKER_FULL);
    int r = broker_claim(b, bytes, expires_at != MONO_NEVER);
    if (r != HB_BROKER_OK)
        return refuse(b, r);
    struct hb_message *m = record_new(s);
    if (m == NULL) {
        unclaim(b, bytes, expires_at != MONO_NEVER);
        return HB_BROKER_NOMEM;
    }
    m->id = ++b->last_id;
    m->policy.arrived_at = b->now;
    m->expires_at = expires_at;
    broker_place(b, m);
    b->count.submitted++;
    if (id != NULL)
        *id = m->id;
    if (message != NULL)
        *message = s->owner != NULL ? m : NULL;
    broker_leave(b);
    return HB_BROKER_OK;
}

int hb_broker_withdraw(struct hb_broker *b, struct hb_message *m)
{
    if (m->state != RECORD_WAITING)
        return HB_BROKER_UNKNOWN;
    policy_remove(b->policy, &m->policy);
    ttl_remove(&b->ttl, m);
    broker_unclaim(b, m);
    free(m);
    return HB_BROKER_OK;
}

bool hb_broker_waits(const struct hb_message *m)
{
    return m->state == RECORD_WAITING;
}

uint32_t hb_broker_failures(const struct hb_message *m)
{
    return m->failures;
}

int hb_broker_hold(struct hb_broker *b, struct hb_message *m)
{
    if (m->state != RECORD_WAITING)
        return HB_BROKER_UNKNOWN;
    policy_hold(b->policy, &m->policy);
    return HB_BROKER_OK;
}

void hb_broker_release(struct hb_broker *b, struct hb_message *m)
{
    if (m->state != RECORD_WAITING || !m->policy.held)
        return;
    policy_release(b->policy, &m->policy);
    b->came_to_wait = true;
    broker_leave(b);
}

/* ---- out ---- */

/* A selected message that has expired was served to nobody: its charge is given back before it
 * dies. This happens only when more were due than one sweep takes. */
static void kill_selected(struct hb_broker *b, struct hb_message *m)
{
    policy_put_back(b->policy, &m->policy);
    policy_remove(b->policy, &m->policy);
    ttl_remove(&b->ttl, m);
    dead_by_ttl(b, m, AT_SELECTION, NULL);
}

static struct hb_message *next_alive(struct hb_broker *b)
{
    struct policy_msg *p;
    while ((p = policy_next(b->policy, b->now)) != NULL) {
        if (!record_expired(record_of(p), b->now))
            return record_of(p);
        kill_selected(b, record_of(p));
    }
    return NULL;
}

struct puller {
    uint64_t consumer;
    int64_t lease_ns; /* 0: none */
};

static void deliver(struct hb_broker *b, struct hb_message *m, const struct puller *to,
                    struct hb_delivery *out)
{
    ttl_remove(&b->ttl, m);
    struct attempt *a = inflight_add(
        &b->inflight, m, to->lease_ns > 0 ? mono_add(b->now, to->lease_ns) : MONO_NEVER);
    m->state = RECORD_IN_FLIGHT;
    m->deliveries++;
    a->consumer = to->consumer;
    a->token = ++b->last_token;
    a->pulled_at = b->now;
    b->count.pulled++;
    *out = (struct hb_delivery){
        .id = m->id,
        .token = a->token,
        .payload = record_payload(m),
        .headers = record_headers(m),
        .owner = record_owner(m),
        .attempt = m->deliveries,
        .redelivered = m->was_pulled,
        .level = m->policy.level,
        .lease_ns = to->lease_ns,
        .waited_ns = b->now - m->policy.arrived_at,
        .lesson = record_lesson(m),
    };
    m->was_pulled = true;
}

static int pull(struct hb_broker *b, const struct puller *to, int64_t now, struct hb_delivery *out)
{
    int r = HB_BROKER_EMPTY;
    broker_see(b, now);
    (void)broker_sweep_leases(b);
    (void)broker_sweep_ttl(b, AT_PULL);
    if (!inflight_reserve(&b->inflight)) {
        r = HB_BROKER_NOMEM;
    } else {
        struct hb_message *m = next_alive(b);
        if (m != NULL) {
            deliver(b, m, to, out);
            r = HB_BROKER_OK;
        }
    }
    broker_leave(b);
    return r;
}

int hb_broker_pull(struct hb_broker *b, uint64_t consumer, int64_t now, struct hb_delivery *out)
{
    return pull(b, &(struct puller){consumer, b->options.lease_ns}, now, out);
}

int hb_broker_pull_unleased(struct hb_broker *b, uint64_t consumer, int64_t now,
                            struct hb_delivery *out)
{
    return pull(b, &(struct puller){.consumer = consumer}, now, out);
}

int64_t hb_broker_tick(struct hb_broker *b, int64_t now)
{
    broker_see(b, now);
    bool leases_left = broker_sweep_leases(b);
    bool expired_left = broker_sweep_ttl(b, AT_SWEEP);
    history_prune(&b->history, b->now, b->options.batch);
    /* An expired message is never promoted: the order of service looks on only after the sweep. */
    mono_t next = expired_left ? b->now : policy_tick(b->policy, b->now);
    if (leases_left)
        next = b->now;
    struct attempt *first = inflight_first(&b->inflight);
    if (first != NULL)
        next = mono_min(next, first->deadline);
    broker_leave(b);
    next = mono_min(next, ttl_next(&b->ttl));
    /* What is left is due at once, even if the caller's clock has gone back. */
    return next <= b->now ? mono_min(next, now) : next;
}
