/* The monotonic clock. For deadlines of this folder only: what decides gets its time as an
 * argument. */
#ifndef HARBINGER_AMQP_CLOCK_H
#define HARBINGER_AMQP_CLOCK_H

#include "base/mono.h"

#include <sys/time.h>
#include <time.h>

static inline mono_t clock_read(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * MONO_S + ts.tv_nsec;
}

static inline struct timeval clock_timeval(mono_t for_ns)
{
    return (struct timeval){.tv_sec = for_ns / MONO_S, .tv_usec = for_ns % MONO_S / MONO_US};
}

#endif
