/*
 * Freed in a callback. An object that calls out counts how deep it is in such calls; who frees it
 * meanwhile only marks it, and the outermost call releases the memory when it comes back. So no
 * frame on the stack ever holds freed memory, and nothing waits for another turn of the loop (which
 * may never come at shutdown).
 */
#ifndef HARBINGER_AMQP_LIFE_H
#define HARBINGER_AMQP_LIFE_H

#include <stdbool.h>

struct life {
    unsigned depth;
    bool dead;
};

static inline void life_enter(struct life *l)
{
    l->depth++;
}

/* True when the caller must release the object now. */
static inline bool life_leave(struct life *l)
{
    return --l->depth == 0 && l->dead;
}

/* Marks it; true when nobody is inside, so that the caller releases it at once. */
static inline bool life_end(struct life *l)
{
    l->dead = true;
    return l->depth == 0;
}

#endif
