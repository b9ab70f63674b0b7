/* The linked broker in /status and /metrics. */
#ifndef HARBINGER_SIDECAR_FACE_BROKER_H
#define HARBINGER_SIDECAR_FACE_BROKER_H

#include "http/metrics.h"

#include <jansson.h>

struct daemon;

/* null with another backend; NULL when memory is short. */
json_t *face_broker_status(const struct daemon *d);

/* Only with the harbinger backend. */
void face_broker_metrics(struct metrics *m, const struct daemon *d);

#endif
