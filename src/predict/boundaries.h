/*
 * The boundaries between levels: quantiles i/levels of the pooled histogram (paper 3.4, Equation
 * 2), with two resistances to jitter that the equation omits. A boundary keeps its published value
 * while the fresh one is within `hysteresis` of it; a key keeps its level while its estimate is
 * within `hysteresis` outside of that level's range.
 *
 * Invariants: `n` is 0 or levels - 1; the values rise strictly and the first is > 0; seq counts the
 * publications, 0 = none yet. With one level an empty set is published from the start.
 */
#ifndef HARBINGER_PREDICT_BOUNDARIES_H
#define HARBINGER_PREDICT_BOUNDARIES_H

#include "harbinger/predictor.h"
#include "predict/histogram.h"

struct boundaries {
    unsigned levels;
    unsigned n;
    double hysteresis;
    uint64_t seq;
    double at[HB_LEVELS_MAX - 1]; /* ms */
};

enum boundaries_result {
    BOUNDARIES_SAME = 1,  /* what is published stays */
    BOUNDARIES_PUBLISHED, /* a new set is in force */
    BOUNDARIES_DEGENERATE /* the fresh set did not rise strictly from above 0; the old one stays */
};

void boundaries_init(struct boundaries *b, unsigned levels, double hysteresis);

static inline bool boundaries_ready(const struct boundaries *b)
{
    return b->seq > 0;
}

enum boundaries_result boundaries_refresh(struct boundaries *b, const struct histogram_layout *l,
                                          const struct histogram *pooled);

/* The number of boundaries <= ms: equality goes down, to the slower level. */
unsigned boundaries_level(const struct boundaries *b, double ms);

/* The level of a key's estimate, when the key was last at level `remembered` (any value
 * of `levels` or above = at none). */
unsigned boundaries_sticky_level(const struct boundaries *b, double ms, unsigned remembered);

/* True when `n` values are fit to be published. */
bool boundaries_rise(const double *at, unsigned n);

#endif
