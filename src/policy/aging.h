/*
 * Aging (paper 3.6): at regular passes every message that has waited for the threshold since its
 * placement moves to the tail of the level above, the bottom level first, so that a message climbs
 * at most one level in a pass.
 *
 * Pausing aging (paper 3.7, as corrected in the reference): a pass promotes at most one message per
 * level, and none into a level that is behind, which is one that holds promoted messages and whose
 * front came to the broker at least the threshold ago. Long waiting of native messages alone pauses
 * nothing.
 *
 * Passes are made `interval` after one another, the first one after the levels were last seen
 * empty; those that would find nothing are skipped. Time spent here: O(1) per promotion and
 * O(levels) per pass, nothing per message that is not due.
 *
 * For the policies of this folder only.
 */
#ifndef HARBINGER_POLICY_AGING_H
#define HARBINGER_POLICY_AGING_H

#include "policy/levels.h"

struct aging {
    mono_t threshold; /* 0: no aging */
    mono_t interval;
    bool pause_when_behind;
    unsigned slice; /* the most promotions of one call */

    mono_t passed_at;   /* the latest pass, or when the levels were last empty */
    mono_t cut;         /* of the pass that runs: messages placed until then are due */
    unsigned next_from; /* the level that it goes on with; 0: no pass runs */
};

/* The levels are empty at `now`: passes are counted from here. */
void aging_restart(struct aging *a, mono_t now);

/*
 * Makes the pass, or the rest of it, that is due at `now`. `promote` moves the message at the front
 * of level i to the tail of level i - 1. Returns when to call again, `now` when the slice was full,
 * MONO_NEVER when nothing that waits can ever be promoted.
 */
mono_t aging_tick(struct aging *a, const struct levels *l, mono_t now,
                  void (*promote)(void *ctx, unsigned i, mono_t now), void *ctx);

#endif
