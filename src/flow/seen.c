#include "flow/seen.h"

#include <assert.h>
#include <stdlib.h>

/* A ring of the values in order of arrival, and a table of ring positions, open addressing with
 * linear probing, at most half full. 0 in the table means empty, else position + 1. */
struct seen {
    size_t capacity, n, next;
    uint32_t mask;
    uint32_t *table;
    uint64_t *ring;
};

struct seen *seen_new(size_t capacity)
{
    assert(capacity <= UINT32_C(1) << 27);
    struct seen *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    uint32_t slots = 2;
    while (slots < 2 * capacity)
        slots *= 2;
    s->capacity = capacity;
    s->mask = slots - 1;
    s->table = calloc(slots, sizeof s->table[0]);
    s->ring = calloc(capacity + 1, sizeof s->ring[0]);
    if (s->table == NULL || s->ring == NULL) {
        seen_free(s);
        return NULL;
    }
    return s;
}

void seen_free(struct seen *s)
{
    if (s == NULL)
        return;
    free(s->table);
    free(s->ring);
    free(s);
}

/* The slot that holds `value`, or the empty one where it belongs. */
static uint32_t find_slot(const struct seen *s, uint64_t value)
{
    uint32_t i = (uint32_t)value & s->mask;
    while (s->table[i] != 0 && s->ring[s->table[i] - 1] != value)
        i = (i + 1) & s->mask;
    return i;
}

/* Empties a slot and moves later entries of its run up, so that no run is cut (Knuth 6.4, algorithm
 * R). */
static void clear_slot(struct seen *s, uint32_t hole)
{
    for (uint32_t i = (hole + 1) & s->mask; s->table[i] != 0; i = (i + 1) & s->mask) {
        uint32_t home = (uint32_t)s->ring[s->table[i] - 1] & s->mask;
        bool reaches_hole = ((i - home) & s->mask) >= ((i - hole) & s->mask);
        if (reaches_hole) {
            s->table[hole] = s->table[i];
            hole = i;
        }
    }
    s->table[hole] = 0;
}

bool seen_add(struct seen *s, uint64_t value)
{
    if (s->capacity == 0)
        return false;
    if (s->table[find_slot(s, value)] != 0)
        return true;
    if (s->n == s->capacity)
        clear_slot(s, find_slot(s, s->ring[s->next]));
    else
        s->n++;
    s->ring[s->next] = value;
    s->table[find_slot(s, value)] = (uint32_t)s->next + 1;
    s->next = (s->next + 1) % s->capacity;
    return false;
}

size_t seen_count(const struct seen *s)
{
    return s->n;
}
