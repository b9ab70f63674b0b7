/*
 * A delivery of the intake that we hold: taken from RabbitMQ, not yet acknowledged to it. The
 * intake makes and frees it; in between whoever owns it settles it exactly once.
 */
#ifndef HARBINGER_SIDECAR_HELD_H
#define HARBINGER_SIDECAR_HELD_H

#include "amqp/consumer.h"
#include "amqp/message.h"
#include "base/list.h"
#include "base/mono.h"

#include <stdbool.h>

struct intake_channel;

struct held {
    struct list link; /* the intake's, while it waits for the backend */
    struct intake_channel *channel;
    struct message *message;
    struct consumer_tag tag;
    uint64_t epoch; /* how often its channel's consumer had been lost when it came */
    mono_t received_at;
};

enum held_settlement {
    HELD_ACK,     /* the backend owns the message now */
    HELD_DISCARD, /* nack without requeue: its owner's dead-letter exchange gets it */
    HELD_REQUEUE, /* nack with requeue: back into the intake */
};

/* Settles and frees. When the delivery's channel is gone nothing is sent: RabbitMQ delivers the
 * message again. */
void held_settle(struct held *h, enum held_settlement how);

/* The delivery's channel is gone, so that settling it can do nothing: a message not yet handed over
 * is dropped. */
bool held_is_stale(const struct held *h);

/* Its own `expiration` (milliseconds from its arrival here, as RabbitMQ counts it in a queue) has
 * passed. */
bool held_is_expired(const struct held *h, mono_t now);

#endif
