/*
 * Ack reports: what a worker says about one job (docs/amqp.md, "Ack report"). The body is one JSON
 * object or a list of them; unknown members are ignored, so that workers may add their own.
 *
 *   {"id": "...", "key": "...", "duration_ms": 12.5, "outcome": "ok" | "error" | "timeout"}
 */
#ifndef HARBINGER_FLOW_REPORT_H
#define HARBINGER_FLOW_REPORT_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum report_outcome { REPORT_OK, REPORT_ERROR, REPORT_TIMEOUT };

/* Texts are valid during the callback only. */
struct report {
    struct text id, key; /* absent = {NULL, 0} */
    double duration_ms;  /* finite when has_duration; may be negative */
    bool has_duration;
    enum report_outcome outcome;
};

/* `r` is NULL for an element that is no report: not an object, a member of the wrong type, an
 * unknown outcome. */
typedef void report_fn(void *ctx, const struct report *r);

/* Calls `fn` once per element; a body that is no JSON at all (or not an object or list, or over 16
 * MiB) is one element that is no report. An empty list calls nothing. */
void report_parse(const char *body, size_t n, report_fn *fn, void *ctx);

/* The same fields as texts, from AMQP headers. `outcome` absent means ok. False: no report. */
bool report_from_fields(struct text id, struct text key, struct text duration_ms,
                        struct text outcome, struct report *out);

#endif
