#include "proxy/tags.h"

#include "base/err.h"

#include <stdlib.h>

enum { FIRST_CAP = 4 };

void tags_fini(struct tags *t)
{
    free(t->v);
    *t = (struct tags){0};
}

static void compact(struct tags *t)
{
    size_t n = 0;
    for (size_t i = t->first; i < t->end; i++)
        if (t->v[i].kind != TAG_GONE)
            t->v[n++] = t->v[i];
    t->first = 0;
    t->end = n;
}

/* Room at the end: at least half of the memory is free after it, so that the next time is far. */
static int make_room(struct tags *t)
{
    if (t->end < t->cap)
        return 0;
    if (t->n_live == TAGS_MAX)
        return ERR_INVALID;
    if (t->n_live > t->cap / 2 || t->cap == 0) {
        size_t cap = t->cap > 0 ? 2 * t->cap : FIRST_CAP;
        struct tag *v = realloc(t->v, cap * sizeof *v);
        if (v == NULL)
            return ERR_NOMEM;
        t->v = v;
        t->cap = cap;
    }
    compact(t);
    return 0;
}

int tags_append(struct tags *t, const struct tag *new)
{
    int r = make_room(t);
    if (r < 0)
        return r;
    t->v[t->end++] = *new;
    t->n_live++;
    return 0;
}

/* The first index whose tag is not below `client`. Most channels have no gaps: then it is where it
 * would be counted from the first, and never behind that. */
static size_t place_of(const struct tags *t, uint64_t client)
{
    size_t low = t->first, high = t->end;
    if (low == high || client <= t->v[low].client)
        return low;
    uint64_t counted = client - t->v[low].client;
    if (counted < high - low) {
        high = low + (size_t)counted;
        if (t->v[high].client == client)
            return high;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->v[middle].client < client)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_unsettled(const struct tag *tag)
{
    return tag->kind == TAG_OURS || tag->kind == TAG_UPSTREAM;
}

struct tag *tags_find(struct tags *t, uint64_t client)
{
    size_t i = place_of(t, client);
    bool found = i < t->end && t->v[i].client == client && is_unsettled(&t->v[i]);
    return found ? &t->v[i] : NULL;
}

struct tag *tags_from(struct tags *t, uint64_t client)
{
    for (size_t i = place_of(t, client); i < t->end; i++)
        if (is_unsettled(&t->v[i]))
            return &t->v[i];
    return NULL;
}

struct tag *tags_returned_from(struct tags *t, uint64_t client)
{
    for (size_t i = place_of(t, client); i < t->end; i++)
        if (t->v[i].kind == TAG_RETURNED)
            return &t->v[i];
    return NULL;
}

struct tag *tags_oldest(struct tags *t)
{
    return t->n_live > 0 ? &t->v[t->first] : NULL;
}

struct tag *tags_newest(struct tags *t)
{
    return t->n_live > 0 ? &t->v[t->end - 1] : NULL;
}

struct tag *tags_newest_of(struct tags *t, enum tag_kind kind, uint64_t client)
{
    size_t i = place_of(t, client);
    if (i < t->end && t->v[i].client == client)
        i++;
    while (i > t->first)
        if (t->v[--i].kind == kind)
            return &t->v[i];
    return NULL;
}

void tags_remove(struct tags *t, struct tag *tag)
{
    tag->kind = TAG_GONE;
    if (--t->n_live == 0) {
        t->first = t->end = 0;
        return;
    }
    while (t->v[t->first].kind == TAG_GONE)
        t->first++;
    while (t->v[t->end - 1].kind == TAG_GONE)
        t->end--;
}
