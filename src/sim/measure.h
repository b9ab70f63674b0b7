/*
 * What a run is measured by: sums by window, class and group, and one word per job, in the order of
 * the rows, for the quantiles.
 */
#ifndef HARBINGER_SIM_MEASURE_H
#define HARBINGER_SIM_MEASURE_H

#include "base/compiler.h"
#include "sim/sim.h"

struct measure_sums {
    uint64_t n;
    double latency_ms, wait_ms, slowdown, max_wait_ms;
};

struct measure {
    uint64_t *latencies; /* by row: latency in us, class, group */
    uint64_t n;
    unsigned n_windows;
    struct measure_sums *by_window; /* SIM_CLASSES of each */
    struct measure_sums by_group[SIM_GROUPS];
};

struct measured_job {
    uint64_t row;
    unsigned window, group, class;
    mono_t wait, duration;
};

/* For `n` jobs. False when memory is short. */
bool measure_init(struct measure *m, uint64_t n, unsigned n_windows) MUST_CHECK;
void measure_fini(struct measure *m);

void measure_add(struct measure *m, const struct measured_job *job);

/* Fills figures and windows of *out, which has n_windows of them; all jobs have been added. Reorders
 * what it has: once only. */
void measure_finish(struct measure *m, struct sim_result *out);

#endif
