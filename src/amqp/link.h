/*
 * A connection to RabbitMQ that keeps itself up: it connects, logs in, answers and sends
 * heartbeats, and comes back with jittered exponential delays after every loss, walking through its
 * URIs as a failover list.
 *
 *   stopped -> waiting -> connecting -> up -> waiting ...        (link_stop: closing -> stopped)
 *
 * Rules
 *   - Nothing blocks: names are resolved by libevent's evdns, the handshake has one limit over all
 *     of it, close has one.
 *   - No function here runs a callback before it returns; callbacks come from the event loop only.
 *     Anything may be freed from inside any callback, the link included: memory is released when
 *     the callback stack has unwound.
 *   - A refusal (login 403, virtual host 530) waits refused_backoff instead of the short delay, and
 *     is logged with the broker's words. A forced close (320) is an ordinary loss.
 *   - Consumers, publishers and topologies on a link must be freed before it.
 */
#ifndef HARBINGER_AMQP_LINK_H
#define HARBINGER_AMQP_LINK_H

#include "amqp/loss.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mono.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct event_base;
struct link;

struct link_options {
    const char
        *name; /* for the log, and part of the connection's name in RabbitMQ's UI: "consume" */
    const char *instance;    /* "harbinger:<instance>:<name>" is that connection name */
    const char *const *uris; /* failover list, tried in order; copied */
    size_t n_uris;
    mono_t connect_timeout_for; /* whole handshake; 0 means 10 s; a URI's connection_timeout wins */
    mono_t backoff_min_for;     /* 0 means 250 ms */
    mono_t backoff_max_for;     /* 0 means 30 s */
    mono_t refused_backoff_for; /* 0 means 30 s */
    mono_t close_limit_for;     /* 0 means 3 s */
    int heartbeat_s; /* asked for; the smaller of ours and the broker's holds, or the other's where
                        one says 0; a URI's wins */
    uint32_t frame_max; /* asked for; 0 means 128 KiB, at most 16 MiB; a URI's wins */
    uint64_t seed;      /* of the jitter */

    /* Called at each attempt to log in; writes the password, terminated, to `out` (which is wiped
     * after use) and returns 0, or negative: the attempt counts as refused, as it does with more
     * than 3072 bytes. NULL: the URI's password. */
    int (*password)(void *ctx, struct buf *out);

    void (*on_up)(void *ctx);
    /* After the objects on the link heard of it. Also called for an attempt that never came up. */
    void (*on_down)(void *ctx, const struct loss *why);
    /* connection.blocked / unblocked: an alarm at the broker. Also false when a blocked connection
     * is lost. */
    void (*on_blocked)(void *ctx, bool blocked, const char *reason);
    /* After link_stop, when the connection is closed (politely or at the limit). */
    void (*on_stopped)(void *ctx);
    void *ctx; /* each callback may be NULL */
};

struct link_stats {
    uint64_t n_ups, n_losses, n_refused;
    uint64_t bytes_in, bytes_out;
    bool blocked;
};

/* Checks the URIs and makes a stopped link. `log` is borrowed. Returns 0; ERR_CONFIG (the message
 * names the URI by number, without its password); ERR_NOMEM. */
int link_new(struct event_base *base, const struct log_sink *log,
             const struct link_options *options, struct link **out, struct err *e) MUST_CHECK;

/* Starts connecting. Nothing when it is running already. */
void link_start(struct link *l);

/* Closes politely, at most close_limit long, and does not come back. on_stopped follows, also when
 * it was not up. */
void link_stop(struct link *l);

/* Cuts the connection or the attempt now, with a reason that the log and the users get to read, and
 * comes back as after any loss. Nothing while there is none. */
void link_abort(struct link *l, const struct loss *why);

/* Frees it, cutting the connection without a word if it is up. NULL does nothing. */
void link_free(struct link *l);

bool link_is_up(const struct link *l);
bool link_is_blocked(const struct link *l);
/* Never started, or stopped, closed, and on_stopped told (true in it): the loop may end. */
bool link_is_stopped(const struct link *l);
/* "stopped", "waiting", "connecting", "up", "closing". */
const char *link_state_name(const struct link *l);
/* Where it is connected, or tries to be: "amqp://user@host:port/vhost". Valid until the next event.
 */
const char *link_peer(const struct link *l);
const char *link_name(const struct link *l);
void link_stats(const struct link *l, struct link_stats *out);
/* Bytes waiting to be written: what back-pressure looks at. */
size_t link_pending_bytes(const struct link *l);

/* For what lives on a link (consumer, publisher, topology): told of up and down, in order of
 * joining. */
struct link_user {
    struct list node;
    bool told_up; /* the link's */
    void (*on_up)(struct link_user *u);
    /* Before it, the user's channel heard of its own end. */
    void (*on_down)(struct link_user *u, const struct loss *why);
};

/* Joins; on_up comes from the loop even if the link is up already. */
void link_join(struct link *l, struct link_user *u);
void link_leave(struct link_user *u);
/* NULL unless up. */
struct conn *link_conn(const struct link *l);
struct event_base *link_base(const struct link *l);
const struct log_sink *link_log(const struct link *l);
/* Random in [0, 1), for the users' own jitter. */
double link_jitter(struct link *l);

#endif
