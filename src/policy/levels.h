/*
 * The waiting messages of a policy, one first-come-first-served list per level, and a bitmap of the
 * levels that hold something. Within a level the messages stand in the order of their placements,
 * always: `place` rises strictly and `placed_at` never falls from front to back. So the front is the
 * one that has waited longest since its placement, and whoever looks for overdue messages can stop
 * at the first that is not.
 *
 * For the policies of this folder only.
 */
#ifndef HARBINGER_POLICY_LEVELS_H
#define HARBINGER_POLICY_LEVELS_H

#include "policy/policy.h"

#include <stdbool.h>

#define LEVELS_MAX       255
#define LEVELS_WORD_BITS 64

struct level {
    struct list waiting; /* struct policy_msg */
    size_t n;
    size_t n_promoted; /* waiting above their original level: level < original_level */
};

struct levels {
    unsigned n;
    uint64_t n_placed; /* placements so far */
    uint64_t occupied[LEVELS_MAX / LEVELS_WORD_BITS + 1];
    struct level level[]; /* n */
};

/* Memory for n levels, empty. NULL when memory is short. Free with free(). */
struct levels *levels_new(unsigned n) MUST_CHECK;

/* The first level from 0 that holds something, -1 when all are empty. O(1). */
int levels_first(const struct levels *l);

static inline bool level_is_empty(const struct levels *l, unsigned i)
{
    return l->level[i].n == 0;
}

/* The message at the front of a level, NULL when it is empty. */
struct policy_msg *level_front(const struct levels *l, unsigned i);

/* To the tail of level i, as a new placement at `now`. Which level the message itself names is the
 * caller's business, and must be the same when it leaves. */
void level_place(struct levels *l, unsigned i, struct policy_msg *m, mono_t now);

/* Back where it was before level_take: behind what was placed before it. */
void level_put_back(struct levels *l, unsigned i, struct policy_msg *m);

/* Out of its level. */
void level_take(struct levels *l, unsigned i, struct policy_msg *m);

/* NULL, or words for the first broken invariant. */
const char *levels_check(const struct levels *l);

#endif
