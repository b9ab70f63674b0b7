#include "broker/history.h"

#include <stdlib.h>

/* Tokens are the broker's own counter, so nobody can prepare colliding ones: a multiplication is
 * hash enough (Knuth 6.4). Neighbours share a cache line, as they come and go together. */
enum { NEIGHBOUR_BITS = 4 };

static uint32_t *bucket(const struct history *h, uint64_t token)
{
    uint64_t hash = (token >> NEIGHBOUR_BITS) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t line = hash >> (64 + NEIGHBOUR_BITS - h->bucket_bits);
    uint64_t in_line = token & ((1U << NEIGHBOUR_BITS) - 1);
    return &h->buckets[(line << NEIGHBOUR_BITS) + in_line];
}

bool history_init(struct history *h, uint32_t capacity, mono_t kept_for)
{
    *h = (struct history){.capacity = capacity, .kept_for = kept_for};
    h->bucket_bits = NEIGHBOUR_BITS + 1;
    while (UINT32_C(1) << h->bucket_bits < capacity)
        h->bucket_bits++;
    h->ring = calloc(capacity, sizeof h->ring[0]);
    h->buckets = calloc((size_t)1 << h->bucket_bits, sizeof h->buckets[0]);
    if (h->ring != NULL && h->buckets != NULL)
        return true;
    history_fini(h);
    return false;
}

void history_fini(struct history *h)
{
    free(h->ring);
    free(h->buckets);
    *h = (struct history){0};
}

/* The oldest entry is the last of its chain, since newer ones come in front. */
static void forget_oldest(struct history *h)
{
    uint32_t *link = bucket(h, h->ring[h->first].token);
    while (*link != h->first + 1)
        link = &h->ring[*link - 1].next;
    *link = 0;
    h->first = h->first + 1 == h->capacity ? 0 : h->first + 1;
    h->n--;
}

static bool too_old(const struct history *h, const struct history_entry *e, mono_t now)
{
    return now >= mono_add(e->ended_at, h->kept_for);
}

void history_prune(struct history *h, mono_t now, uint32_t limit)
{
    for (; limit > 0 && h->n > 0 && too_old(h, &h->ring[h->first], now); limit--)
        forget_oldest(h);
}

void history_add(struct history *h, const struct history_entry *e)
{
    if (h->n == h->capacity)
        forget_oldest(h);
    uint32_t left = h->capacity - h->first;
    uint32_t place = h->n < left ? h->first + h->n : h->n - left;
    uint32_t *b = bucket(h, e->token);
    h->ring[place] = *e;
    h->ring[place].next = *b;
    *b = place + 1;
    h->n++;
}

/* Entries lie in order of time: when one is too old, so are all before it, and they go first. */
const struct history_entry *history_find(struct history *h, uint64_t token, mono_t now)
{
    uint32_t i = *bucket(h, token);
    while (i != 0 && h->ring[i - 1].token != token)
        i = h->ring[i - 1].next;
    if (i == 0)
        return NULL;
    if (!too_old(h, &h->ring[i - 1], now))
        return &h->ring[i - 1];
    enum { A_FEW = 16 };
    history_prune(h, now, A_FEW);
    return NULL;
}

static bool is_found(const struct history *h, uint32_t place)
{
    uint32_t i = *bucket(h, h->ring[place].token);
    while (i != 0 && i != place + 1)
        i = h->ring[i - 1].next;
    return i != 0;
}

const char *history_check(const struct history *h)
{
    if (h->n > h->capacity || h->first >= h->capacity)
        return "the history is larger than its ring";
    mono_t before = INT64_MIN;
    for (uint32_t k = 0; k < h->n; k++) {
        uint32_t place = (uint32_t)(((uint64_t)h->first + k) % h->capacity);
        if (h->ring[place].ended_at < before)
            return "the history is not in order of time";
        if (!is_found(h, place))
            return "a remembered settlement is not found by its token";
        before = h->ring[place].ended_at;
    }
    return NULL;
}
