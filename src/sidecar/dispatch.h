/*
 * A message on its way to RabbitMQ, from submit until it is settled at the intake, and the lanes it
 * waits in. The order of a lane is the order of the messages; a dispatch is in one lane at most,
 * and in none while a publisher has it.
 */
#ifndef HARBINGER_SIDECAR_DISPATCH_H
#define HARBINGER_SIDECAR_DISPATCH_H

#include "base/compiler.h"
#include "base/list.h"
#include "base/text.h"
#include "port/backend.h"
#include "sidecar/held.h"
#include "sidecar/parking.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dispatch {
    struct list all; /* every dispatch of a backend */
    struct list lane;
    struct held *held;
    const char *reason;
    unsigned level;
    bool keep_priority;
    uint64_t
        refused_at;    /* count of confirms when it was last refused by itself, plus 1; 0: never */
    unsigned n_blamed; /* times that the connection broke while it was alone on its channel */
    struct parking_job parking;
    size_t n_id, n_key;
    char text[]; /* id, then key */
};

/* Copies the ticket; joins `all`, and no lane. NULL when memory is short. */
struct dispatch *dispatch_new(struct list *all, struct held *h, const struct ticket *t) MUST_CHECK;

/* Frees it and leaves the held message to its owner. */
void dispatch_free(struct dispatch *d);

/* Frees it and settles the held message. */
void dispatch_settle(struct dispatch *d, enum held_settlement how);

static inline struct text dispatch_id(const struct dispatch *d)
{
    return (struct text){d->text, d->n_id};
}

/* Empty when the message has no valid key. */
static inline struct text dispatch_key(const struct dispatch *d)
{
    return (struct text){d->text + d->n_id, d->n_key};
}

/* To the end of a lane, out of the one where it was. */
void lane_put(struct list *lane, struct dispatch *d);

/* NULL when the lane is empty. */
struct dispatch *lane_first(struct list *lane);

/* All of `from` to the end of `to`. */
void lane_move_all(struct list *from, struct list *to);

size_t lane_count(const struct list *lane);

#endif
