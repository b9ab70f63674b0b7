/*
 * The backend that publishes into a RabbitMQ priority queue: level becomes priority, RabbitMQ
 * orders and delivers.
 *
 * A message is settled at the intake only after RabbitMQ confirmed it and did not return it. What
 * can go wrong:
 *
 *   the destination fails   queue missing (returned), full or dead (nacked), exchange missing
 *                           (404), no right to it (403): everything waits; after 1..30 s one
 *                           message tries again (trial), then the rest
 *   the link is lost        what was unconfirmed is published again when it is back, from memory
 *   a message is refused    RabbitMQ closes the channel (406 user id, 311 too large, ...) and does
 *                           not say which one it was: all unconfirmed are suspects and go singly
 *                           over a channel of their own; the one that closes that too is parked,
 *                           with RabbitMQ's words
 *   with a named exchange   a message that is returned, or that we may not write (403), is tried
 *                           again; refused a second time while others got through, it is the
 *                           message's own fault, and it is parked
 *   parking fails           the message stays unacked in its one slot of the window; an alert is
 *                           logged; it is tried again every 30 s
 *
 *   flowing -> paused -> trial -> flowing | paused
 */
#ifndef HARBINGER_SIDECAR_BACKEND_RABBITMQ_H
#define HARBINGER_SIDECAR_BACKEND_RABBITMQ_H

#include "amqp/link.h"
#include "base/compiler.h"
#include "base/log.h"
#include "conf/conf.h"
#include "port/backend.h"

#include <stddef.h>
#include <stdint.h>

struct backend_rabbitmq;

struct backend_rabbitmq_options {
    const struct conf
        *conf; /* intake.window*, amqp.confirm_timeout, levels, work, parked; borrowed */
    void (*on_room)(void *ctx); /* it takes messages again */
    void *ctx;
};

struct backend_rabbitmq_stats {
    uint64_t published; /* sent, first time and again */
    uint64_t confirmed;
    uint64_t returned, nacked, lost;
    uint64_t parked;
    uint64_t parking_failed;
    uint64_t without_headers; /* sent without our headers since the frame would not hold them */
    uint64_t expired;         /* discarded: their own expiration passed while they were held */
    uint64_t pauses;
    size_t n_resend;      /* now: to be published again */
    size_t n_suspects;    /* now: to be published singly, or parked */
    size_t n_stuck;       /* now: could not be parked */
    uint32_t unconfirmed; /* now */
};

/* 0, ERR_INVALID or ERR_NOMEM. The link is borrowed. Free before the intake whose deliveries it
 * holds. */
int backend_rabbitmq_new(struct link *l, const struct log_sink *log,
                         const struct backend_rabbitmq_options *o,
                         struct backend_rabbitmq **out) MUST_CHECK;
/* What it still holds is requeued at the intake. */
void backend_rabbitmq_free(struct backend_rabbitmq *b);

/* The port; its messages are struct held. */
struct backend *backend_rabbitmq_port(struct backend_rabbitmq *b);

/* From now on nothing is tried again: what is not at RabbitMQ goes back to the intake. */
void backend_rabbitmq_drain(struct backend_rabbitmq *b);

/* The intake's deliveries went stale: forgets those that are not at RabbitMQ. */
void backend_rabbitmq_drop_stale(struct backend_rabbitmq *b);

/* "flowing", "paused", "trial"; and why nothing gets through, "" when something does. */
const char *backend_rabbitmq_state(const struct backend_rabbitmq *b);
const char *backend_rabbitmq_reason(const struct backend_rabbitmq *b);
void backend_rabbitmq_stats(const struct backend_rabbitmq *b, struct backend_rabbitmq_stats *out);

#endif
