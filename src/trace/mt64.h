/*
 * The 64-bit Mersenne Twister (Nishimura and Matsumoto, 2000), and the draws that the reference's
 * generator makes from it, bit by bit: so a seed gives the reference's own trace.
 */
#ifndef HARBINGER_TRACE_MT64_H
#define HARBINGER_TRACE_MT64_H

#include <stdint.h>

enum { MT64_WORDS = 312 };

struct mt64 {
    uint64_t state[MT64_WORDS];
    int at;
};

void mt64_seed(struct mt64 *r, uint64_t seed);
uint64_t mt64_next(struct mt64 *r);
/* Uniform in [0, 1): one output over 2^64, never rounded up to 1. */
double mt64_unit(struct mt64 *r);
/* Exponential with this rate. */
double mt64_exponential(struct mt64 *r, double rate);
/* Standard normal by Marsaglia's polar method; the second of each pair of values is used, the first
 * thrown away. */
double mt64_normal(struct mt64 *r);
/* Lognormal with this median, and this standard deviation of its logarithm. */
double mt64_lognormal(struct mt64 *r, double median, double sigma);

/* The finaliser of MurmurHash3: a mixer of 64 bits. */
uint64_t mt64_mix(uint64_t x);

#endif
