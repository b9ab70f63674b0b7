/*
 * The deliveries of one channel that are not settled, and the settlements not sent yet.
 *
 * Held deliveries are listed in the order they came. Acks are gathered; when they are sent, those
 * older than every held delivery become one ack with `multiple`, the rest go one by one. Nacks go
 * first and singly, so that the multiple ack cannot cover one of them.
 *
 * Pure: what to send is told to a function.
 */
#ifndef HARBINGER_AMQP_SETTLE_H
#define HARBINGER_AMQP_SETTLE_H

#include "base/compiler.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Outcomes. */
enum { SETTLE_FULL = 1, SETTLE_STALE = 2 };

enum settle_verdict { SETTLE_ACK, SETTLE_NACK, SETTLE_REQUEUE };

struct settle_slot {
    struct list node;
    uint64_t tag; /* 0 = free */
    enum settle_verdict verdict;
    bool held;
};

struct settle {
    struct settle_slot *slots;
    uint32_t n_slots;
    uint32_t n_held;
    uint32_t n_done; /* decided, not sent */
    bool urgent;     /* a nack is among them */
    bool covered;    /* no ack in `done` is older than every held delivery */
    struct list free, held, done;
};

/* Returns 0 or ERR_NOMEM. */
int settle_init(struct settle *s, uint32_t n_slots) MUST_CHECK;
void settle_fini(struct settle *s);
/* Forgets everything: the channel is gone. */
void settle_reset(struct settle *s);

/* A delivery came. Returns 0 with its slot, or SETTLE_FULL. */
int settle_add(struct settle *s, uint64_t tag, uint32_t *slot) MUST_CHECK;
/* Returns 0, or SETTLE_STALE when that slot does not hold that tag (any more). */
int settle_decide(struct settle *s, uint32_t slot, uint64_t tag,
                  enum settle_verdict verdict) MUST_CHECK;

struct settle_frame {
    uint64_t tag;
    bool multiple; /* acks only */
    enum settle_verdict verdict;
};

/* Takes the next frame to send. Returns 1 with *out, or 0 when all is sent. Call until 0. */
int settle_next(struct settle *s, struct settle_frame *out) MUST_CHECK;

#endif
