#include "lib/broker_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MAX = 4096, HISTORY_MAX = 1 << 16 };

enum state { WAITING, IN_FLIGHT, DEAD };

struct message {
    enum state state;
    uint64_t id, owner, bytes;
    unsigned key, level;
    int64_t arrived_at, ttl_ns; /* 0: for ever */
    uint64_t place;             /* order of placements */
    uint32_t failures, attempts;
    bool was_pulled;
    bool held; /* while it waits */

    uint64_t consumer, token;
    int64_t pulled_at, lease_end;
    uint64_t lease_order; /* order of leases given and extended */

    enum hb_dead_reason reason;
    int64_t died_at;
    uint64_t death; /* order of deaths */
};

struct ending {
    uint64_t id, consumer, token;
    char how; /* a, n, j (rejected), e (lease) */
    int64_t at;
};

struct broker_model {
    struct hb_broker_options o;
    bool knows_order;
    int64_t now;
    struct message messages[MESSAGES_MAX];
    size_t n;
    struct ending endings[HISTORY_MAX]; /* the last ones, in a ring */
    uint64_t n_endings;
    uint64_t ids, tokens, places, leases, deaths;
    struct hb_broker_stats count;
    struct model_events told, events;
};

struct broker_model *broker_model_new(const struct hb_broker_options *o)
{
    struct broker_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->o = *o;
    m->knows_order = o->order == HB_ORDER_FIFO || (o->aging_threshold_ns == 0 && !o->weighted);
    return m;
}

void broker_model_free(struct broker_model *m)
{
    free(m);
}

const struct model_events *broker_model_events(struct broker_model *m)
{
    m->told = m->events;
    m->events.n = 0;
    return &m->told;
}

static void tell(struct broker_model *m, char what, uint64_t who, double ms)
{
    if (m->events.n < MODEL_EVENTS_MAX)
        m->events.at[m->events.n++] = (struct model_event){what, who, ms};
}

/* The last nanosecond is never reached: it stands for no end. */
static void see(struct broker_model *m, int64_t now)
{
    if (now == INT64_MAX)
        now--;
    if (now > m->now)
        m->now = now;
}

static int64_t lease_end(const struct broker_model *m)
{
    if (m->o.lease_ns == 0 || m->now > INT64_MAX - m->o.lease_ns)
        return INT64_MAX;
    return m->now + m->o.lease_ns;
}

static struct message *find(struct broker_model *m, uint64_t id)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->messages[i].id == id)
            return &m->messages[i];
    return NULL;
}

static void forget(struct broker_model *m, struct message *x)
{
    *x = m->messages[--m->n];
}

static size_t count(const struct broker_model *m, enum state state)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += m->messages[i].state == state;
    return n;
}

static uint64_t living_bytes(const struct broker_model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += m->messages[i].state != DEAD ? m->messages[i].bytes : 0;
    return n;
}

static int64_t expires_at(const struct message *x)
{
    if (x->ttl_ns == 0 || x->arrived_at > INT64_MAX - x->ttl_ns)
        return INT64_MAX;
    return x->arrived_at + x->ttl_ns;
}

static bool expired(const struct broker_model *m, const struct message *x)
{
    return expires_at(x) <= m->now;
}

/* ---- death ---- */

static struct message *oldest_dead(struct broker_model *m)
{
    struct message *oldest = NULL;
    for (size_t i = 0; i < m->n; i++) {
        struct message *x = &m->messages[i];
        if (x->state == DEAD && (oldest == NULL || x->death < oldest->death))
            oldest = x;
    }
    return oldest;
}

