/*
 * A bounded memory of ids: which reports were learned already. Remembers the latest `capacity`
 * values; an older one is forgotten for each new one. Values are 64-bit hashes: two ids that
 * collide (one in 10^13 at the default size) cost one report, never a delivery. All memory is
 * allocated at creation: 16 bytes per id.
 */
#ifndef HARBINGER_FLOW_SEEN_H
#define HARBINGER_FLOW_SEEN_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seen;

/* `capacity` 0..2^27; 0 remembers nothing. NULL when memory is short. Free with seen_free. */
struct seen *seen_new(size_t capacity) MUST_CHECK;
void seen_free(struct seen *s);

/* Remembers a value. True when it was remembered already. */
bool seen_add(struct seen *s, uint64_t value);

size_t seen_count(const struct seen *s);

#endif
