/*
 * Publishing with confirms: a channel in confirm mode on a link, opened again after every loss,
 * with a bounded window of unconfirmed messages. Every publish ends in exactly one of its cookie's
 * callbacks.
 *
 *   confirmed   RabbitMQ owns it
 *   returned    no queue took it (mandatory is always set): told in place of its confirm, which
 *               follows the return
 *   nacked      RabbitMQ could not take it (full queue with reject-publish, dead queue process)
 *   lost        channel or connection went first: it may have arrived or not; told in publish order
 *
 * Which one was returned: a return carries no tag, but the content itself. It is known by a hash
 * over its address and body, and over a token where the caller names one that it also put into the
 * header `x-harbinger-id`. A return is matched to the oldest unconfirmed publish that agrees in all
 * of it (or, since that header may be a foreign one, in all of it without a token); with a
 * single publish in the window it is that one. A return that matches nothing must not be guessed
 * at, since its confirm would count as success: the channel is closed and the whole window reported
 * lost.
 *
 * Rules
 *   - The window is in messages and in bytes: an alarm at the broker is only heard of after the
 *     first publish, so unconfirmed bytes are bounded by us.
 *   - Properties and body are copied into the write buffer; the caller keeps its message until the
 *     callback.
 *   - No confirm for the oldest within confirm_timeout: the link is restarted (the broker, or the
 *     path to it, is dead or blocked). The clock starts anew while our own output still goes out,
 *     and stands still while the broker says `blocked`. Each such timeout in a row doubles the
 *     limit, up to 16 times it, until something is confirmed: what is only slow gets through.
 *   - No function here runs a callback before it returns. publisher_publish may be called in any
 *     callback, and publisher_free too: then the rest of the window is dropped without callbacks.
 */
#ifndef HARBINGER_AMQP_PUBLISHER_H
#define HARBINGER_AMQP_PUBLISHER_H

#include "amqp/link.h"
#include "amqp/loss.h"
#include "base/compiler.h"
#include "base/mono.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct publisher;

/* Outcomes of publisher_publish. */
enum {
    PUBLISHER_FULL = 1,    /* the window is full: try after the next callback */
    PUBLISHER_DOWN = 2,    /* not open: try after on_up */
    PUBLISHER_TOO_BIG = 3, /* the properties do not fit one frame: edit them down */
};

struct publisher_options {
    const char *name;           /* for the log */
    uint32_t window_messages;   /* at least 1 */
    uint64_t window_bytes;      /* at least one message is let through whatever its size */
    mono_t confirm_timeout_for; /* 0 means 30 s; an opening has that long too */
    mono_t backoff_min_for;     /* 0 means 250 ms */
    mono_t backoff_max_for;     /* 0 means 30 s */
    uint64_t seed;              /* of the body hash */

    void (*on_confirmed)(void *ctx, void *cookie);
    void (*on_returned)(void *ctx, void *cookie, uint16_t code, struct text why);
    void (*on_nacked)(void *ctx, void *cookie);
    void (*on_lost)(void *ctx, void *cookie, const struct loss *why);
    /* Open for publishing. */
    void (*on_up)(void *ctx);
    /* After the on_lost of everything in the window. LOSS_CHANNEL: a publish was refused for what
     * it is (404 no exchange, 403 write, 406 user id): resend singly to find which. (541, an error
     * inside RabbitMQ, ends the connection: LOSS_CONNECTION.) It opens again by itself. */
    void (*on_down)(void *ctx, const struct loss *why);
    /* The end of a batch of callbacks after which there is room in the window. May be NULL. */
    void (*on_room)(void *ctx);
    void *ctx; /* on_room, on_up and on_down may be NULL */
};

struct publish {
    struct text exchange;
    struct text routing_key;
    struct text props; /* raw flags and list (props_edit, or a message's props.raw) */
    struct text body;
    struct text
        token; /* value of the x-harbinger-id header that is in `props`; absent if there is none */
    void *cookie;
};

/* Copies the options. Returns 0; ERR_INVALID (window 0); ERR_NOMEM. Opens by itself when the link
 * is up. */
int publisher_new(struct link *l, const struct publisher_options *options,
                  struct publisher **out) MUST_CHECK;
/* Drops the window without callbacks and closes the channel. NULL does nothing. */
void publisher_free(struct publisher *p);

/* Returns 0: one callback for the cookie will follow; PUBLISHER_FULL, _DOWN, _TOO_BIG: nothing was
 * sent; ERR_INVALID (exchange or key over 255 bytes); ERR_NOMEM. */
int publisher_publish(struct publisher *p, const struct publish *what) MUST_CHECK;

bool publisher_is_up(const struct publisher *p);
/* Unconfirmed publishes. */
uint32_t publisher_pending(const struct publisher *p);
/* True when a publish of that many bytes would not be FULL. */
bool publisher_has_room(const struct publisher *p, size_t bytes);

#endif
