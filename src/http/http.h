/*
 * A small HTTP/1.1 server for GET and HEAD on a few fixed paths: scrapes and probes.
 *
 * It runs on the daemon's event loop and never blocks it: a reply is written in memory and sent as
 * the client takes it. Everything is bounded: the number of connections (more wait in the kernel's
 * queue), a request's size, and the whole life of a connection, however slowly the client reads or
 * writes. One request per connection ("Connection: close"), no bodies. libevent's own server has no
 * limit on connections or on a request's total time before 2.2, hence this one.
 *
 * A connection reads the head of its request, writes the reply, and then waits for the client to
 * close, so that the reply is not lost to a reset when the client had sent more.
 *
 * Slow clients do not lock out a probe: at the limit of connections, the oldest one that has not
 * asked within 100 ms is cut to make room, else the oldest of all.
 */
#ifndef HARBINGER_HTTP_HTTP_H
#define HARBINGER_HTTP_HTTP_H

#include "base/compiler.h"
#include "base/mono.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct buf;
struct err;
struct event_base;
struct http;
struct log_sink;

struct http_route {
    const char *path; /* "/metrics" */
    const char *content_type;
    /* Appends the body and returns the status (200, 503, ...). A negative value is answered with
     * 500. Runs on the loop: it must not wait for anything, and must not free the server. */
    int (*fill)(void *ctx, struct buf *body);
};

struct http_options {
    const char *listen;              /* ADDRESS:PORT, see http_parse_address */
    const struct http_route *routes; /* borrowed; "/" is the server's own index */
    size_t n_routes;
    void *ctx;                  /* for the routes */
    const struct log_sink *log; /* may be NULL */
    unsigned max_connections;   /* 0 means 64 */
    mono_t timeout;             /* of a connection's whole life; 0 means 5 s */
    size_t max_head_bytes;      /* of a request; 0 means 8 KiB */
};

struct http_stats {
    uint64_t accepted;    /* connections */
    uint64_t replied;     /* requests that got a reply of any status */
    uint64_t timed_out;   /* connections that were cut at the end of their time */
    uint64_t displaced;   /* connections that were cut to make room */
    uint64_t paused;      /* times that accepting stopped: connections or descriptors ran out */
    unsigned connections; /* open now */
};

/* Binds and listens. Returns 0; ERR_INVALID (the address), ERR_SYSTEM (it cannot be bound) or
 * ERR_NOMEM, with the address in *e and *out unchanged. `base` must outlive the server. */
int http_new(struct event_base *base, const struct http_options *options, struct http **out,
             struct err *e) MUST_CHECK;

/* Cuts all connections. NULL is fine. */
void http_free(struct http *h);

/* Where it listens, with the port that the system chose: "127.0.0.1:9690", "[::1]:40123". Valid
 * until http_free. */
const char *http_address(const struct http *h);
uint16_t http_port(const struct http *h);

struct http_stats http_stats(const struct http *h);

/* "127.0.0.1:9690", "[::1]:0", "localhost:80" (= 127.0.0.1): numbers only, as resolving a name
 * would block. Returns 0, or ERR_INVALID with the reason in *e. */
int http_parse_address(const char *text, struct sockaddr_storage *out, socklen_t *out_len,
                       struct err *e) MUST_CHECK;

#endif
