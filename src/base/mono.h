/*
 * Monotonic time: nanoseconds since an arbitrary start, as int64_t. The range is 292 years, so sums
 * of a reading and any configured duration (at most 365 days) cannot overflow; mono_add saturates
 * all the same. Nothing here reads a clock: `now` is an argument everywhere left of the daemon.
 */
#ifndef HARBINGER_BASE_MONO_H
#define HARBINGER_BASE_MONO_H

#include <stdint.h>

typedef int64_t mono_t;

#define MONO_NEVER INT64_MAX
#define MONO_US    INT64_C(1000)
#define MONO_MS    INT64_C(1000000)
#define MONO_S     INT64_C(1000000000)

/* at + for, saturating at MONO_NEVER. `for_ns` must not be negative. */
static inline mono_t mono_add(mono_t at, mono_t for_ns)
{
    return at > MONO_NEVER - for_ns ? MONO_NEVER : at + for_ns;
}

static inline mono_t mono_min(mono_t a, mono_t b)
{
    return a < b ? a : b;
}

static inline double mono_to_ms(mono_t for_ns)
{
    return (double)for_ns / (double)MONO_MS;
}

#endif
