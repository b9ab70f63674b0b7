/*
 * The waiting messages of a policy, one first-come-first-served list per level, and a bitmap of the
 * levels in which one can be served: those that are held back keep their place and are passed over.
 * Within a level the messages stand in the order of their placements,
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
    struct list *ready;  /* the first that is not held back; `waiting` itself: none */
    size_t n, n_held;
    size_t n_promoted; /* waiting above their original level: level < original_level */
};

struct levels {
    unsigned n;
    size_t n_waiting;  /* in all levels */
    uint64_t n_placed; /* placements so far */
    uint64_t servable[LEVELS_MAX / LEVELS_WORD_BITS + 1];
    struct level level[]; /* n */
};

/* Memory for n levels, empty. NULL when memory is short. Free with free(). */
struct levels *levels_new(unsigned n) MUST_CHECK;

/* The first level from 0 in which a message can be served; -1: none. O(1). */
int levels_first(const struct levels *l);

static inline bool level_is_empty(const struct levels *l, unsigned i)
{
    return l->level[i].n == 0;
}

/* Nothing in it can be served. */
static inline bool level_is_idle(const struct levels *l, unsigned i)
{
    return l->level[i].n == l->level[i].n_held;
}

/* The message at the front of a level, held back or not; NULL when it is empty. */
struct policy_msg *level_front(const struct levels *l, unsigned i);
/* The first one that is not held back; NULL when it is idle. */
struct policy_msg *level_next(const struct levels *l, unsigned i);

/* To the tail of level i, as a new placement at `now`. Which level the message itself names is the
 * caller's business, and must be the same when it leaves. */
void level_place(struct levels *l, unsigned i, struct policy_msg *m, mono_t now);

/* Back where it was before level_take: behind what was placed before it. */
void level_put_back(struct levels *l, unsigned i, struct policy_msg *m);

/* Out of its level. m->held stays as it is. */
void level_take(struct levels *l, unsigned i, struct policy_msg *m);

/* For a message that waits in level i and is not held back, or is. */
void level_hold(struct levels *l, unsigned i, struct policy_msg *m);
void level_release(struct levels *l, unsigned i, struct policy_msg *m);

/* NULL, or words for the first broken invariant. */
const char *levels_check(const struct levels *l);

#endif
