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
#include <stdint.h>

struct intake_channel;

enum held_settlement {
    HELD_ACK,     /* the backend owns the message now */
    HELD_DISCARD, /* nack without requeue: its owner's dead-letter exchange gets it */
    HELD_REQUEUE, /* nack with requeue: back into the intake */
};

struct held {
    struct list link;   /* the intake's, while it waits for the backend; then its owner's */
    struct list tagged; /* its channel's deliveries by age of their tags, or the unbacked ones */
    struct list bucket; /* unbacked: those with a similar digest */
    struct intake_channel *channel;
    struct message *message; /* NULL: settled while unbacked */
    void *cookie;            /* its owner's */
    struct consumer_tag tag;
    uint64_t epoch; /* how often its channel's consumer had been lost when it came */
    mono_t received_at;
    mono_t since;                 /* its tag came, or became void */
    uint64_t digest[2];           /* unbacked only */
    bool redelivered;             /* as RabbitMQ said when it came first */
    bool unbacked;                /* its tag is void; it is awaited again (unbacked.h) */
    bool renewing;                /* unbacked, because we gave it back: nobody may begin with it */
    bool waiting;                 /* for the backend */
    enum held_settlement settled; /* with `message` NULL: how */
};

/* Settles and frees. When the delivery's channel is gone nothing is sent: RabbitMQ delivers the
 * message again, and what was kept over that is settled then. */
void held_settle(struct held *h, enum held_settlement how);

/* The delivery's channel is gone, so that settling it can do nothing: a message not yet handed over
 * is dropped. Not for deliveries that are kept over such a loss. */
bool held_is_stale(const struct held *h);

/* Its own `expiration` (milliseconds from its arrival here, as RabbitMQ counts it in a queue) has
 * passed. */
bool held_is_expired(const struct held *h, mono_t now);

/* That expiration: time to live from now on, 0 or less when it has passed; MONO_NEVER without one.
 */
mono_t held_lives_for(const struct held *h, mono_t now);

#endif
