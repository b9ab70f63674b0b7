/*
 * The flow with the linked broker as its server, closed into a loop: a message is decided about at
 * ingress, waits in the broker, and its settlement teaches the next decision.
 *
 *   station_submit ─► flow ─► broker ─► (pull, ack: hb_broker_*) ─► flow_learn
 *
 * Daemon, simulator, tests and benchmarks use this one. Pure, as its parts are.
 */
#ifndef HARBINGER_FLOW_STATION_H
#define HARBINGER_FLOW_STATION_H

#include "base/compiler.h"
#include "base/err.h"
#include "base/mono.h"
#include "flow/flow.h"

#include <harbinger/broker.h>

#include <stdint.h>

struct station;

struct station_options {
    struct flow *flow;               /* borrowed; its levels are the broker's */
    struct hb_broker_options broker; /* copied */

    /* As in struct hb_broker_events. May be NULL. */
    void (*ended)(void *ctx, void *owner, const struct hb_end *end, int64_t now);
    void (*available)(void *ctx);
    void *ctx;
};

/* NULL with `err` set when memory is short or an option is out of range. Free with station_free. */
struct station *station_new(const struct station_options *o, struct err *err) MUST_CHECK;
void station_free(struct station *s);

/* For everything but submitting. Belongs to the station. */
struct hb_broker *station_broker(struct station *s);

struct station_message {
    const struct job *job;
    struct hb_bytes payload, headers; /* copied */
    void *owner;                      /* NULL: the broker's alone */
    int64_t ttl_ns;                   /* HB_TTL_DEFAULT, 0 = for ever, or > 0 */

    uint64_t id;                /* written: never 0 */
    struct hb_message *message; /* written: with an owner, its handle */

    /* Written: the decision. The reason is static text; an estimate below 0 is none. */
    unsigned level;
    const char *reason;
    double estimate_ms;
};

/* HB_BROKER_OK, FULL or NOMEM. A producer's own priority p, where it stands, means level
 * levels - 1 - p, at least 0. */
int station_submit(struct station *s, struct station_message *m, mono_t now) MUST_CHECK;

#endif
