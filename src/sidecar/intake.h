/*
 * The intake: takes deliveries from the intake queue, has the flow decide, hands them to the
 * backend, and settles each once the backend owns it.
 *
 * It consumes over several channels, since RabbitMQ takes time proportional to what is unacked on a
 * channel for each ack that is not of its oldest delivery: many small windows cost less than a
 * large one.
 *
 * Bounded by `window` messages per channel (the prefetch) and by `window_bytes` over all of them: a
 * delivery that comes when the held bytes have reached the bound is requeued at once, all channels
 * are paused until half of it is free, and the prefetches lowered to what fits. With nothing held, a
 * message of any size is let through.
 */
#ifndef HARBINGER_SIDECAR_INTAKE_H
#define HARBINGER_SIDECAR_INTAKE_H

#include "amqp/link.h"
#include "base/compiler.h"
#include "flow/flow.h"
#include "port/backend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intake;

struct intake_options {
    const char *queue; /* borrowed */
    unsigned channels; /* at least 1 */
    uint16_t window;   /* messages, each channel */
    uint64_t window_bytes;
    struct flow *flow;
    struct backend *backend;
    void (*on_lost)(void *ctx); /* all deliveries are stale from here on */
    void (*on_idle)(void *ctx); /* draining, and nothing is held any more */
    void *ctx;
};

struct intake_stats {
    uint64_t received, redelivered;
    uint64_t acked, discarded, requeued;
    uint64_t stale;    /* settled too late: delivered again by RabbitMQ */
    uint64_t expired;  /* discarded: their own expiration passed before the backend took them */
    uint64_t overflow; /* requeued because the window's bytes were full */
    uint64_t downs;    /* times a channel's consumer was lost */
    uint32_t prefetch; /* now, of all channels together */
    size_t held;
    uint64_t held_bytes;
    size_t waiting; /* held and not yet taken by the backend */
};

/* 0, ERR_INVALID or ERR_NOMEM. The link, flow and backend are borrowed. */
int intake_new(struct link *l, const struct intake_options *o, struct intake **out) MUST_CHECK;
/* Frees what waits. What the backend still owns must have been settled or be settled before. */
void intake_free(struct intake *i);

/* Offers waiting messages to the backend until it is full. Call it when the backend has room again.
 */
void intake_pump(struct intake *i);

/* Takes no more; what waits goes back to the queue; on_idle follows when all that the backend owns
 * is settled. */
void intake_drain(struct intake *i);

/* All channels consume, or are paused by us. */
bool intake_is_up(const struct intake *i);
/* "consuming", "paused", ... for people: of the first channel that does not consume. */
const char *intake_state_name(const struct intake *i);
const struct intake_stats *intake_stats(const struct intake *i);

#endif
