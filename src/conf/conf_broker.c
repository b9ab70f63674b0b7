/* From section `broker` to what the linked broker takes. */
#include "conf/conf.h"

#include <harbinger/broker.h>

static enum hb_pause pause_of(enum conf_pause pause)
{
    switch (pause) {
    case CONF_PAUSE_ALWAYS: return HB_PAUSE_ALWAYS;
    case CONF_PAUSE_NEVER: return HB_PAUSE_NEVER;
    case CONF_PAUSE_AUTO: break;
    }
    return HB_PAUSE_WITH_WEIGHTS;
}

void conf_broker_options(const struct conf *c, struct hb_broker_options *out)
{
    hb_broker_options_init(out);
    out->levels = c->levels;
    out->order = c->broker.order == CONF_ORDER_FIFO ? HB_ORDER_FIFO : HB_ORDER_PAPER;
    out->aging_threshold_ns = c->broker.aging_threshold;
    out->aging_interval_ns = c->broker.aging_interval;
    out->weighted = c->broker.weights.n > 0;
    for (size_t i = 0; i < c->broker.weights.n; i++)
        out->weights[i] = (uint16_t)c->broker.weights.v[i];
    out->pause = pause_of(c->broker.pause_when_behind);
    out->ttl_ns = c->broker.ttl;
    out->max_attempts = (uint32_t)c->broker.max_attempts;
    out->lease_ns = c->broker.lease;
    out->extendable_leases = c->broker.extendable_leases;
    out->history_ns = c->broker.history;
    out->history_entries = (uint32_t)c->broker.history_entries;
    out->batch = (uint32_t)c->broker.batch;
    out->max_messages = c->broker.max_messages;
    out->max_bytes = c->broker.max_bytes;
    out->max_dead = (uint32_t)c->broker.max_dead;
    out->max_dead_bytes = c->broker.max_dead_bytes;
    out->dead_overflow =
        c->broker.dead_overflow == CONF_DEAD_REFUSE ? HB_DEAD_REFUSE_SUBMITS : HB_DEAD_DROP_OLDEST;
}
