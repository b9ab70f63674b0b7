/*
 * The gRPC server (src/rpc/harbinger.proto): HTTP/2 by nghttp2 on the daemon's loop, no thread.
 *
 * Everything is bounded: connections, streams of a connection, a message's size, a request's
 * headers, and the bytes that a connection makes us hold. A client that does not read what it asked
 * for is not read from until it does; others do not notice.
 */
#ifndef HARBINGER_RPC_SERVER_H
#define HARBINGER_RPC_SERVER_H

#include "base/compiler.h"
#include "base/err.h"
#include "rpc/grpc.h"
#include "rpc/service.h"

#include <stddef.h>
#include <stdint.h>

struct event_base;
struct log_sink;
struct rpc_server;

struct rpc_options {
    const char *listen;       /* ADDRESS:PORT; numbers only */
    const char *certificate;  /* PEM; NULL or "" = in the clear */
    const char *key;          /* PEM */
    const char *token_file;   /* its first line must come as bearer token; NULL or "" = no token */
    unsigned max_connections; /* 0 means 1024 */
    unsigned max_streams;     /* of one connection; 0 means 2048 */
    size_t max_message_bytes; /* 0 means 4 MiB */
    size_t max_connection_bytes; /* held for one connection, each way; 0 means 16 MiB */
    mono_t max_pull_wait;        /* 0 means 5 s */
    mono_t idle_timeout; /* a connection without a call is asked to go after it, or up to twice it;
                            0 means 15 min */
    const struct log_sink *log; /* may be NULL */
};

struct rpc_stats {
    uint64_t accepted;    /* connections */
    unsigned connections; /* now */
    unsigned streams, parked_pulls, work_streams;
    uint64_t credit;    /* now: messages that the Work streams would take */
    uint64_t pulls;     /* Pull calls begun */
    uint64_t calls[17]; /* finished, by status */
    uint64_t paused;    /* times that a connection was not read because of its bytes */
};

/* Binds and listens. 0; ERR_INVALID, ERR_SYSTEM or ERR_NOMEM with words in *e. `base`, `station` and
 * the texts of the options are borrowed. */
int rpc_server_new(struct event_base *base, const struct rpc_options *o,
                   const struct rpc_station *station, struct rpc_server **out,
                   struct err *e) MUST_CHECK;
void rpc_server_free(struct rpc_server *s);

/* "127.0.0.1:50051", with the port that the system chose. */
const char *rpc_server_address(const struct rpc_server *s);

/* Messages have become available: hands them to those who wait, later in this turn. Cheap. */
void rpc_server_pump(struct rpc_server *s);

/* Tells all clients to go elsewhere: nothing listens any more, no new calls, waiting pulls are
 * answered at once, Work streams get nothing more and end when they have settled what they have;
 * calls that run may finish. */
void rpc_server_shut(struct rpc_server *s);

/* Reads certificate, key and token again. On an error (words in *e) the old ones stay. */
int rpc_server_reload(struct rpc_server *s, struct err *e) MUST_CHECK;

struct rpc_stats rpc_server_stats(const struct rpc_server *s);

#endif
