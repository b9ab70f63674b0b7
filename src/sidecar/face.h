/* The daemon's HTTP face: /metrics, /status, /livez, /readyz. */
#ifndef HARBINGER_SIDECAR_FACE_H
#define HARBINGER_SIDECAR_FACE_H

#include "base/compiler.h"
#include "base/err.h"

struct daemon;
struct face;

/* Listens at http.listen. 0, or a negative code with `err` naming the address. The daemon is
 * borrowed. */
int face_new(struct daemon *d, struct face **out, struct err *err) MUST_CHECK;
void face_free(struct face *f);

#endif
