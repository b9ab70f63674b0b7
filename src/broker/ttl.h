/*
 * The deadlines of waiting messages: a heap with four children per node, the earliest on top, equal
 * ones by age. Room for a message is reserved when it is taken in and kept while it lives, so that
 * coming back from a failed delivery never needs memory.
 */
#ifndef HARBINGER_BROKER_TTL_H
#define HARBINGER_BROKER_TTL_H

#include "broker/record.h"

struct ttl_entry {
    mono_t expires_at;
    struct hb_message *m;
};

struct ttl {
    struct ttl_entry *heap;
    size_t n, capacity;
    size_t reserved; /* living messages with a deadline, waiting or in flight */
};

void ttl_fini(struct ttl *t);

/* Room for one more message. False when memory is short. */
bool ttl_reserve(struct ttl *t) MUST_CHECK;
/* Gives up the room of one message that is not in the heap. */
void ttl_release(struct ttl *t);

/* Neither does anything for a message that lives for ever; remove nothing for one not in the heap.
 */
void ttl_add(struct ttl *t, struct hb_message *m);
void ttl_remove(struct ttl *t, struct hb_message *m);

/* The message with the earliest deadline if that has come, else NULL. */
static inline struct hb_message *ttl_due(const struct ttl *t, mono_t now)
{
    return t->n > 0 && t->heap[0].expires_at <= now ? t->heap[0].m : NULL;
}

/* MONO_NEVER when there is none. */
static inline mono_t ttl_next(const struct ttl *t)
{
    return t->n > 0 ? t->heap[0].expires_at : MONO_NEVER;
}

const char *ttl_check(const struct ttl *t);

#endif
