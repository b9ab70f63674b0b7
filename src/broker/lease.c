#include "broker/broker_internal.h"

struct hb_message *broker_end_attempt(struct hb_broker *b, struct attempt *a,
                                      enum history_ending ending)
{
    struct hb_message *m = a->m;
    history_prune(&b->history, b->now, 1);
    history_add(&b->history, &(struct history_entry){
                                 .token = a->token,
                                 .id = a->id,
                                 .consumer = a->consumer,
                                 .ended_at = b->now,
                                 .ending = ending,
                             });
    inflight_remove(&b->inflight, a);
    return m;
}

/* The duration is at least the lease, whether or not the message lives on. */
static void mark_censored(struct hb_broker *b, const struct hb_message *m)
{
    if (m->n_key == 0)
        return;
    b->count.censored++;
    if (b->events.censor != NULL)
        b->events.censor(b->events.ctx, record_key(m), record_parent(m), b->now);
}

static void expire(struct hb_broker *b, struct attempt *a)
{
    static const struct hb_bytes why = {"its lease ran out", sizeof "its lease ran out" - 1};
    struct hb_message *m = broker_end_attempt(b, a, HISTORY_EXPIRED);
    b->count.leases_expired++;
    mark_censored(b, m);
    broker_fail(b, m, AT_LEASE_END, &why);
}

bool broker_sweep_leases(struct hb_broker *b)
{
    struct attempt *a;
    for (uint32_t left = b->options.batch; (a = inflight_first(&b->inflight)) != NULL; left--) {
        if (a->deadline > b->now)
            return false;
        if (left == 0)
            return true;
        expire(b, a);
    }
    return false;
}

/* Why a settlement that does not name a living attempt is refused, or that it was accepted before.
 */
static int judge(struct hb_broker *b, const struct hb_settlement *s, const struct attempt *a,
                 const enum history_ending *ending)
{
    const struct history_entry *e = history_find(&b->history, s->token, b->now);
    if (e != NULL && e->id == s->id) {
        if (e->consumer != s->consumer)
            return HB_BROKER_FOREIGN;
        if (ending == NULL || e->ending != *ending)
            return HB_BROKER_STALE;
        b->count.repeated++;
        return HB_BROKER_OK;
    }
    if (a == NULL)
        return HB_BROKER_UNKNOWN;
    return a->consumer != s->consumer ? HB_BROKER_FOREIGN : HB_BROKER_STALE;
}

/* A living attempt's token is never in the history, so the usual case need not look there. */
int broker_find_attempt(struct hb_broker *b, const struct hb_settlement *s,
                        const enum history_ending *ending, struct attempt **out)
{
    struct attempt *a = inflight_find(&b->inflight, s->id);
    *out = NULL;
    if (a == NULL || a->token != s->token || a->consumer != s->consumer)
        return judge(b, s, a, ending);
    if (a->deadline <= b->now) {
        expire(b, a);
        return HB_BROKER_STALE;
    }
    *out = a;
    return HB_BROKER_OK;
}

int hb_broker_return(struct hb_broker *b, const struct hb_settlement *s, int64_t now)
{
    struct attempt *a;
    broker_see(b, now);
    int r = broker_find_attempt(b, s, NULL, &a);
    if (a != NULL) {
        struct hb_message *m = a->m;
        inflight_remove(&b->inflight, a);
        m->deliveries--;
        b->count.returned++;
        broker_put_back(b, m);
    }
    broker_leave(b);
    return r;
}

int hb_broker_extend(struct hb_broker *b, const struct hb_settlement *s, int64_t now)
{
    struct attempt *a;
    broker_see(b, now);
    int r = broker_find_attempt(b, s, NULL, &a);
    if (a != NULL && !b->options.extendable_leases) {
        r = HB_BROKER_STALE;
    } else if (a != NULL && a->deadline != MONO_NEVER) {
        inflight_renew(&b->inflight, a, mono_add(b->now, b->options.lease_ns));
    }
    broker_leave(b);
    return r;
}
