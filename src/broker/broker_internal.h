/*
 * What the parts of the broker share. A living message waits (in the policy, and in the heap of
 * deadlines if it has one) or is in flight (has an attempt); a dead one is in the list of dead
 * letters.
 *
 *   broker.c    life, submit, withdraw, pull, tick
 *   lease.c     attempts that end by themselves, and those extended or returned
 *   settle.c    ack, nack and reject
 *   dead.c      death, and the letters that are kept
 */
#ifndef HARBINGER_BROKER_BROKER_INTERNAL_H
#define HARBINGER_BROKER_BROKER_INTERNAL_H

#include "broker/history.h"
#include "broker/inflight.h"
#include "broker/record.h"
#include "broker/ttl.h"

struct hb_broker {
    struct hb_broker_options options;
    struct hb_broker_events events;
    struct policy *policy;
    struct inflight inflight;
    struct ttl ttl;
    struct history history;
    struct list dead; /* the oldest first */
    mono_t now;       /* the latest seen */
    uint64_t last_id, last_token;
    bool came_to_wait; /* since the last call of events.available */

    /* Everything that is counted as it happens, what is there now included. waiting, held, in_flight
     * and history are not used. */
    struct hb_broker_stats count;
};

/* Where the end of a time to live, or of a lease, was noticed. */
#define CHECKPOINT_MAP(X)                                                   \
    X(AT_PULL, "time to live over while waiting, found by a pull")          \
    X(AT_SWEEP, "time to live over while waiting, found by the sweep")      \
    X(AT_SELECTION, "time to live over while waiting, found when selected") \
    X(AT_ACK, "time to live over before its acknowledgement")               \
    X(AT_NACK, "time to live over before its failure was told")             \
    X(AT_LEASE_END, "time to live over when its lease ran out")

enum checkpoint {
#define CHECKPOINT_ENUM(name, words) name,
    CHECKPOINT_MAP(CHECKPOINT_ENUM)
#undef CHECKPOINT_ENUM
};

/* Sets the time of this call. It begins at 0, so that the difference of two times always fits, and
 * never reaches MONO_NEVER, which stands for no end. */
static inline void broker_see(struct hb_broker *b, mono_t now)
{
    if (now > b->now)
        b->now = now < MONO_NEVER ? now : MONO_NEVER - 1;
}

/* Ends a call: tells that messages came to wait. */
void broker_leave(struct hb_broker *b);

/* A message that is nowhere comes to wait: as a new one, where it was before a pull (put_back), or
 * where the policy puts what has failed. */
void broker_place(struct hb_broker *b, struct hb_message *m);
void broker_put_back(struct hb_broker *b, struct hb_message *m);
void broker_requeue(struct hb_broker *b, struct hb_message *m);

/* Gives up what a living message has claimed: bytes, and room among the deadlines. */
void broker_unclaim(struct hb_broker *b, const struct hb_message *m);
/* FULL, NOMEM (nothing is claimed then) or OK. */
int broker_claim(struct hb_broker *b, uint64_t bytes, bool has_deadline);

/* Sweeps at most one batch of waiting messages. True when more are due. */
bool broker_sweep_ttl(struct hb_broker *b, enum checkpoint where);

/* ---- lease.c ---- */

/* Ends at most one batch of attempts whose lease has run out. True when more have. */
bool broker_sweep_leases(struct hb_broker *b);

/* Looks for the attempt that a settlement means, in the order of checks of hb_broker_ack. OK with
 * *out NULL: it was settled so before. Ends an attempt whose lease has run out. */
int broker_find_attempt(struct hb_broker *b, const struct hb_settlement *s,
                        const enum history_ending *ending, struct attempt **out);

/* Ends the attempt, remembers how, and returns its message, which is nowhere then. */
struct hb_message *broker_end_attempt(struct hb_broker *b, struct attempt *a,
                                      enum history_ending ending);

/* An attempt at this message has failed: it comes to wait again, or dies. */
void broker_fail(struct hb_broker *b, struct hb_message *m, enum checkpoint where,
                 const struct hb_bytes *why);

/* ---- dead.c ---- */

/* A message that is nowhere dies. `why` (may be NULL) is a text for people. */
void dead_by_ttl(struct hb_broker *b, struct hb_message *m, enum checkpoint where,
                 const struct hb_bytes *why);
void dead_by_failures(struct hb_broker *b, struct hb_message *m, const struct hb_bytes *why);
/* Its owner's, if it has one, and not counted as dead then. */
void dead_by_rejection(struct hb_broker *b, struct hb_message *m, const struct hb_bytes *why);

/* Whether the dead letters leave no room for submissions. */
bool dead_is_full(const struct hb_broker *b);

void dead_free(struct hb_broker *b);
const char *dead_check(const struct hb_broker *b);

#endif
