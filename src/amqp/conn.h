/*
 * One TCP connection to a broker, from connect to its end. It does not come back: link.h makes a
 * new one.
 *
 *   idle -> resolving -> connecting -> start -> tune -> open -> up -> closing -> closed
 *
 * (start: protocol header sent, connection.start awaited; tune: start-ok sent; open: tune-ok and
 * connection.open sent.)
 *
 * Rules
 *   - Frames are written into one buffer during a turn of the loop and handed to the socket at its
 *     end.
 *   - One limit over the whole handshake, one over close. Any byte received counts as life; two
 *     heartbeat intervals without one end it. Heartbeats go out when nothing else did, also in
 *     closing.
 *   - Callbacks come from the loop only; conn_free may be called in any of them. on_closed is the
 *     last one.
 */
#ifndef HARBINGER_AMQP_CONN_H
#define HARBINGER_AMQP_CONN_H

#include "amqp/loss.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/mono.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;
struct conn;
struct event_base;
struct log_sink;
struct uri;

enum {
    CONN_CHANNELS = 64,       /* channel numbers 1..64; the broker may tune them down */
    CONN_PASSWORD_MAX = 3072, /* bytes: what is said with it must fit the smallest frame */
};

struct conn_options {
    const struct uri *uri;
    const char *name;     /* connection_name */
    const char *password; /* used during the handshake only; NULL: the URI's */
    mono_t connect_timeout_for;
    mono_t close_limit_for;
    int heartbeat_s; /* where the URI has none */
    uint32_t
        frame_max; /* where the URI has none; 0 means CODEC_FRAME_MAX; at most CODEC_FRAME_MOST */

    void (*on_up)(void *ctx);
    void (*on_blocked)(void *ctx, bool blocked, const char *reason);
    void (*on_closed)(void *ctx, const struct loss *why);
    void *ctx;
};

/* Copies the options. Returns 0; ERR_INVALID (the password is over CONN_PASSWORD_MAX); ERR_NOMEM.
 */
int conn_new(struct event_base *base, const struct conn_options *options,
             struct conn **out) MUST_CHECK;
/* Cuts the connection without callbacks; channels on it are detached silently. NULL does nothing.
 */
void conn_free(struct conn *c);

/* Starts; what fails at once is reported from the loop too. */
void conn_start(struct conn *c);
/* Polite close; on_closed with LOSS_CLOSED follows within close_limit. */
void conn_close(struct conn *c);
/* Ends it with that reason; on_closed follows from the loop. */
void conn_abort(struct conn *c, const struct loss *why);

bool conn_is_up(const struct conn *c);
size_t conn_pending_bytes(const struct conn *c);
uint64_t conn_bytes_in(const struct conn *c);
uint64_t conn_bytes_out(const struct conn *c);

/* For channels. */

uint32_t conn_frame_max(const struct conn *c);
/* Where this turn's frames go; call conn_wake after writing. */
struct buf *conn_output(struct conn *c);
/* The end of this turn's writing will flush; every channel with channel_wants_flush is asked first.
 */
void conn_wake(struct conn *c);
/* Gives the channel a number and joins it. Returns the number, or 0 when there is none left or the
 * connection is not up. */
uint16_t conn_attach(struct conn *c, struct channel *ch);
void conn_detach(struct conn *c, uint16_t number);

#endif
