/*
 * The 32-bit Mersenne Twister as Python's `random` seeds and reads it, so that intervals are those of
 * the reference to the last draw. Not for secrets.
 */
#ifndef HARBINGER_LAB_MT19937_H
#define HARBINGER_LAB_MT19937_H

#include <stdint.h>

struct mt19937 {
    uint32_t state[624];
    unsigned next;
};

/* random.seed(seed) */
void mt19937_seed(struct mt19937 *m, uint64_t seed);

/* random.random(): 53 bits, in [0, 1). */
double mt19937_unit(struct mt19937 *m);

#endif
