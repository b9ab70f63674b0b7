/*
 * One client: its socket, the one to RabbitMQ that is made for it, and the session between them.
 * What comes in is handled at once; what goes out is written at the end of the loop's turn, all
 * together. A connection is freed only there.
 */
#ifndef HARBINGER_PROXY_CONN_H
#define HARBINGER_PROXY_CONN_H

#include "base/list.h"
#include "base/log.h"
#include "proxy/dial.h"
#include "proxy/server.h"
#include "proxy/session.h"
#include "proxy/stream.h"

#include <event2/event.h>
#include <event2/listener.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#define PROXY_PEER_BYTES 64

struct proxy_conn {
    struct list node; /* the server's */
    struct proxy_server *server;
    struct session session;
    struct stream stream[2]; /* by side */
    struct dial *dial;       /* RabbitMQ is being connected to */
    struct event *deadline;  /* of the handshake; then of the end */
    struct event *beat;      /* twice per heartbeat */
    unsigned n_silent[2];    /* beats without a byte from that side */
    bool wrote_upstream;     /* since the last beat */
    bool was_open, ending;
    char peer[PROXY_PEER_BYTES];
};

/* Takes the descriptor. Short of memory it is closed and nothing else happens. */
void proxy_conn_new(struct proxy_server *s, int fd, const char *peer, bool local);
/* Cuts it; what was in flight is put back. */
void proxy_conn_free(struct proxy_conn *c);
/* The end of a turn: sends what can be sent, goes on with an end. The connection may be gone. */
void proxy_conn_flush(struct proxy_conn *c);
/* The server is shut: says goodbye to a client with nothing in flight. */
void proxy_conn_shut(struct proxy_conn *c);

/* ---- the server, as its connections see it ---- */

#define PROXY_READ_BYTES (64 << 10)

struct proxy_server {
    struct event_base *base;
    struct evdns_base *dns; /* NULL: all hosts are numbers, or it could not be made */
    struct world world;
    struct dial_host hosts[PROXY_UPSTREAMS_MAX];
    struct evconnlistener *listener; /* NULL: shut */
    struct event *end_of_turn, *returns, *resume;
    struct list conns; /* proxy_conn.node, the oldest first */
    SSL_CTX *tls, *upstream_tls;
    mono_t logged_at; /* the current second of log lines */
    unsigned n_logged, n_unlogged;
    char address[PROXY_PEER_BYTES];
    char bytes[PROXY_READ_BYTES]; /* what is being read: each read is handled before the next */
};

/* Something is to be done at the end of this turn. */
void proxy_server_wake(struct proxy_server *s);
/* The time of this turn. */
void proxy_server_look_at_clock(struct proxy_server *s);

/* One line about a client, unless there were too many in this second: others have caused them, and
 * they are counted. */
bool proxy_server_may_log(struct proxy_server *s);
#define PROXY_LOG(c, level, event, ...)                                           \
    do {                                                                          \
        if (proxy_server_may_log((c)->server))                                    \
            log_event((c)->server->world.options.log, level, event, __VA_ARGS__); \
    } while (0)

#endif
