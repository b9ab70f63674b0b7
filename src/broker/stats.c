#include "broker/broker_internal.h"

void hb_broker_stats(const struct hb_broker *b, struct hb_broker_stats *out)
{
    *out = b->count;
    out->waiting = policy_waiting(b->policy);
    out->held = policy_held(b->policy);
    out->in_flight = b->inflight.n;
    out->history = b->history.n;
    out->ttl_expired = b->count.died[HB_DEAD_TTL_EXPIRED];
}

void hb_broker_level_stats(const struct hb_broker *b, unsigned level, int64_t now,
                           struct hb_level_stats *out)
{
    struct policy_level_stats p;
    policy_level_stats(b->policy, level, &p);
    now = now > b->now ? now : b->now;
    *out = (struct hb_level_stats){
        .waiting = p.waiting,
        .promoted = p.promoted,
        .oldest_wait_ns = p.front != NULL ? now - p.front->arrived_at : 0,
        .pulls = p.pulls,
        .promotions = p.promotions,
        .clock_ms = p.clock_ms,
        .charged_ms = p.charged_ms,
        .average_ms = p.average_ms,
    };
}

const struct hb_broker_options *hb_broker_options(const struct hb_broker *b)
{
    return &b->options;
}
