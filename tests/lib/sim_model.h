/*
 * The simulator once more, as plainly as its rules can be written: arrays that are searched from end
 * to end, passes made one by one. For tests that compare, decision by decision.
 *
 * Levels that do not come from the predictor are handed in; the predictor is the real one, which has
 * tests of its own.
 */
#ifndef HARBINGER_TESTS_SIM_MODEL_H
#define HARBINGER_TESTS_SIM_MODEL_H

#include "sim/sim.h"

struct model_run {
    const struct sim_job *jobs; /* the history, then the evaluation */
    size_t n_history, n;
    const struct sim_options *options;
    bool predicts;      /* else the level is that of `level_of` */
    const char *reason; /* of the levels that are handed in */
    unsigned (*level_of)(const struct sim_job *job, unsigned levels, unsigned default_level);
};

/* One decision per job of the evaluation, in the order of starts. Free with free. */
struct sim_decision *model_decisions(const struct model_run *run);

#endif
