/* What sim_plan_new has found out, for the rest of this folder. */
#ifndef HARBINGER_SIM_PLAN_H
#define HARBINGER_SIM_PLAN_H

#include "sim/sim.h"

struct sim_plan {
    struct sim_plan_info info;
    struct sim_split split;
    int64_t first_us; /* of the evaluation: simulated time 0 */
    int64_t last_us;

    int64_t *median_us;   /* by key, of its reference durations; negative: it has none */
    int64_t *quantile_us; /* plan_boundary */
};

/* The boundary i, 1..levels - 1, between so many levels: the i / levels quantile of the reference
 * durations. */
int64_t plan_boundary(const struct sim_plan *p, unsigned levels, unsigned i);

/* The number of boundaries that the duration has reached. */
unsigned plan_level(const struct sim_plan *p, unsigned levels, int64_t duration_us);

/* The window of the evaluation's `row`, which arrives at `arrival_us`. */
unsigned plan_window(const struct sim_plan *p, uint64_t row, int64_t arrival_us);

/* Reads the next job and checks it: as sim_source's `next`. `row` counts from 0 and stands in
 * errors; `before` is the arrival of the job before it, which is updated. */
struct plan_reader {
    const struct sim_source *source;
    uint64_t row;
    int64_t before;
};
int plan_read(struct plan_reader *r, struct sim_job *out, struct err *e) MUST_CHECK;

#endif
