#include "broker/ttl.h"

#include <assert.h>
#include <stdlib.h>

enum { ARITY = 4, FIRST_CAPACITY = 64 };

void ttl_fini(struct ttl *t)
{
    free(t->heap);
    *t = (struct ttl){0};
}

bool ttl_reserve(struct ttl *t)
{
    if (t->reserved == t->capacity) {
        size_t capacity = t->capacity > 0 ? 2 * t->capacity : FIRST_CAPACITY;
        if (capacity > UINT32_MAX)
            return false;
        struct ttl_entry *heap = realloc(t->heap, capacity * sizeof *heap);
        if (heap == NULL)
            return false;
        t->heap = heap;
        t->capacity = capacity;
    }
    t->reserved++;
    return true;
}

void ttl_release(struct ttl *t)
{
    assert(t->reserved > t->n);
    t->reserved--;
}

static bool before(const struct ttl_entry *a, const struct ttl_entry *b)
{
    return a->expires_at < b->expires_at || (a->expires_at == b->expires_at && a->m->id < b->m->id);
}

static void set(struct ttl *t, size_t i, struct ttl_entry e)
{
    t->heap[i] = e;
    e.m->ttl_slot = (uint32_t)i + 1;
}

static void sift_up(struct ttl *t, size_t i, struct ttl_entry e)
{
    while (i > 0 && before(&e, &t->heap[(i - 1) / ARITY])) {
        set(t, i, t->heap[(i - 1) / ARITY]);
        i = (i - 1) / ARITY;
    }
    set(t, i, e);
}

/* The earliest child of i; n when it has none. */
static size_t least_child(const struct ttl *t, size_t i)
{
    size_t first = ARITY * i + 1, least = first;
    if (first >= t->n)
        return t->n;
    for (size_t c = first + 1; c < first + ARITY && c < t->n; c++)
        if (before(&t->heap[c], &t->heap[least]))
            least = c;
    return least;
}

static void sift_down(struct ttl *t, size_t i, struct ttl_entry e)
{
    size_t child = least_child(t, i);
    while (child < t->n && before(&t->heap[child], &e)) {
        set(t, i, t->heap[child]);
        i = child;
        child = least_child(t, i);
    }
    set(t, i, e);
}

void ttl_add(struct ttl *t, struct hb_message *m)
{
    if (m->expires_at == MONO_NEVER)
        return;
    assert(t->n < t->reserved);
    t->n++;
    sift_up(t, t->n - 1, (struct ttl_entry){m->expires_at, m});
}

void ttl_remove(struct ttl *t, struct hb_message *m)
{
    if (m->ttl_slot == 0)
        return;
    size_t i = m->ttl_slot - 1;
    struct ttl_entry last = t->heap[--t->n];
    m->ttl_slot = 0;
    if (i == t->n)
        return;
    if (i > 0 && before(&last, &t->heap[(i - 1) / ARITY]))
        sift_up(t, i, last);
    else
        sift_down(t, i, last);
}

const char *ttl_check(const struct ttl *t)
{
    if (t->n > t->reserved || t->reserved > t->capacity)
        return "the heap of deadlines has no room for its messages";
    for (size_t i = 0; i < t->n; i++) {
        const struct ttl_entry *e = &t->heap[i];
        if (e->m->ttl_slot != i + 1 || e->m->expires_at != e->expires_at)
            return "a message does not know its place among the deadlines";
        if (e->m->state != RECORD_WAITING)
            return "a message that does not wait is among the deadlines";
        if (i > 0 && before(e, &t->heap[(i - 1) / ARITY]))
            return "the deadlines are out of order";
    }
    return NULL;
}
