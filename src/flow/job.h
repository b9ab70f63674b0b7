/*
 * A message as the flow sees it: the properties that a key may come from, and a way to ask for a
 * header. A view; whoever makes it keeps the memory.
 */
#ifndef HARBINGER_FLOW_JOB_H
#define HARBINGER_FLOW_JOB_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define JOB_SCRATCH_BYTES 32

struct job {
    struct text user_id, app_id, type; /* AMQP properties; absent = {NULL, 0} */
    bool has_priority;
    uint8_t priority;
    uint64_t body_bytes;
    const void *message; /* cookie of `header` */

    /* The header's value as text: a text value as it is, a number in decimal (written into
     * `scratch`). Absent when there is no such header or it is of another kind. */
    struct text (*header)(const void *message, const char *name, char scratch[JOB_SCRATCH_BYTES]);
};

#endif
