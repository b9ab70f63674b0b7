/* Who says which level a job gets, and hands it to the delivery core. */
#ifndef HARBINGER_SIM_ROUTER_H
#define HARBINGER_SIM_ROUTER_H

#include "base/compiler.h"
#include "flow/station.h"
#include "sim/plan.h"

struct router {
    const struct sim_plan *plan;
    const struct sim_source *source;
    const struct sim_options *options; /* as they are used: router_adjust */
    struct flow *flow;
    struct key_rules key_rules; /* the flow's */
    struct station *station;
    uint16_t *by_key; /* what is known of it; ROUTER_NEW at first */
};

/* A job from its arrival to its completion; the router writes the decision. */
struct routed_job {
    struct routed_job *next; /* among the free ones */
    mono_t arrived_at, duration, started_at;
    uint64_t row;
    double estimate_ms; /* negative: none */
    const char *reason;
    uint16_t window;
    uint8_t level, class, group;
};

/* The options with what the kind of router demands of the core. 0, or negative with `e` set: a bad
 * option, or more keys than levels for SIM_QUEUES. */
int router_adjust(const struct sim_plan *plan, struct sim_options *o, struct err *e) MUST_CHECK;

/* Borrows all; `o` has been adjusted. 0, or negative with `e` set and nothing to free. */
int router_init(struct router *r, const struct sim_plan *plan, const struct sim_source *source,
                const struct sim_options *o, struct err *e) MUST_CHECK;
void router_fini(struct router *r);

/* The duration of a job of the history. */
void router_teach(struct router *r, const struct sim_job *job, mono_t at);

/* An outcome of station_submit. `to` is its owner in the core; decision, class and group are written. */
int router_submit(struct router *r, const struct sim_job *job, struct routed_job *to) MUST_CHECK;

#endif
