/* The daemon's only sources of time and chance. Everything left of this folder gets them as
 * arguments. */
#ifndef HARBINGER_SIDECAR_LOOP_H
#define HARBINGER_SIDECAR_LOOP_H

#include "base/mono.h"

#include <stdint.h>
#include <sys/time.h>

/* CLOCK_MONOTONIC. */
mono_t loop_now(void);

/* From the kernel's generator. */
uint64_t loop_random(void);

/* A duration for event_add. */
static inline struct timeval loop_timeval(mono_t for_ns)
{
    return (struct timeval){.tv_sec = for_ns / MONO_S, .tv_usec = for_ns % MONO_S / MONO_US};
}

#endif
