/*
 * The daemon: two links to RabbitMQ, the intake, the reports, the backend and the flow between
 * them. One link consumes, acks and declares, the other publishes: during an alarm RabbitMQ does
 * not read a connection that has published, its acks included (docs/amqp.md, "What RabbitMQ does",
 * 6).
 *
 *   starting -> running -> draining -> closing -> stopped
 *
 *   starting   until the topology was found or made; the links connect by themselves, again and
 *              again
 *   running    messages flow
 *   draining   SIGTERM: takes no more; waits for what is at RabbitMQ unconfirmed
 *   closing    everything settled is written out, the links say goodbye; both together take at
 *              most shutdown.timeout
 *
 * A second SIGTERM ends the process at once: RabbitMQ delivers again what was not acked. SIGHUP
 * reads the configuration file again; a bad one changes nothing.
 */
#ifndef HARBINGER_SIDECAR_DAEMON_H
#define HARBINGER_SIDECAR_DAEMON_H

#include "base/compiler.h"
#include "base/err.h"
#include "conf/conf.h"

#include <stddef.h>

struct daemon;

struct daemon_options {
    const char *conf_path;   /* NULL: no file; read again on SIGHUP */
    const char *const *sets; /* --set, applied again after each reading */
    size_t n_sets;
};

/* Takes over *conf, on failure too (it is zeroed). Nothing connects yet. Returns NULL with `err`
 * set. */
struct daemon *daemon_new(const struct daemon_options *o, struct conf *conf,
                          struct err *err) MUST_CHECK;

/* Runs until told to stop. 0, or ERR_CONFIG (RabbitMQ has something else than the configuration
 * says) or another negative code; the log says why. */
int daemon_run(struct daemon *d) MUST_CHECK;

void daemon_free(struct daemon *d);

#endif
