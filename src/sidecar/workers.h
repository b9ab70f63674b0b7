/*
 * The gRPC face of the harbinger backend: workers pull what the intake holds, clients submit.
 *
 * A message of the intake reaches a worker as payload and headers: the AMQP headers whose value is a
 * text or a number (booleans as 1 and 0), and before them these properties where they are there:
 * content-type, content-encoding, correlation-id, reply-to, message-id, type, app-id. A producer's
 * header of the same name wins. What is not UTF-8 is left out.
 *
 * What clients submit goes the same way, with the registered producer as app_id. It is in memory
 * alone: a restart loses it.
 */
#ifndef HARBINGER_SIDECAR_WORKERS_H
#define HARBINGER_SIDECAR_WORKERS_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/err.h"
#include "base/log.h"
#include "conf/conf.h"
#include "rpc/server.h"
#include "sidecar/backend_harbinger.h"

struct event_base;
struct workers;

struct workers_options {
    const struct conf *conf; /* rpc; borrowed */
    const struct log_sink *log;
    struct backend_harbinger *backend;
    /* An operator asks that nothing new be taken in; and whether that is so. */
    void (*drain)(void *ctx);
    bool (*draining)(void *ctx);
    /* As in struct rpc_station. */
    size_t (*amqp_clients)(void *ctx, size_t limit,
                           void (*each)(void *each_ctx, const struct rpc_amqp_client *c),
                           void *each_ctx);
    void *ctx;
};

/* Listens. 0, or a negative code with `err` set. Free before the backend. */
int workers_new(struct event_base *base, const struct workers_options *o, struct workers **out,
                struct err *err) MUST_CHECK;
void workers_free(struct workers *w);

/* Messages have come to wait. */
void workers_pump(struct workers *w);
/* No new calls; those that run may finish. */
void workers_shut(struct workers *w);
/* Certificate, key and token are read again; a failure is logged and changes nothing. */
void workers_reload(struct workers *w);

/* Where it listens, with the port that the system chose. */
const char *workers_address(const struct workers *w);
/* Messages that its workers would take now; `asked` becomes true when one has asked since the last call. */
uint64_t workers_slots(struct workers *w, bool *asked);
struct rpc_stats workers_stats(const struct workers *w);

/* Appends what a worker sees of a message's properties and headers. 0 or ERR_NOMEM. */
int workers_headers(const struct message *m, struct buf *out) MUST_CHECK;

#endif
