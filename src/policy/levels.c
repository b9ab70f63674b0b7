#include "policy/levels.h"

#include <assert.h>
#include <stdlib.h>

struct levels *levels_new(unsigned n)
{
    assert(n >= 1 && n <= LEVELS_MAX);
    struct levels *l = calloc(1, sizeof *l + n * sizeof l->level[0]);
    if (l == NULL)
        return NULL;
    l->n = n;
    for (unsigned i = 0; i < n; i++)
        list_init(&l->level[i].waiting);
    return l;
}

int levels_first(const struct levels *l)
{
    for (unsigned w = 0; w < ARRAY_SIZE(l->occupied); w++)
        if (l->occupied[w] != 0)
            return (int)(w * LEVELS_WORD_BITS + (unsigned)__builtin_ctzll(l->occupied[w]));
    return -1;
}

/* The link is the first member; LIST_ENTRY would cast the const away. */
static const struct policy_msg *message_at(const struct list *node)
{
    return (const struct policy_msg *)node;
}

struct policy_msg *level_front(const struct levels *l, unsigned i)
{
    const struct level *level = &l->level[i];
    return level->n == 0 ? NULL : LIST_ENTRY(level->waiting.next, struct policy_msg, link);
}

static bool is_promoted(const struct policy_msg *m)
{
    return m->level < m->original_level;
}

/* Before `pos`, a node of the level's list or its head. */
static void insert(struct levels *l, unsigned i, struct list *pos, struct policy_msg *m)
{
    struct level *level = &l->level[i];
    list_insert_before(pos, &m->link);
    level->n++;
    level->n_promoted += is_promoted(m);
    l->occupied[i / LEVELS_WORD_BITS] |= UINT64_C(1) << (i % LEVELS_WORD_BITS);
}

void level_place(struct levels *l, unsigned i, struct policy_msg *m, mono_t now)
{
    assert(i < l->n);
    m->placed_at = now;
    m->place = ++l->n_placed;
    insert(l, i, &l->level[i].waiting, m);
}

void level_put_back(struct levels *l, unsigned i, struct policy_msg *m)
{
    struct list *head = &l->level[i].waiting, *pos = head->next;
    while (pos != head && message_at(pos)->place < m->place)
        pos = pos->next;
    insert(l, i, pos, m);
}

/* In a deep queue each message is a cache miss when its turn comes. `next` itself is touched by the
 * unlinking: what embeds it lies behind it and will be wanted, and so will the one after it. */
static void prefetch(const struct list *next)
{
    const char *record = (const char *)next;
    __builtin_prefetch(record + sizeof(struct policy_msg));
    __builtin_prefetch(record + 2 * sizeof(struct policy_msg));
    __builtin_prefetch(next->next, 1);
}

void level_take(struct levels *l, unsigned i, struct policy_msg *m)
{
    struct level *level = &l->level[i];
    assert(level->n > 0);
    prefetch(m->link.next);
    list_remove(&m->link);
    level->n--;
    level->n_promoted -= is_promoted(m);
    if (level->n == 0)
        l->occupied[i / LEVELS_WORD_BITS] &= ~(UINT64_C(1) << (i % LEVELS_WORD_BITS));
}

static const char *check_level(const struct levels *l, unsigned i)
{
    const struct level *level = &l->level[i];
    const struct policy_msg *before = NULL;
    size_t n = 0, n_promoted = 0;
    for (const struct list *node = level->waiting.next; node != &level->waiting;
         node = node->next) {
        const struct policy_msg *m = message_at(node);
        if (before != NULL && before->place >= m->place)
            return "a level is not in the order of its placements";
        if (before != NULL && before->placed_at > m->placed_at)
            return "a later placement has an earlier time";
        if (m->place > l->n_placed)
            return "a message has a place that was never given";
        before = m;
        n++;
        n_promoted += is_promoted(m);
    }
    if (n != level->n)
        return "a level miscounts its messages";
    if (n_promoted != level->n_promoted)
        return "a level miscounts its promoted messages";
    bool marked = (l->occupied[i / LEVELS_WORD_BITS] >> (i % LEVELS_WORD_BITS) & 1) != 0;
    return marked == (n > 0) ? NULL : "the bitmap of occupied levels is wrong";
}

const char *levels_check(const struct levels *l)
{
    const char *broken = NULL;
    for (unsigned i = 0; i < l->n && broken == NULL; i++)
        broken = check_level(l, i);
    return broken;
}
