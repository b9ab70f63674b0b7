/*
 * One channel of a connection, from open to its end. It does not come back: its owner opens a new
 * one.
 *
 *   opening -> open -> closing -> closed
 *
 * Rules
 *   - Synchronous methods queue up and go out one at a time; asynchronous ones (publish, ack, nack)
 *     go at once.
 *   - on_closed is the last callback (the broker closed it, or the connection ended); calls under
 *     way are not answered then.
 *   - channel_free in any callback is fine; an open channel says channel.close and its number stays
 *     taken until the broker's answer.
 *   - Callbacks come from the loop only.
 */
#ifndef HARBINGER_AMQP_CHANNEL_H
#define HARBINGER_AMQP_CHANNEL_H

#include "amqp/codec.h"
#include "amqp/loss.h"
#include "amqp/message.h"
#include "base/compiler.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;
struct conn;

struct channel_options {
    uint64_t max_message_bytes; /* a larger content ends the channel, */
    bool cut_larger;            /* or, with this, comes without its body (message->body_cut) */

    void (*on_closed)(void *ctx, const struct loss *why);
    /* Takes the message. */
    void (*on_delivery)(void *ctx, uint64_t tag, bool redelivered, struct message *m);
    /* Takes the message. */
    void (*on_returned)(void *ctx, uint16_t code, struct text why, struct message *m);
    void (*on_confirm)(void *ctx, uint64_t tag, bool multiple, bool ack);
    /* basic.cancel from the broker. */
    void (*on_cancel)(void *ctx);
    /* Asked for with channel_want_flush: the last chance to write in this turn. */
    void (*on_flush)(void *ctx);
    void *ctx; /* on_closed must be there, the others where they can come */
};

/* Opens a channel on a connection that is up. Returns 0; ERR_LOST (not up); ERR_REFUSED (no number
 * left); ERR_NOMEM. */
int channel_new(struct conn *c, const struct channel_options *options,
                struct channel **out) MUST_CHECK;
void channel_free(struct channel *ch);

/* Queues a synchronous method; `done` gets the decoded reply (valid during the call), or may be
 * NULL. Returns 0; ERR_LOST (closed); ERR_NOMEM; ERR_INVALID (too long). */
int channel_call(struct channel *ch, amqp_method_number_t id, void *decoded,
                 void (*done)(void *ctx, const amqp_method_t *reply)) MUST_CHECK;
/* Writes an asynchronous method. Returns as channel_call. */
int channel_send(struct channel *ch, amqp_method_number_t id, void *decoded) MUST_CHECK;
/* basic.publish, mandatory, and its content: all or nothing. Returns as channel_call; ERR_INVALID:
 * the header passes the frame. */
int channel_publish(struct channel *ch, struct text exchange, struct text routing_key,
                    const struct codec_content *content) MUST_CHECK;

void channel_want_flush(struct channel *ch);
/* Ends it from our side with a reason of ours: channel.close is sent, and on_closed comes from the
 * loop at the end of the turn. */
void channel_abort(struct channel *ch, const struct loss *why);
bool channel_is_open(const struct channel *ch);
/* The connection that it is on; NULL once closed. */
struct conn *channel_conn(const struct channel *ch);

/* For the connection. */

/* Handles one frame. Returns 0 or ERR_PROTOCOL, ERR_NOMEM: the connection must end. */
int channel_input(struct channel *ch, const struct codec_frame *frame,
                  amqp_pool_t *pool) MUST_CHECK;
/* The connection is over: detached, on_closed, and freed if its owner had freed it. */
void channel_lost(struct channel *ch, const struct loss *why);
/* Detached without callbacks. */
void channel_orphan(struct channel *ch);
/* Runs what was asked for the end of the turn; with `all`, on_flush is asked in any case: the
 * connection closes. */
void channel_flush(struct channel *ch, bool all);

#endif
