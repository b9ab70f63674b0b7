/*
 * The intake: takes deliveries from the intake queue, hands them to a sink, and settles each once
 * the sink says how.
 *
 * It consumes over several channels, since RabbitMQ takes time proportional to what is unacked on a
 * channel for each ack that is not of its oldest delivery: many small windows cost less than a
 * large one.
 *
 * Bounded by `window` messages per channel (the prefetch) and by `window_bytes` over all of them: a
 * delivery that comes when the held bytes have reached the bound is requeued at once, all channels
 * are paused until half of it is free, and the prefetches lowered to what fits. With nothing held, a
 * message of any size is let through.
 *
 * Within that it takes what its owner says is of use (intake_limit), so that a sidecar with few
 * workers leaves messages to others: of the channels so many consume as the limit needs. With a limit
 * of 0 the intake sleeps.
 *
 * A sink that holds messages for long keeps them when a channel is lost: RabbitMQ delivers them
 * again, and they are recognised (unbacked.h), so that nobody has to begin anew. For it, deliveries
 * that nobody has begun with are given back and taken again before RabbitMQ's delivery timeout ends
 * their channel (`renew_after`), the oldest first, a few at a time; nobody may begin with them until
 * they are here again, since another consumer may get them. What does not come back is withdrawn from
 * the sink. At most twice the window is awaited.
 */
#ifndef HARBINGER_SIDECAR_INTAKE_H
#define HARBINGER_SIDECAR_INTAKE_H

#include "amqp/link.h"
#include "base/compiler.h"
#include "flow/job.h"
#include "sidecar/held.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intake;

/* Where the messages go. */
struct intake_sink {
    /* Takes the delivery over: 0. BACKEND_FULL: nothing was taken, it is offered again. Negative:
     * the same. */
    int (*submit)(void *ctx, struct held *h, const struct job *job, mono_t now);

    /* For a sink that keeps its messages when their channel is lost; else all NULL, and its
     * deliveries go stale. */
    bool (*waits)(void *ctx, const struct held *h); /* nobody has begun with it */
    /* Gives up one that waits: it is the intake's again. False: somebody has begun with it. */
    bool (*withdraw)(void *ctx, struct held *h);
    /* One that waits: nobody may begin with it, and may again. */
    void (*hold)(void *ctx, struct held *h);
    void (*release)(void *ctx, struct held *h);
    void *ctx;
};

struct intake_options {
    const char *queue; /* borrowed */
    unsigned channels; /* at least 1 */
    uint16_t window;   /* messages, each channel */
    uint64_t window_bytes;
    struct intake_sink sink;
    void (*on_lost)(void *ctx); /* deliveries went stale (not with a sink that keeps them) */
    void (*on_idle)(void *ctx); /* draining, and nothing is held any more */
    void *ctx;
};

struct intake_stats {
    uint64_t received, redelivered;
    uint64_t acked, discarded, requeued;
    uint64_t stale;      /* settled too late: delivered again by RabbitMQ */
    uint64_t expired;    /* discarded: their own expiration passed before the backend took them */
    uint64_t overflow;   /* requeued because the window's bytes were full */
    uint64_t downs;      /* times a channel's consumer was lost */
    uint64_t renewed;    /* given back so that their time starts anew */
    uint64_t recognised; /* came again, and were still held here */
    uint64_t withdrawn;  /* did not come again */
    uint32_t prefetch;   /* now, of all channels together */
    size_t held;
    uint64_t held_bytes;
    size_t waiting;  /* held and not yet taken by the backend */
    size_t unbacked; /* awaited again, those included that are settled already */
};

/* 0, ERR_INVALID or ERR_NOMEM. The link and the sink's context are borrowed. */
int intake_new(struct link *l, const struct intake_options *o, struct intake **out) MUST_CHECK;
/* Frees what waits. What the sink still owns must have been settled or be settled before. */
void intake_free(struct intake *i);

/* Offers waiting messages to the sink until it is full. Call it when the sink has room again. */
void intake_pump(struct intake *i);

/* Consumes with a prefetch of at most so many messages, rounded up to whole channels, from now on; the
 * whole window at first. What is held above a lower limit stays until it is settled. 0: it sleeps:
 * nothing is consumed, what comes all the same and what the sink has not taken is given back. Cheap
 * when nothing changes; with nothing unbacked a prefetch that a loss has raised falls again. */
void intake_limit(struct intake *i, uint32_t messages);
uint32_t intake_limit_now(const struct intake *i);

/* Deliveries older than this are renewed; 0: never, as it is at first. Only for a sink that keeps
 * its messages. */
void intake_renew_after(struct intake *i, mono_t age);

/* Takes no more; what waits goes back to the queue; on_idle follows when all that the sink owns is
 * settled. What is due for renewal, or whose channel is lost, is withdrawn from the sink: RabbitMQ
 * gives it to who consumes. */
void intake_drain(struct intake *i);

/* All channels that should do consume, or are paused by us. */
bool intake_is_up(const struct intake *i);
/* Channels that consume now. */
unsigned intake_channels_up(const struct intake *i);
/* "consuming", "paused", "sleeping", ... for people: of the first channel that does not consume. */
const char *intake_state_name(const struct intake *i);
const struct intake_stats *intake_stats(const struct intake *i);

#endif
