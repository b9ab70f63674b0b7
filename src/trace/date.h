/* Dates in logs: 2026-12-01T11:39:30.25+01:00 and its usual forms (ISO 8601, RFC 3339). */
#ifndef HARBINGER_TRACE_DATE_H
#define HARBINGER_TRACE_DATE_H

#include "base/compiler.h"
#include "base/text.h"

#include <stdint.h>

/*
 * Microseconds since 1970 in UTC. A date and a time of day with 'T' or a blank between them; seconds
 * may be left out or have a fraction, after '.' or ',', of which six digits count; then 'Z', an offset
 * (+01, +0100, +01:00), or nothing, which means UTC. 0; ERR_INVALID when it is none, *out unchanged.
 */
int date_parse(struct text t, int64_t *out) MUST_CHECK;

#endif
