/* The AMQP workers' part of the daemon's HTTP face; for face_broker.c only. */
#ifndef HARBINGER_SIDECAR_FACE_PROXY_H
#define HARBINGER_SIDECAR_FACE_PROXY_H

#include "http/metrics.h"
#include "sidecar/daemon_internal.h"

#include <jansson.h>

/* null without a proxy; NULL when memory is short. A row for each of the first clients. */
json_t *face_proxy_status(const struct daemon *d);
/* Only with a proxy. */
void face_proxy_metrics(struct metrics *m, const struct daemon *d);

#endif
