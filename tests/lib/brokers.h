/* Short forms for tests of the delivery core. */
#ifndef HARBINGER_TESTS_BROKERS_H
#define HARBINGER_TESTS_BROKERS_H

#include "broker/broker_check.h"
#include "harbinger/broker.h"
#include "lib/keys.h"

static inline struct hb_bytes bytes(const char *text)
{
    return (struct hb_bytes){text, strlen(text)};
}

/* A message with this payload, at level 0, without key, estimate or deadline of its own. */
static inline struct hb_submission message(const char *payload)
{
    return (struct hb_submission){
        .payload = bytes(payload), .estimate_ms = -1, .ttl_ns = HB_TTL_DEFAULT};
}

static inline struct hb_settlement settlement_of(const struct hb_delivery *d, uint64_t consumer)
{
    return (struct hb_settlement){
        .consumer = consumer, .id = d->id, .token = d->token, .duration_ms = -1};
}

static inline struct hb_broker_stats broker_stats_of(const struct hb_broker *b)
{
    struct hb_broker_stats s;
    hb_broker_stats(b, &s);
    return s;
}

#endif
