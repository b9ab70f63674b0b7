/*
 * The deliveries that are not settled: found by message id, and those with a lease in the order in
 * which it ends. All leases are equally long, so that order is a list: a new or extended one goes to
 * its end.
 */
#ifndef HARBINGER_BROKER_INFLIGHT_H
#define HARBINGER_BROKER_INFLIGHT_H

#include "broker/record.h"

struct attempt {
    struct list link;     /* in order of deadlines, or unleased; while free, unused */
    struct attempt *next; /* in its bucket or among the free ones */
    struct hb_message *m;
    uint64_t id, consumer, token;
    mono_t pulled_at, deadline; /* MONO_NEVER: no limit */
};

struct inflight {
    struct list by_deadline; /* those with a deadline */
    struct list unleased;    /* the others */
    struct attempt **buckets;
    unsigned bucket_bits;
    size_t n;
    struct attempt *unused;
    struct attempt_slab *slabs;
    uint64_t seed;
};

/* The seed spreads ids over the buckets. False when memory is short. */
bool inflight_init(struct inflight *f, uint64_t seed) MUST_CHECK;
/* Frees no messages. */
void inflight_fini(struct inflight *f);

/* After true the next inflight_add cannot fail. */
bool inflight_reserve(struct inflight *f) MUST_CHECK;

/* The new attempt, with message, id and deadline, which is none or the last one; the caller fills in
 * the rest. */
struct attempt *inflight_add(struct inflight *f, struct hb_message *m, mono_t deadline);

/* NULL when the message is not in flight. */
struct attempt *inflight_find(const struct inflight *f, uint64_t id);

/* The attempt is over; its memory will be used again. */
void inflight_remove(struct inflight *f, struct attempt *a);

/* The attempt's deadline, which it has, becomes this one, the last. */
void inflight_renew(struct inflight *f, struct attempt *a, mono_t deadline);

/* The attempt whose lease ends first; NULL when none has a lease. */
static inline struct attempt *inflight_first(struct inflight *f)
{
    return list_empty(&f->by_deadline) ? NULL
                                       : LIST_ENTRY(f->by_deadline.next, struct attempt, link);
}

/* Any one of them; NULL when nothing is in flight. */
struct attempt *inflight_any(struct inflight *f);

const char *inflight_check(const struct inflight *f);

#endif
