/*
 * SipHash-1-3: a keyed hash for tables whose keys come from outside. The seed is drawn once per
 * process by the caller, so nobody can prepare keys that collide.
 */
#ifndef HARBINGER_BASE_HASH_H
#define HARBINGER_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_seed {
    uint64_t k0, k1;
};

uint64_t hash_bytes(const struct hash_seed *seed, const void *data, size_t n);

#endif