static void die(struct broker_model *m, struct message *x, enum hb_dead_reason reason)
{
    if (x->owner != 0 && reason == HB_DEAD_PROCESSING_ERROR) {
        tell(m, 'j', x->owner, x->failures);
        forget(m, x);
        return;
    }
    m->count.died[reason]++;
    if (x->owner != 0) {
        tell(m, reason == HB_DEAD_TTL_EXPIRED ? 't' : 'r', x->owner, x->failures);
        forget(m, x);
        return;
    }
    x->state = DEAD;
    x->reason = reason;
    x->died_at = m->now;
    x->death = ++m->deaths;
    if (m->o.dead_overflow == HB_DEAD_DROP_OLDEST && count(m, DEAD) > m->o.max_dead) {
        m->count.dropped_dead++;
        forget(m, oldest_dead(m));
    }
}

static bool full(const struct broker_model *m, uint64_t bytes)
{
    size_t living = m->n - count(m, DEAD);
    return (m->o.max_messages > 0 && living >= m->o.max_messages) ||
           (m->o.max_bytes > 0 && living_bytes(m) + bytes > m->o.max_bytes);
}

/* ---- attempts ---- */

static void wait_anew(struct broker_model *m, struct message *x)
{
    x->state = WAITING;
    x->held = false;
    x->place = ++m->places;
}

static void fail(struct broker_model *m, struct message *x)
{
    if (expired(m, x)) {
        die(m, x, HB_DEAD_TTL_EXPIRED);
        return;
    }
    if (++x->failures >= m->o.max_attempts) {
        die(m, x, HB_DEAD_MAX_RETRIES);
        return;
    }
    m->count.retried++;
    wait_anew(m, x);
}

static void end_attempt(struct broker_model *m, struct message *x, char how)
{
    m->endings[m->n_endings++ % HISTORY_MAX] =
        (struct ending){x->id, x->consumer, x->token, how, m->now};
}

static void end_lease(struct broker_model *m, struct message *x)
{
    end_attempt(m, x, 'e');
    m->count.leases_expired++;
    if (x->key != 0) {
        m->count.censored++;
        tell(m, 'c', x->key, 0);
    }
    fail(m, x);
}

static struct message *first_lease(struct broker_model *m)
{
    struct message *first = NULL;
    for (size_t i = 0; i < m->n; i++) {
        struct message *x = &m->messages[i];
        if (x->state != IN_FLIGHT || x->lease_end == INT64_MAX)
            continue;
        if (first == NULL || x->lease_order < first->lease_order)
            first = x;
    }
    return first;
}

static struct message *first_expiry(struct broker_model *m)
{
    struct message *first = NULL;
    for (size_t i = 0; i < m->n; i++) {
        struct message *x = &m->messages[i];
        if (x->state != WAITING || expires_at(x) == INT64_MAX)
            continue;
        if (first == NULL || expires_at(x) < expires_at(first) ||
            (expires_at(x) == expires_at(first) && x->id < first->id))
            first = x;
    }
    return first;
}

/* True when more is due. */
static bool sweep(struct broker_model *m)
{
    struct message *x;
    uint32_t left;
    bool more = false;
    for (left = m->o.batch; (x = first_lease(m)) != NULL && x->lease_end <= m->now; left--) {
        if (left == 0) {
            more = true;
            break;
        }
        end_lease(m, x);
    }
    for (left = m->o.batch; (x = first_expiry(m)) != NULL && expired(m, x); left--) {
        if (left == 0)
            return true;
        die(m, x, HB_DEAD_TTL_EXPIRED);
    }
    return more;
}

/* ---- the calls ---- */

int broker_model_submit(struct broker_model *m, const struct model_submission *s, int64_t now)
{
    see(m, now);
    bool dead_full =
        m->o.dead_overflow == HB_DEAD_REFUSE_SUBMITS && count(m, DEAD) >= m->o.max_dead;
    if (dead_full || full(m, s->bytes)) {
        m->count.refused++;
        return HB_BROKER_FULL;
    }
    struct message *x = &m->messages[m->n++];
    *x = (struct message){.id = ++m->ids,
                          .owner = s->owner,
                          .bytes = s->bytes,
                          .key = s->key,
                          .level = s->level,
                          .arrived_at = m->now,
                          .ttl_ns = s->ttl_ns < 0 ? m->o.ttl_ns : s->ttl_ns};
    wait_anew(m, x);
    m->count.submitted++;
    return HB_BROKER_OK;
}

