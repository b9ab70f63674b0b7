#include "sidecar/loop.h"

#include <sys/random.h>
#include <time.h>

mono_t loop_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * MONO_S + t.tv_nsec;
}

uint64_t loop_random(void)
{
    uint64_t v = 0;
    if (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v)
        v = (uint64_t)loop_now(); /* a kernel without it: differs between processes all the same */
    return v;
}
