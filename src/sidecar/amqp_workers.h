/*
 * The AMQP face of the harbinger backend: workers that connect here instead of to RabbitMQ get on
 * the work queue what the intake holds, in the broker's order; all else that they say or hear goes
 * through (src/proxy). The intake queue may be the one that they have always consumed from: here they
 * are put on the work queue.
 *
 *   ack                            done; its duration is the time since its delivery, or what the
 *                                  worker's own event says
 *   nack or reject with requeue,   a failed attempt
 *   its connection breaks
 *   nack or reject without         rejected: the intake's dead-letter exchange gets it
 *   recover, cancel and close      put back, not counted
 *
 * A delivery has no lease: its connection is watched instead.
 *
 * A message of the intake goes out as its producer published it, straight from where the intake put
 * it. One that a client submitted over gRPC comes from exchange "" and has its headers as texts.
 */
#ifndef HARBINGER_SIDECAR_AMQP_WORKERS_H
#define HARBINGER_SIDECAR_AMQP_WORKERS_H

#include "amqp/uri.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/err.h"
#include "base/log.h"
#include "conf/conf.h"
#include "proxy/server.h"
#include "rpc/service.h"
#include "sidecar/backend_harbinger.h"

struct event_base;
struct amqp_workers;

struct amqp_workers_options {
    const struct conf *conf; /* proxy, amqp.uri, work, intake; borrowed */
    const struct log_sink *log;
    struct backend_harbinger *backend;
    struct flow *flow;           /* learns what workers' own events tell; borrowed */
    bool (*stopping)(void *ctx); /* nothing more is handed out */
    void *ctx;
};

/* Listens. 0, or a negative code with `err` set. Free before the backend. */
int amqp_workers_new(struct event_base *base, const struct amqp_workers_options *o,
                     struct amqp_workers **out, struct err *err) MUST_CHECK;
/* Cuts all workers; what they had is put back. NULL does nothing. */
void amqp_workers_free(struct amqp_workers *w);

/* Messages have come to wait. */
void amqp_workers_pump(struct amqp_workers *w);
/* Workers are closed as soon as they have nothing left to settle. */
void amqp_workers_shut(struct amqp_workers *w);
/* Certificate, key and authorities are read again; a failure is logged and changes nothing. */
void amqp_workers_reload(struct amqp_workers *w);

/* Where it listens, with the port that the system chose. */
const char *amqp_workers_address(const struct amqp_workers *w);
struct proxy_stats amqp_workers_stats(const struct amqp_workers *w);
/* As proxy_server_clients. */
size_t amqp_workers_clients(const struct amqp_workers *w, size_t offset, size_t limit,
                            void (*each)(void *ctx, const struct proxy_client_row *row), void *ctx);
/* The same for the gRPC face's Stats; returns how many there are in all. */
size_t amqp_workers_tell(const struct amqp_workers *w, size_t limit,
                         void (*each)(void *ctx, const struct rpc_amqp_client *c), void *ctx);
/* Messages that its workers would take now; `asked` becomes true when one has asked since the last call. */
uint64_t amqp_workers_slots(struct amqp_workers *w, bool *asked);

/* What proxy.upstream says: "host:5672". 0, or ERR_CONFIG with `err` set. */
int amqp_workers_upstream(const char *text, struct uri *out, struct err *err) MUST_CHECK;

/* Appends property flags and list with these headers (a run of rpc_put_header's) as texts, and
 * persistent. A name over 255 bytes is left out. 0 or ERR_NOMEM. */
int amqp_workers_props(struct text headers, struct buf *out) MUST_CHECK;

#endif