int broker_model_withdraw(struct broker_model *m, uint64_t id)
{
    struct message *x = find(m, id);
    if (x->state != WAITING)
        return HB_BROKER_UNKNOWN;
    forget(m, x);
    return HB_BROKER_OK;
}

int broker_model_hold(struct broker_model *m, uint64_t id)
{
    struct message *x = find(m, id);
    if (x->state != WAITING)
        return HB_BROKER_UNKNOWN;
    x->held = true;
    return HB_BROKER_OK;
}

void broker_model_release(struct broker_model *m, uint64_t id)
{
    find(m, id)->held = false;
}

static size_t count_held(const struct broker_model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += m->messages[i].held;
    return n;
}

static struct message *next_of(struct broker_model *m)
{
    struct message *next = NULL;
    for (size_t i = 0; i < m->n; i++) {
        struct message *x = &m->messages[i];
        if (x->state != WAITING || x->held)
            continue;
        bool level_counts = m->o.order == HB_ORDER_PAPER;
        if (next == NULL || (level_counts && x->level < next->level) ||
            ((!level_counts || x->level == next->level) && x->place < next->place))
            next = x;
    }
    return next;
}

static struct message *select_known(struct broker_model *m)
{
    struct message *x;
    while ((x = next_of(m)) != NULL && expired(m, x))
        die(m, x, HB_DEAD_TTL_EXPIRED);
    return x;
}

bool broker_model_pull(struct broker_model *m, struct model_pull *p, int64_t now, uint64_t chosen)
{
    see(m, now);
    (void)sweep(m);
    struct message *x = m->knows_order ? select_known(m) : find(m, chosen);
    if (x == NULL)
        return chosen == 0 && count(m, WAITING) == count_held(m);
    if (x->id != chosen || x->state != WAITING || x->held || expired(m, x))
        return false;
    x->state = IN_FLIGHT;
    x->consumer = p->consumer;
    x->token = ++m->tokens;
    x->pulled_at = m->now;
    x->lease_end = p->unleased ? INT64_MAX : lease_end(m);
    x->lease_order = ++m->leases;
    p->attempt = ++x->attempts;
    p->redelivered = x->was_pulled;
    x->was_pulled = true;
    m->count.pulled++;
    return true;
}

static const struct ending *remembered(const struct broker_model *m, const struct hb_settlement *s)
{
    for (uint64_t k = 0; k < m->o.history_entries && k < m->n_endings; k++) {
        const struct ending *e = &m->endings[(m->n_endings - 1 - k) % HISTORY_MAX];
        if (m->now - e->at >= m->o.history_ns)
            return NULL;
        if (e->token == s->token)
            return e->id == s->id ? e : NULL;
    }
    return NULL;
}

static int repetition(struct broker_model *m, enum model_settle how, const struct hb_settlement *s,
                      const struct ending *e)
{
    if (e->consumer != s->consumer)
        return HB_BROKER_FOREIGN;
    if ((how == MODEL_ACK && e->how == 'a') || (how == MODEL_NACK && e->how == 'n') ||
        (how == MODEL_REJECT && e->how == 'j')) {
        m->count.repeated++;
        return HB_BROKER_OK;
    }
    return HB_BROKER_STALE;
}

static void ack(struct broker_model *m, struct message *x, double ms)
{
    end_attempt(m, x, 'a');
    if (expired(m, x)) {
        die(m, x, HB_DEAD_TTL_EXPIRED);
        return;
    }
    bool unlimited = x->lease_end == INT64_MAX;
    if (x->key != 0 && ms >= 0 && isfinite(ms) &&
        (unlimited || ms <= (double)(x->lease_end - x->pulled_at) / 1e6)) {
        m->count.learned++;
        tell(m, 'l', x->key, ms);
    }
    m->count.acked++;
    if (x->owner != 0)
        tell(m, 'd', x->owner, x->failures);
    forget(m, x);
}

