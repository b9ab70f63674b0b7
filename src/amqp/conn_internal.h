/* What conn.c (socket, frames, deadlines) and handshake.c (what is said on channel 0) share. */
#ifndef HARBINGER_AMQP_CONN_INTERNAL_H
#define HARBINGER_AMQP_CONN_INTERNAL_H

#include "amqp/codec.h"
#include "amqp/conn.h"
#include "amqp/life.h"
#include "amqp/uri.h"
#include "base/sm.h"

struct bufferevent;
struct evdns_base;
struct event;

enum conn_state {
    CONN_IDLE,
    CONN_RESOLVING,
    CONN_CONNECTING,
    CONN_START,
    CONN_TUNE,
    CONN_OPEN,
    CONN_UP,
    CONN_CLOSING,
    CONN_CLOSED
};

/* What the resolver calls back with: it may outlive the connection. */
struct conn_query {
    struct conn *conn; /* NULL: nobody waits any more */
};

struct conn {
    struct sm sm;
    struct life life;
    struct event_base *base;
    struct conn_options o; /* uri, name and password are copied below */
    struct uri uri;        /* without its password */
    char name[128];
    char password[CONN_PASSWORD_MAX + 1]; /* wiped when it has been sent */
    mono_t timeout_for;

    struct evdns_base *dns;   /* while resolving a name */
    struct conn_query *query; /* its question, until the answer */
    bool resolved;
    int resolve_error, connect_error;
    struct addrinfo *addresses, *address; /* all, and the next to try */

    struct bufferevent *bev;
    struct event *deadline, *beat, *turn;
    bool turn_pending, abort_pending, close_pending;
    struct loss abort_why;

    char *rx;              /* starts with the next frame */
    size_t n_rx, rx_bytes; /* used, allocated: RX_BYTES but while a larger frame comes in */
    struct buf tx;         /* this turn's frames */
    amqp_pool_t pool;
    uint64_t bytes_in, bytes_out;

    uint32_t frame_max;
    uint16_t channel_max;
    int heartbeat_s;
    bool heard, wrote; /* since the last tick of `beat` */
    int n_silent;
    bool blocked;

    struct channel *channels[CONN_CHANNELS + 1];
};

/* Ends the connection and tells everyone; inside life_enter only. */
void conn_fail(struct conn *c, enum loss_kind kind, const char *fmt, ...) PRINTF_LIKE(3, 4);
void conn_finish(struct conn *c, const struct loss *why);
void conn_push_output(struct conn *c);
void conn_start_beat(struct conn *c);

/* handshake.c: a method on channel 0. Returns 0, ERR_PROTOCOL or ERR_NOMEM. */
int conn_handle(struct conn *c, const struct codec_frame *frame) MUST_CHECK;
/* Writes connection.close. Returns 0 or ERR_NOMEM. */
int conn_say_close(struct conn *c) MUST_CHECK;

#endif
