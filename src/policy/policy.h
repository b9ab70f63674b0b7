/*
 * Which waiting message is next: the seam between the delivery core and an order of service.
 *
 * A policy owns the order of the waiting messages and nothing else. It never allocates per message:
 * the record that embeds a struct policy_msg lends its link while it waits. A message is either
 * waiting (placed, put back or requeued, not yet handed out or removed) or not; calling place,
 * put_back or requeue on a waiting message, or remove on one that is not, is a bug of the caller.
 *
 * Pure: no clock. `now` must not go backwards between calls.
 */
#ifndef HARBINGER_POLICY_POLICY_H
#define HARBINGER_POLICY_POLICY_H

#include "base/list.h"
#include "base/mono.h"

#include <stddef.h>
#include <stdint.h>

struct policy;

/* The part of a message that an order of service may look at. The caller fills it before place().
 */
struct policy_msg {
    struct list link;
    mono_t arrived_at;      /* at the broker; never changes */
    mono_t placed_at;       /* last placement, written by the policy */
    double estimate_ms;     /* expected duration; negative: none */
    uint8_t level;          /* now, 0 is served first; written by the policy */
    uint8_t original_level; /* as decided at ingress; never changes */
};

/* Frees the policy, not the messages. NULL does nothing. */
void policy_free(struct policy *p);

/* "fifo", "levels", ... Valid as long as the program. */
const char *policy_name(const struct policy *p);

/* Number of waiting messages. */
size_t policy_waiting(const struct policy *p);

/* A new message, at original_level. */
void policy_place(struct policy *p, struct policy_msg *m, mono_t now);

/* Takes the message to be served next out of the order; NULL when none waits. */
struct policy_msg *policy_next(struct policy *p, mono_t now);

/* Undoes policy_next for a message that no worker got: it is again where it was, in front of its
 * level, with its level and placement time unchanged (the reference's rule for a cancelled pull).
 */
void policy_put_back(struct policy *p, struct policy_msg *m);

/* A failed attempt comes back. Where it goes is the policy's rule: the tail of its original level
 * here. */
void policy_requeue(struct policy *p, struct policy_msg *m, mono_t now);

/* Takes a waiting message out of the order without serving it (its time to live ended). */
void policy_remove(struct policy *p, struct policy_msg *m);

/* A message handed out before was handled in `duration_ms`. */
void policy_done(struct policy *p, struct policy_msg *m, double duration_ms);

/* Does what is due at `now`; returns when it must be called next, MONO_NEVER when nothing is
 * planned. */
mono_t policy_tick(struct policy *p, mono_t now);

/* First come, first served, whatever the levels say. NULL when memory is short. */
struct policy *policy_fifo_new(void);

/* Strict levels: the first non-empty level from 0, first come first served inside (paper 3.2).
 * n_levels is 1..255. NULL when memory is short. */
struct policy *policy_levels_new(unsigned n_levels);

#endif
