/*
 * Life cycles as tables: one row per state with its name and the states that may follow. One
 * function moves, so every change is checked in one place, and an illegal move is our bug, not an
 * input.
 */
#ifndef HARBINGER_BASE_SM_H
#define HARBINGER_BASE_SM_H

#include <assert.h>
#include <stdint.h>

struct sm_state {
    const char *name;
    uint32_t next; /* bit i set: state i may follow */
};

#define SM_TO(state) (UINT32_C(1) << (state))

struct sm {
    const struct sm_state *table;
    unsigned state;
};

static inline void sm_init(struct sm *sm, const struct sm_state *table, unsigned first)
{
    sm->table = table;
    sm->state = first;
}

static inline void sm_move(struct sm *sm, unsigned to)
{
    assert((sm->table[sm->state].next & SM_TO(to)) != 0);
    sm->state = to;
}

static inline const char *sm_name(const struct sm *sm)
{
    return sm->table[sm->state].name;
}

#endif
