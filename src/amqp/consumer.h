/*
 * A consumer that stays on its queue: one channel on a link with a prefetch and manual acks, opened
 * again after every loss of the channel, the consumer (basic.cancel from the broker) or the link,
 * with jittered backoff.
 *
 *   down -> opening -> consuming <-> paused -> ... -> down
 *
 * Rules
 *   - A delivery is settled exactly once, by consumer_ack or consumer_nack with its own tag. After
 *     on_down all tags are stale: RabbitMQ delivers those messages again by itself, and settling
 *     one sends nothing (CONSUMER_STALE).
 *   - Settlements are gathered. Acks go out when an eighth of the prefetch is gathered, when
 *     nothing is held any more, or after 2 ms; nacks at the end of the loop's turn. Acks without a
 *     gap from the oldest unsettled delivery on become one with `multiple` (the broker pays per
 *     frame, not per message). Stopping the link sends them first.
 *   - Paused: the consumer is cancelled, its channel and unsettled deliveries stay; deliveries that
 *     were under way still come (they may be nacked with requeue). Resumed, it consumes again once
 *     at most a prefetch of deliveries is unsettled, so at most two prefetches are ever held.
 *   - RabbitMQ has 30 s to answer an opening, a pause or a resume; then the channel is given up as
 *     lost (not while it says `blocked`).
 *   - No function here runs a callback before it returns. consumer_free may be called in a
 *     callback.
 */
#ifndef HARBINGER_AMQP_CONSUMER_H
#define HARBINGER_AMQP_CONSUMER_H

#include "amqp/link.h"
#include "amqp/loss.h"
#include "amqp/message.h"
#include "base/compiler.h"
#include "base/mono.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct consumer;

/* Outcomes of settling. */
enum { CONSUMER_STALE = 1 };

struct consumer_tag {
    uint64_t generation; /* of the channel it came on */
    uint64_t tag;
    uint32_t slot; /* where the consumer keeps it */
};

struct consumer_options {
    const char *queue;
    const char *tag;           /* consumer tag; NULL: the broker makes one */
    uint16_t prefetch;         /* at least 1: unlimited would be unbounded memory; the most that
                                  consumer_set_prefetch may ask for */
    bool no_ack;               /* deliveries need no settling, tags are {0, 0} */
    int64_t max_message_bytes; /* 0 means 512 MiB, the most RabbitMQ allows; a larger one breaks the
                                  channel (on_down says so), */
    bool cut_larger;           /* or, with this, comes without its body (message->body_cut) */
    mono_t backoff_min_for;    /* 0 means 1 s */
    mono_t backoff_max_for;    /* 0 means 30 s */

    /* Takes `m` (message_free). `redelivered` as the broker says it. */
    void (*on_delivery)(void *ctx, struct consumer_tag tag, bool redelivered, struct message *m);
    /* Consuming (first time, again, or resumed); the broker said consume-ok. */
    void (*on_up)(void *ctx);
    /* Not consuming any more, not by consumer_pause: LOSS_CANCEL (queue gone), LOSS_CHANNEL (404,
     * 406 delivery timeout, ...), or the link's loss. All tags are stale from here on. Comes once
     * until the next on_up, also when the first attempt fails. It tries again by itself. */
    void (*on_down)(void *ctx, const struct loss *why);
    void *ctx;
};

/* Copies the options. It starts by itself when the link is up. Returns 0; ERR_INVALID (no queue,
 * prefetch 0); ERR_NOMEM. */
int consumer_new(struct link *l, const struct consumer_options *options,
                 struct consumer **out) MUST_CHECK;
/* Closes its channel: what is unsettled goes back to the queue. NULL does nothing. */
void consumer_free(struct consumer *c);

/* Settles one delivery. Returns 0, or CONSUMER_STALE when the tag is of an older generation or
 * settled already (nothing is sent). Without memory to send it the channel goes down. */
int consumer_ack(struct consumer *c, struct consumer_tag tag) MUST_CHECK;
/* requeue false: dead-lettered or dropped by the queue's own rules. */
int consumer_nack(struct consumer *c, struct consumer_tag tag, bool requeue) MUST_CHECK;

/* Stops and restarts the intake; unsettled deliveries stay settleable in between. Idempotent. */
void consumer_pause(struct consumer *c);
void consumer_resume(struct consumer *c);

/* Another prefetch, 1 to that of the options; holds from the next basic.consume on (a resume, or
 * after a loss). */
void consumer_set_prefetch(struct consumer *c, uint16_t n);

bool consumer_is_up(const struct consumer *c);
/* Paused by us, its channel open. */
bool consumer_is_paused(const struct consumer *c);
/* "down", "opening", "consuming", "pausing", "paused". */
const char *consumer_state_name(const struct consumer *c);
/* Sends gathered settlements now; they go by themselves (see above). */
void consumer_flush(struct consumer *c);

#endif
