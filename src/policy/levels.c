/*
 * Strict levels: one first-in-first-out list per level and a bitmap of the levels that hold
 * something, so that every operation is O(1). FIFO is the same thing with all messages in one list.
 */
#include "policy/policy_impl.h"

#include <assert.h>
#include <stdlib.h>

#define MAX_LEVELS 256
#define WORD_BITS  64

struct levels {
    struct policy policy;
    unsigned n_levels;
    uint64_t occupied[MAX_LEVELS / WORD_BITS];
    struct list level[];
};

/* In a FIFO the message keeps the level it was given, but all levels share the one list. */
static unsigned list_index(const struct levels *l, const struct policy_msg *m)
{
    return l->n_levels == 1 ? 0 : m->level;
}

static void mark_occupied(struct levels *l, unsigned i)
{
    l->occupied[i / WORD_BITS] |= UINT64_C(1) << (i % WORD_BITS);
}

static void unlink_msg(struct levels *l, struct policy_msg *m)
{
    unsigned i = list_index(l, m);
    list_remove(&m->link);
    if (list_empty(&l->level[i]))
        l->occupied[i / WORD_BITS] &= ~(UINT64_C(1) << (i % WORD_BITS));
}

static void levels_free(struct policy *p)
{
    free(CONTAINER_OF(p, struct levels, policy));
}

static void levels_place(struct policy *p, struct policy_msg *m, mono_t now)
{
    struct levels *l = CONTAINER_OF(p, struct levels, policy);
    unsigned i = list_index(l, m);
    assert(i < l->n_levels);
    list_push_back(&l->level[i], &m->link);
    mark_occupied(l, i);
}

static struct policy_msg *levels_next(struct policy *p, mono_t now)
{
    struct levels *l = CONTAINER_OF(p, struct levels, policy);
    for (unsigned w = 0; w < MAX_LEVELS / WORD_BITS; w++) {
        if (l->occupied[w] == 0)
            continue;
        unsigned i = w * WORD_BITS + (unsigned)__builtin_ctzll(l->occupied[w]);
        struct policy_msg *m = LIST_ENTRY(list_first(&l->level[i]), struct policy_msg, link);
        unlink_msg(l, m);
        return m;
    }
    return NULL;
}

static void levels_put_back(struct policy *p, struct policy_msg *m)
{
    struct levels *l = CONTAINER_OF(p, struct levels, policy);
    unsigned i = list_index(l, m);
    list_push_front(&l->level[i], &m->link);
    mark_occupied(l, i);
}

static void levels_remove(struct policy *p, struct policy_msg *m)
{
    unlink_msg(CONTAINER_OF(p, struct levels, policy), m);
}

/* The two differ in the name and the number of lists. */
#define LEVELS_OPS(policy_name)                                                               \
    {                                                                                         \
        .name = policy_name, .free = levels_free, .place = levels_place, .next = levels_next, \
        .put_back = levels_put_back, .requeue = levels_place, .remove = levels_remove,        \
    }

static const struct policy_ops levels_ops = LEVELS_OPS("levels");
static const struct policy_ops fifo_ops = LEVELS_OPS("fifo");

static struct policy *levels_new(const struct policy_ops *ops, unsigned n_levels)
{
    struct levels *l = calloc(1, sizeof *l + n_levels * sizeof l->level[0]);
    if (l == NULL)
        return NULL;
    l->policy.ops = ops;
    l->n_levels = n_levels;
    for (unsigned i = 0; i < n_levels; i++)
        list_init(&l->level[i]);
    return &l->policy;
}

struct policy *policy_levels_new(unsigned n_levels)
{
    assert(n_levels >= 1 && n_levels < MAX_LEVELS);
    return levels_new(&levels_ops, n_levels);
}

struct policy *policy_fifo_new(void)
{
    return levels_new(&fifo_ops, 1);
}
