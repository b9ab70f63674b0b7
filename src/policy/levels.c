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
    for (unsigned i = 0; i < n; i++) {
        list_init(&l->level[i].waiting);
        l->level[i].ready = &l->level[i].waiting;
    }
    return l;
}

int levels_first(const struct levels *l)
{
    for (unsigned w = 0; w < ARRAY_SIZE(l->servable); w++)
        if (l->servable[w] != 0)
            return (int)(w * LEVELS_WORD_BITS + (unsigned)__builtin_ctzll(l->servable[w]));
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

struct policy_msg *level_next(const struct levels *l, unsigned i)
{
    const struct level *level = &l->level[i];
    return level_is_idle(l, i) ? NULL : LIST_ENTRY(level->ready, struct policy_msg, link);
}

static bool is_promoted(const struct policy_msg *m)
{
    return m->level < m->original_level;
}

/* ---- those that can be served ---- */

static void mark(struct levels *l, unsigned i)
{
    l->servable[i / LEVELS_WORD_BITS] |= UINT64_C(1) << (i % LEVELS_WORD_BITS);
}

static void unmark_if_idle(struct levels *l, unsigned i)
{
    if (level_is_idle(l, i))
        l->servable[i / LEVELS_WORD_BITS] &= ~(UINT64_C(1) << (i % LEVELS_WORD_BITS));
}

/* A message of the level can be served. */
static void now_ready(struct levels *l, unsigned i, struct policy_msg *m)
{
    struct level *level = &l->level[i];
    if (level->ready == &level->waiting || m->place < message_at(level->ready)->place)
        level->ready = &m->link;
    mark(l, i);
}

/* The message can not be served any more, but is still in the list. */
static void not_ready(struct level *level, const struct policy_msg *m)
{
    if (level->ready != &m->link)
        return;
    level->ready = m->link.next;
    while (level->n_held > 0 && level->ready != &level->waiting && message_at(level->ready)->held)
        level->ready = level->ready->next;
}

void level_hold(struct levels *l, unsigned i, struct policy_msg *m)
{
    struct level *level = &l->level[i];
    not_ready(level, m);
    m->held = true;
    level->n_held++;
    unmark_if_idle(l, i);
}

void level_release(struct levels *l, unsigned i, struct policy_msg *m)
{
    m->held = false;
    l->level[i].n_held--;
    now_ready(l, i, m);
}

/* ---- in and out ---- */

/* Before `pos`, a node of the level's list or its head. */
static void insert(struct levels *l, unsigned i, struct list *pos, struct policy_msg *m)
{
    struct level *level = &l->level[i];
    list_insert_before(pos, &m->link);
    level->n++;
    level->n_promoted += is_promoted(m);
    level->n_held += m->held;
    l->n_waiting++;
    if (!m->held)
        now_ready(l, i, m);
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
    not_ready(level, m);
    list_remove(&m->link);
    level->n--;
    level->n_promoted -= is_promoted(m);
    level->n_held -= m->held;
    l->n_waiting--;
    unmark_if_idle(l, i);
}

static const char *check_level(const struct levels *l, unsigned i)
{
    const struct level *level = &l->level[i];
    const struct policy_msg *before = NULL;
    const struct list *ready = &level->waiting;
    size_t n = 0, n_promoted = 0, n_held = 0;
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
        n_held += m->held;
        if (!m->held && ready == &level->waiting)
            ready = node;
    }
    if (n != level->n)
        return "a level miscounts its messages";
    if (n_promoted != level->n_promoted)
        return "a level miscounts its promoted messages";
    if (n_held != level->n_held)
        return "a level miscounts those held back";
    if (ready != level->ready)
        return "a level would serve another message than its first";
    bool marked = (l->servable[i / LEVELS_WORD_BITS] >> (i % LEVELS_WORD_BITS) & 1) != 0;
    return marked == (n > n_held) ? NULL : "the bitmap of servable levels is wrong";
}

const char *levels_check(const struct levels *l)
{
    const char *broken = NULL;
    size_t n = 0;
    for (unsigned i = 0; i < l->n && broken == NULL; i++) {
        broken = check_level(l, i);
        n += l->level[i].n;
    }
    return broken == NULL && n != l->n_waiting ? "the levels miscount their messages" : broken;
}
