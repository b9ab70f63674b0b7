/*
 * A table of texts by index, in the order in which they were first added. Texts are 1..128 bytes
 * without control characters (trace.h), at most TRACE_MAX_NAMES of them.
 */
#ifndef HARBINGER_TRACE_NAMES_H
#define HARBINGER_TRACE_NAMES_H

#include "base/hash.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct names_block;

struct names {
    struct hash_seed seed;
    struct text *texts; /* n of them, in the blocks */
    uint32_t n, cap;
    uint32_t *slots; /* 1 + index; 0 = free; a power of two, at most half full */
    uint32_t n_slots;
    struct names_block *blocks;
};

/* A zeroed struct is an empty table as well, with a fixed seed of its hash. */
void names_init(struct names *t);
void names_fini(struct names *t);

/* Whether it is a text as above. */
bool names_valid(struct text name);

/* Finds a text, or adds it. 0 with its index in *out and whether it is *new (which may be NULL);
 * ERR_INVALID when it is not valid or the table is full, ERR_NOMEM; then nothing has changed. */
int names_add(struct names *t, struct text name, uint32_t *out, bool *is_new);

/* The index of a text, UINT32_MAX when it is not there. */
uint32_t names_find(const struct names *t, struct text name);

#endif
