/*
 * Message ids that carry what was predicted: `instance-sequence-level-estimate`, hexadecimal, the
 * estimate in microseconds or `x` for none (docs/amqp.md, "What changes on the way"). Any replica,
 * also after a restart, reads from a report's id what was predicted at ingress, without remembering
 * anything.
 */
#ifndef HARBINGER_FLOW_ID_H
#define HARBINGER_FLOW_ID_H

#include "base/compiler.h"
#include "base/text.h"

#include <stdint.h>

#define ID_PRINT_BYTES 64 /* with the terminating NUL */
#define ID_NO_ESTIMATE (-1)

struct id {
    uint64_t instance;   /* drawn at random at each start */
    uint64_t sequence;   /* counts up from 1 in an instance */
    unsigned level;      /* the predicted one, 0..255 */
    int64_t estimate_us; /* ID_NO_ESTIMATE: not predicted */
};

/* Returns the length. */
size_t id_print(const struct id *id, char out[ID_PRINT_BYTES]);

/* 0, or ERR_INVALID when the text is not exactly an id in printed form. */
int id_parse(struct text printed, struct id *out) MUST_CHECK;

#endif