static int apply(struct broker_model *m, enum model_settle how, struct message *x, double ms)
{
    switch (how) {
    case MODEL_ACK: ack(m, x, ms); break;
    case MODEL_NACK:
        m->count.nacked++;
        end_attempt(m, x, 'n');
        fail(m, x);
        break;
    case MODEL_REJECT:
        m->count.rejected++;
        end_attempt(m, x, 'j');
        die(m, x, HB_DEAD_PROCESSING_ERROR);
        break;
    case MODEL_RETURN:
        m->count.returned++;
        x->attempts--;
        x->state = WAITING;
        break;
    case MODEL_EXTEND:
        if (!m->o.extendable_leases)
            return HB_BROKER_STALE;
        if (x->lease_end != INT64_MAX) {
            x->lease_end = lease_end(m);
            x->lease_order = ++m->leases;
        }
        break;
    }
    return HB_BROKER_OK;
}

int broker_model_settle(struct broker_model *m, enum model_settle how,
                        const struct hb_settlement *s, int64_t now)
{
    see(m, now);
    const struct ending *e = remembered(m, s);
    if (e != NULL)
        return repetition(m, how, s, e);
    struct message *x = find(m, s->id);
    if (x == NULL || x->state != IN_FLIGHT)
        return HB_BROKER_UNKNOWN;
    if (x->consumer != s->consumer)
        return HB_BROKER_FOREIGN;
    if (x->token != s->token)
        return HB_BROKER_STALE;
    if (x->lease_end <= m->now) {
        end_lease(m, x);
        return HB_BROKER_STALE;
    }
    return apply(m, how, x, s->duration_ms);
}

int64_t broker_model_tick(struct broker_model *m, int64_t now)
{
    see(m, now);
    if (sweep(m))
        return INT64_MIN;
    struct message *lease = first_lease(m), *expiry = first_expiry(m);
    int64_t next = lease != NULL ? lease->lease_end : INT64_MAX;
    return expiry != NULL && expires_at(expiry) < next ? expires_at(expiry) : next;
}

int broker_model_redrive(struct broker_model *m, uint64_t id, int64_t now)
{
    see(m, now);
    struct message *x = find(m, id);
    if (x == NULL || x->state != DEAD)
        return HB_BROKER_UNKNOWN;
    if (full(m, x->bytes))
        return HB_BROKER_FULL;
    m->count.redriven++;
    x->failures = x->attempts = 0;
    x->arrived_at = m->now;
    wait_anew(m, x);
    return HB_BROKER_OK;
}

int broker_model_purge(struct broker_model *m, uint64_t id)
{
    struct message *x = find(m, id);
    if (x == NULL || x->state != DEAD)
        return HB_BROKER_UNKNOWN;
    m->count.purged++;
    forget(m, x);
    return HB_BROKER_OK;
}

bool broker_model_dead(const struct broker_model *m, size_t i, struct model_dead *out)
{
    for (size_t j = 0; j < m->n; j++) {
        const struct message *x = &m->messages[j];
        size_t older = 0;
        for (size_t k = 0; k < m->n; k++)
            older += m->messages[k].state == DEAD && m->messages[k].death < x->death;
        if (x->state != DEAD || older != i)
            continue;
        *out = (struct model_dead){x->id, x->reason, x->failures, x->died_at};
        return true;
    }
    return false;
}

void broker_model_stats(const struct broker_model *m, struct hb_broker_stats *out)
{
    *out = m->count;
    out->waiting = count(m, WAITING);
    out->held = count_held(m);
    out->in_flight = count(m, IN_FLIGHT);
    out->dead = count(m, DEAD);
    out->bytes = living_bytes(m);
    out->ttl_expired = out->died[HB_DEAD_TTL_EXPIRED];
}
