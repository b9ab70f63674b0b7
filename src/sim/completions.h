/*
 * The jobs that run, in the order of their completion: at the same time the one that began first.
 * A binary heap with a place for each worker.
 */
#ifndef HARBINGER_SIM_COMPLETIONS_H
#define HARBINGER_SIM_COMPLETIONS_H

#include "base/compiler.h"
#include "base/mono.h"

#include <stdbool.h>
#include <stdint.h>

struct completion {
    mono_t at;
    uint64_t start; /* counts the starts */
    uint32_t worker;
};

struct completions {
    struct completion *heap;
    uint32_t n;
};

/* Room for so many. False when memory is short. */
bool completions_init(struct completions *c, uint32_t room) MUST_CHECK;
void completions_fini(struct completions *c);

void completions_push(struct completions *c, struct completion x);
/* Takes the first one out; there is one. */
struct completion completions_pop(struct completions *c);

/* Of the first one; MONO_NEVER when there is none. */
static inline mono_t completions_next_at(const struct completions *c)
{
    return c->n > 0 ? c->heap[0].at : MONO_NEVER;
}

#endif
