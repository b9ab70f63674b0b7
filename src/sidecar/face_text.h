/* What the HTTP face says about a daemon. Each appends to `out`; 0 or ERR_NOMEM. */
#ifndef HARBINGER_SIDECAR_FACE_TEXT_H
#define HARBINGER_SIDECAR_FACE_TEXT_H

#include "base/buf.h"
#include "base/compiler.h"

struct daemon;

/* Prometheus text. */
int face_metrics(const struct daemon *d, struct buf *out) MUST_CHECK;

/* One JSON object for people and scripts; members are added, never renamed. */
int face_status(const struct daemon *d, struct buf *out) MUST_CHECK;

#endif
