#include "broker/broker_internal.h"

#include <math.h>
#include <stdlib.h>

void broker_fail(struct hb_broker *b, struct hb_message *m, enum checkpoint where,
                 const struct hb_bytes *why)
{
    if (record_expired(m, b->now)) {
        dead_by_ttl(b, m, where, where == AT_LEASE_END ? NULL : why);
        return;
    }
    m->failures++;
    if (m->failures >= b->options.max_attempts) {
        dead_by_failures(b, m, why);
        return;
    }
    b->count.retried++;
    broker_requeue(b, m);
}

/* A duration is believed when the lease, with its extensions, has room for it; without one, any.
 * False for NaN. */
static bool plausible(double duration_ms, int64_t lease_ns)
{
    return duration_ms >= 0 && isfinite(duration_ms) && duration_ms <= mono_to_ms(lease_ns);
}

static void learn(struct hb_broker *b, const struct hb_message *m, double duration_ms)
{
    b->count.learned++;
    if (b->events.learn == NULL)
        return;
    struct hb_lesson lesson = record_lesson(m);
    lesson.duration_ms = duration_ms;
    b->events.learn(b->events.ctx, &lesson, b->now);
}

static void finish(struct hb_broker *b, struct hb_message *m)
{
    b->count.acked++;
    broker_unclaim(b, m);
    if (m->has_owner && b->events.ended != NULL)
        b->events.ended(
            b->events.ctx, record_owner(m),
            &(struct hb_end){.id = m->id, .how = HB_ENDED_ACKED, .failures = m->failures}, b->now);
    free(m);
}

static void accept_ack(struct hb_broker *b, struct attempt *a, double duration_ms)
{
    int64_t lease_ns = a->deadline == MONO_NEVER ? MONO_NEVER : a->deadline - a->pulled_at;
    struct hb_message *m = broker_end_attempt(b, a, HISTORY_ACKED);
    if (record_expired(m, b->now)) {
        dead_by_ttl(b, m, AT_ACK, NULL);
        return;
    }
    if (plausible(duration_ms, lease_ns)) {
        policy_done(b->policy, &m->policy, duration_ms);
        if (m->n_key > 0)
            learn(b, m, duration_ms);
    }
    finish(b, m);
}

int hb_broker_ack(struct hb_broker *b, const struct hb_settlement *s, int64_t now)
{
    static const enum history_ending acked = HISTORY_ACKED;
    struct attempt *a;
    broker_see(b, now);
    int r = broker_find_attempt(b, s, &acked, &a);
    if (a != NULL)
        accept_ack(b, a, s->duration_ms);
    broker_leave(b);
    return r;
}

int hb_broker_nack(struct hb_broker *b, const struct hb_settlement *s, int64_t now)
{
    static const enum history_ending nacked = HISTORY_NACKED;
    struct attempt *a;
    broker_see(b, now);
    int r = broker_find_attempt(b, s, &nacked, &a);
    if (a != NULL) {
        b->count.nacked++;
        broker_fail(b, broker_end_attempt(b, a, HISTORY_NACKED), AT_NACK, &s->reason);
    }
    broker_leave(b);
    return r;
}

int hb_broker_reject(struct hb_broker *b, const struct hb_settlement *s, int64_t now)
{
    static const enum history_ending rejected = HISTORY_REJECTED;
    struct attempt *a;
    broker_see(b, now);
    int r = broker_find_attempt(b, s, &rejected, &a);
    if (a != NULL) {
        b->count.rejected++;
        dead_by_rejection(b, broker_end_attempt(b, a, HISTORY_REJECTED), &s->reason);
    }
    broker_leave(b);
    return r;
}
