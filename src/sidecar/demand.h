/*
 * How much of the intake this sidecar takes: `per_worker` messages for each one that its workers can
 * have at a time, so that several sidecars share one intake as their workers do, and nothing without
 * workers. Pure.
 */
#ifndef HARBINGER_SIDECAR_DEMAND_H
#define HARBINGER_SIDECAR_DEMAND_H

#include "base/mono.h"

#include <stdbool.h>
#include <stdint.h>

struct demand {
    uint64_t slots;   /* messages at workers, and those that they would take now */
    uint32_t window;  /* the most that may be held */
    uint32_t limit;   /* as it is now; 0: the intake sleeps */
    bool awaiting;    /* RabbitMQ is to deliver again what somebody may have finished: no sleep */
    mono_t worked_at; /* kept between two calls: the last time that there were slots */

    uint32_t per_worker;
    mono_t idle_after; /* 0: always the whole window */
};

/* The limit from now on. It rises at once, and falls when half of it would do, so that it does not
 * follow every pull; it becomes 0 when there were no slots for idle_after. */
uint32_t demand_limit(struct demand *d, mono_t now);

#endif
