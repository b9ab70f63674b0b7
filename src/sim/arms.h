/*
 * Arms: named ways to serve a trace, to be compared with each other. An arm is a row of data, who
 * routes and which options differ from the defaults; nothing else in the program knows it.
 */
#ifndef HARBINGER_SIM_ARMS_H
#define HARBINGER_SIM_ARMS_H

#include "sim/sim.h"

struct sim_arm {
    const char *name, *help;
    enum sim_router router;
    const char *settings; /* "NAME=VALUE NAME=VALUE", as for sim_option_set */
};

extern const struct sim_arm sim_arms[]; /* the last one has no name */

/*
 * Sets an option by the name that it has in the sidecar's configuration ("levels",
 * "predictor.min_samples"; the part in front of the dot may be left out), or "warm" or "size_bins".
 * Durations need a unit; weights are written 8/3/1, those not named are 1. 0, or ERR_INVALID with
 * nothing changed: no such option (the error names the nearest one), or not a value of it. Ranges
 * are checked by sim_run.
 */
int sim_option_set(struct sim_options *o, struct text name, struct text value,
                   struct err *e) MUST_CHECK;

/* Makes the options those of "ARM" or "ARM:NAME=VALUE[:NAME=VALUE]...": what the arm says over what
 * they already hold. 0, or ERR_INVALID: no such arm (the error names the nearest one), or as
 * sim_option_set; the options may have been changed then. */
int sim_arm_apply(struct sim_options *o, const char *spec, struct err *e) MUST_CHECK;

/* The options that sim_option_set knows: the i-th one's name, NULL behind the last. */
const char *sim_option_name(size_t i);

#endif
