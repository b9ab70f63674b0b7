/*
 * Which waiting message is next: the seam between the delivery core and an order of service.
 *
 * A policy owns the order of the waiting messages and nothing else. It never allocates per message:
 * the record that embeds a struct policy_msg lends its link while it waits. A message is either
 * waiting (placed, put back or requeued, not yet handed out or removed) or not; calling place,
 * put_back or requeue on a waiting message, or remove, hold or release on one that is not, is a bug
 * of the caller.
 *
 * Pure: no clock. `now` must not go backwards between calls.
 */
#ifndef HARBINGER_POLICY_POLICY_H
#define HARBINGER_POLICY_POLICY_H

#include "base/list.h"
#include "base/mono.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy;

/* The part of a message that an order of service may look at. The caller fills it before place().
 */
struct policy_msg {
    struct list link;
    mono_t arrived_at;      /* at the broker; never changes */
    mono_t placed_at;       /* last placement, written by the policy */
    uint64_t place;         /* order of placements, written by the policy */
    double estimate_ms;     /* expected duration; negative: none */
    uint64_t charge;        /* what the pull cost its level, written by the policy */
    uint8_t level;          /* now, 0 is served first; written by the policy */
    uint8_t original_level; /* as decided at ingress; never changes */
    bool held;              /* while it waits: it is not to be served; written by the policy */
};

/* Frees the policy, not the messages. NULL does nothing. */
void policy_free(struct policy *p);

/* "fifo", "levels", ... Valid as long as the program. */
const char *policy_name(const struct policy *p);

/* Number of waiting messages, and of those that are held back. */
size_t policy_waiting(const struct policy *p);
size_t policy_held(const struct policy *p);

/* A new message, at original_level. */
void policy_place(struct policy *p, struct policy_msg *m, mono_t now);

/* Takes the message to be served next out of the order; NULL when none waits but those held back. */
struct policy_msg *policy_next(struct policy *p, mono_t now);

/*
 * Undoes policy_next for a message that no worker got, and whose placement has not changed since: it
 * is again where it was, in front of what was placed after it, with level and placement time
 * unchanged, and what its pull was charged is refunded exactly. Takes time proportional to the
 * messages of its level that were placed before it and wait: of several, put back the newest first.
 */
void policy_put_back(struct policy *p, struct policy_msg *m);

/* A failed attempt comes back. Where it goes is the policy's rule: the tail of its original level
 * here. */
void policy_requeue(struct policy *p, struct policy_msg *m, mono_t now);

/* Takes a waiting message out of the order without serving it (its time to live ended). */
void policy_remove(struct policy *p, struct policy_msg *m);

/*
 * Holds a waiting message back, and lets it go: it is passed over by policy_next, and as if it had
 * never been held after that. It keeps its place meanwhile, and ages. Both take constant time, and
 * policy_next passes over those that are held between the message it takes and the next one.
 */
void policy_hold(struct policy *p, struct policy_msg *m);
void policy_release(struct policy *p, struct policy_msg *m);

/* Some waiting message, held back or not, which stays where it is; NULL when none waits. */
struct policy_msg *policy_any(const struct policy *p);

/* A message handed out before was handled in `duration_ms`, finite and >= 0. */
void policy_done(struct policy *p, struct policy_msg *m, double duration_ms);

/* Does what is due at `now`; returns when it must be called next, `now` when more is due than one
 * call does, MONO_NEVER when nothing is planned. Any other call can bring that time nearer. */
mono_t policy_tick(struct policy *p, mono_t now);

/* What goes on in one level; all zero where a policy has no such thing. */
struct policy_level_stats {
    size_t waiting, promoted;       /* now; promoted: above their original level */
    const struct policy_msg *front; /* of this level, held back or not; NULL: none waits */
    uint64_t pulls, promotions;     /* out of this level */
    double clock_ms, charged_ms;    /* worker-time weights */
    double average_ms;              /* of durations; 0: none yet */
};

void policy_level_stats(const struct policy *p, unsigned level, struct policy_level_stats *out);

/* Walks every structure. NULL when all is well, else words for the first broken invariant. */
const char *policy_check(const struct policy *p);

/* First come, first served, whatever the levels say. NULL when memory is short. */
struct policy *policy_fifo_new(void);

struct policy_paper_options {
    unsigned n_levels; /* 1..255 */

    mono_t aging_threshold; /* 0: no aging */
    mono_t aging_interval;  /* > 0 with aging */
    bool pause_when_behind;
    unsigned slice; /* the most promotions of one tick; > 0 with aging */

    const uint16_t *weights; /* n_levels of 1..1000, copied; NULL: strict */
};

/*
 * The paper's order (3.2, 3.6, 3.7): levels, each first come first served; the first non-empty one
 * is served, or with weights the one with the least virtual clock; aging promotes what waited too
 * long. NULL when memory is short.
 */
struct policy *policy_paper_new(const struct policy_paper_options *o);

#endif
