/*
 * Worker-time weights (paper 3.7, equation 4): each level has a virtual clock; the non-empty level
 * with the least clock is served, and its clock advances by the expected cost of the message over
 * the level's weight. So in the long run level i gets weight_i / sum(weights) of the worker time.
 *
 * The clocks are integers, so a refund is exact; their unit is 1/1441440 ms, which every weight up
 * to 16 divides, so that equal shares meet in exact ties.
 *
 * For the policies of this folder only.
 */
#ifndef HARBINGER_POLICY_SHARES_H
#define HARBINGER_POLICY_SHARES_H

#include "policy/levels.h"

struct share {
    uint16_t weight; /* 1..1000 */
    uint64_t clock;
    uint64_t charged;  /* sum of the charges that were not refunded, in clock units */
    double average_ms; /* of the durations of messages pulled from this level; 0: none yet */
};

struct shares {
    uint64_t floor; /* the furthest that a served clock was; only rises */
    struct share share[LEVELS_MAX];
};

/* All clocks at zero. `weights` has n entries of 1..1000. */
void shares_init(struct shares *s, const uint16_t *weights, unsigned n);

/* Of the levels in which a message can be served the one with the least clock, the lowest of several;
 * -1: none. */
int shares_least(const struct shares *s, const struct levels *l);

/* Level i serves m: writes m->charge. The cost is the message's estimate, else the average of the
 * level, else 1 ms, and at least 1 ms (the reference's rule). */
void shares_charge(struct shares *s, unsigned i, struct policy_msg *m);

/* Undoes shares_charge. */
void shares_refund(struct shares *s, unsigned i, struct policy_msg *m);

/* Level i is about to hold something to serve again: an idle level has saved no credit, but keeps its debt.
 */
void shares_wake(struct shares *s, unsigned i);

/* A message of level i took `duration_ms`, finite and >= 0. */
void shares_learn(struct shares *s, unsigned i, double duration_ms);

double shares_clock_ms(const struct shares *s, unsigned i);
double shares_charged_ms(const struct shares *s, unsigned i);

#endif
