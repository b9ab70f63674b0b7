/*
 * The backend that holds the intake's messages itself: the linked broker orders them, workers pull
 * from it, and a delivery is settled at the intake only when its message has ended here.
 *
 *   acknowledged by a worker                       ack
 *   rejected by a worker                           nacked without requeue, as the worker would
 *   dead: no attempts left, or the broker's own    parked, and acked when RabbitMQ has confirmed
 *   default time to live is over
 *   its own `expiration` is over                   nacked without requeue, as RabbitMQ would do:
 *                                                  its queue's dead-letter exchange gets it
 *   we stop                                        what waits is requeued; what is at a worker may
 *                                                  still be settled
 *
 * So nothing is lost with the process: RabbitMQ has all that is not settled. Messages that did not
 * come from the intake (submitted by clients) are in memory alone.
 *
 * Messages of the intake have no payload in the broker: their owner is the struct held, whose message
 * is what a worker gets.
 */
#ifndef HARBINGER_SIDECAR_BACKEND_HARBINGER_H
#define HARBINGER_SIDECAR_BACKEND_HARBINGER_H

#include "amqp/link.h"
#include "base/compiler.h"
#include "base/err.h"
#include "base/log.h"
#include "conf/conf.h"
#include "flow/station.h"
#include "sidecar/intake.h"
#include "sidecar/parking.h"

#include <stddef.h>
#include <stdint.h>

struct backend_harbinger;

struct backend_harbinger_options {
    const struct conf *conf;      /* broker, levels, parked, intake.window_bytes; borrowed */
    struct flow *flow;            /* borrowed */
    void (*on_room)(void *ctx);   /* it takes messages again; from the loop */
    void (*available)(void *ctx); /* as in struct hb_broker_events; may be NULL */
    void (*used)(void *ctx);      /* as backend_harbinger_touched; may be NULL */
    void *ctx;
};

struct backend_harbinger_stats {
    uint64_t expired;    /* discarded: their own expiration was over */
    uint64_t begun_anew; /* given back to the intake for want of memory */
    struct parking_stats parking;
};

/* `l` is the publishing link. 0, or a negative code with `err` set. Free before the intake whose
 * deliveries it holds. */
int backend_harbinger_new(struct link *l, const struct log_sink *log,
                          const struct backend_harbinger_options *o, struct backend_harbinger **out,
                          struct err *err) MUST_CHECK;
/* What it still holds is requeued at the intake. */
void backend_harbinger_free(struct backend_harbinger *b);

/* Where the intake's deliveries go; it keeps them over the loss of a channel. */
struct intake_sink backend_harbinger_sink(struct backend_harbinger *b);

/* For who serves workers, and for its stats. What is called on it may end messages. */
struct station *backend_harbinger_station(struct backend_harbinger *b);

/* The broker was used: its deadlines may be others now. */
void backend_harbinger_touched(struct backend_harbinger *b);

/* Nobody here works: what waits goes back to the intake, for others, but what has failed here before,
 * whose attempts would be forgotten. */
void backend_harbinger_give_back(struct backend_harbinger *b);

/* From now on it takes nothing: what waits goes back to the intake, also when an attempt fails. */
void backend_harbinger_drain(struct backend_harbinger *b);

void backend_harbinger_stats(const struct backend_harbinger *b,
                             struct backend_harbinger_stats *out);

#endif
