/*
 * The AMQP face: workers connect here instead of to RabbitMQ, by host and port alone. Each client
 * gets a connection to RabbitMQ of its own and everything is forwarded byte for byte, the handshake
 * included; to the consumers of the work queue the server injects deliveries out of the station,
 * and what they settle of those goes back to it. All on the daemon's loop, no thread.
 *
 * Everything is bounded: clients, what is held for one of them each way, its channels, consumers and
 * deliveries. A side that does not read is waited for by not reading the other one; other clients
 * do not notice.
 *
 * A connection of AMQP 1.0 is a plain tunnel: RabbitMQ answers it, and nothing is injected.
 */
#ifndef HARBINGER_PROXY_SERVER_H
#define HARBINGER_PROXY_SERVER_H

#include "base/compiler.h"
#include "base/err.h"
#include "base/mono.h"
#include "proxy/service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct log_sink;
struct proxy_server;
struct uri;

struct proxy_options {
    const char *listen;      /* ADDRESS:PORT; numbers only */
    const char *certificate; /* PEM; NULL or "" = in the clear */
    const char *key;         /* PEM; NULL or "" = in the certificate's file */

    const struct uri *upstreams; /* RabbitMQ: host and port of each, tried in this order for every
                                    client; copied */
    size_t n_upstreams;          /* 1..PROXY_UPSTREAMS_MAX */
    bool upstream_tls;
    const char *upstream_ca; /* PEM: who may have signed it; NULL or "" = the system's */

    unsigned max_connections;    /* 0 means 1024 */
    unsigned max_channels;       /* of one client; 0 means 2047, RabbitMQ's own limit */
    unsigned max_consumers;      /* of the work queue, of one client; 0 means 1024 */
    size_t max_connection_bytes; /* held for one client, each way; 0 means 1 MiB. One injected
                                    message may pass it */
    uint32_t max_window; /* the most that a consumer or channel has unacked, whatever prefetch it
                            asks for; rises with each later increase by the client. 0 = as asked */
    uint32_t unlimited_window; /* for those that ask for no limit; 0 means 250 */

    mono_t connect_timeout;   /* to RabbitMQ, per address; 0 means 5 s */
    mono_t handshake_timeout; /* until the client is in; 0 means 10 s */

    /* An ack sooner after its delivery is taken for one that comes before the work (or without any),
     * and its duration is not known; 0 means 1 ms: Python clients take 0.2-0.5 ms for nothing. */
    mono_t early_ack;
    bool no_barrier;  /* acks do not wait until what their channel published has reached RabbitMQ */
    uint64_t seed[2]; /* of a table of task ids; draw it at random once per process */
    bool guest_anyone; /* user guest also from other machines, to whom RabbitMQ refuses it */

    const struct log_sink *log; /* may be NULL */
};

enum { PROXY_UPSTREAMS_MAX = 16 };

struct proxy_stats {
    uint64_t accepted;    /* clients */
    unsigned connections; /* now */
    unsigned consumers;   /* of the work queue, now */
    size_t in_flight;     /* injected and not settled, now */

    uint64_t refused;          /* clients over max_connections */
    uint64_t refused_guest;    /* guest from another machine */
    uint64_t timed_out;        /* in the handshake */
    uint64_t upstream_failed;  /* clients for whom no RabbitMQ could be reached */
    uint64_t broken_clients;   /* sent what is not AMQP */
    uint64_t broken_upstreams; /* RabbitMQ did */
    uint64_t paused;           /* times that one side was not read because the other did not read */

    uint64_t delivered;                  /* injected; no_ack included */
    uint64_t settled[PROXY_N_OUTCOMES];  /* no_ack included as PROXY_ACK */
    uint64_t stale;                      /* of those: the station knew better */
    uint64_t timed, early_acks, no_acks; /* acks with a duration; without, by reason */
    uint64_t wide_acks;                  /* without: others may have run in the same time */
    uint64_t evented_acks;               /* without: a Celery event tells, or has told */
    uint64_t event_runtimes;             /* durations taken from Celery's events */
    uint64_t unknown_tags, refused_tx;   /* client errors answered with 406 and 540 */
    uint64_t barriers;                   /* acks that waited for a publish */
    uint64_t heartbeats;                 /* sent to RabbitMQ in a client's place */
    uint64_t bytes_in, bytes_out;        /* from and to clients */
};

/* Binds and listens. 0; ERR_INVALID, ERR_SYSTEM or ERR_NOMEM with words in *e. `base`, `station` and
 * the texts of the options are borrowed. */
int proxy_server_new(struct event_base *base, const struct proxy_options *o,
                     const struct proxy_station *station, struct proxy_server **out,
                     struct err *e) MUST_CHECK;
/* Cuts all clients; what they had is settled: put back. NULL does nothing. */
void proxy_server_free(struct proxy_server *s);

/* "127.0.0.1:5673", with the port that the system chose. */
const char *proxy_server_address(const struct proxy_server *s);

/* Messages have become available: hands them to those who wait, later in this turn. Cheap. */
void proxy_server_pump(struct proxy_server *s);

/* Nothing listens any more and nothing more is delivered. A client with nothing in flight is closed
 * as RabbitMQ does when it stops (320), the others when they have settled what they have:
 * proxy_stats.in_flight says how much that is. */
void proxy_server_shut(struct proxy_server *s);

/* Reads certificate, key and authorities again. On an error (words in *e) the old ones stay. */
int proxy_server_reload(struct proxy_server *s, struct err *e) MUST_CHECK;

struct proxy_stats proxy_server_stats(const struct proxy_server *s);

/* One client as it is now. Texts may hold any byte that the client sent, and are cut. */
struct proxy_client_row {
    const char *peer;             /* "10.0.0.7:51234" */
    const char *user;             /* "" until it said so, and under EXTERNAL */
    const char *product;          /* of its client properties: "pika"; "" */
    const char *state;            /* connecting, handshake, open, tunnel, closing */
    unsigned channels, consumers; /* consumers: of the work queue */
    uint32_t window;              /* most that may be in flight; UINT32_MAX where it is more */
    uint32_t in_flight;
    uint64_t delivered;
    size_t held_bytes;                   /* both ways */
    bool paused_client, paused_upstream; /* not read now */
};

/* Calls `each` for up to `limit` clients from `offset` on, the oldest first; returns how many. */
size_t proxy_server_clients(const struct proxy_server *s, size_t offset, size_t limit,
                            void (*each)(void *ctx, const struct proxy_client_row *row), void *ctx);

#endif
