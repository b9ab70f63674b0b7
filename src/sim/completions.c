#include "sim/completions.h"

#include <stdlib.h>

bool completions_init(struct completions *c, uint32_t room)
{
    *c = (struct completions){.heap = malloc(room * sizeof c->heap[0])};
    return c->heap != NULL;
}

void completions_fini(struct completions *c)
{
    free(c->heap);
    *c = (struct completions){0};
}

static bool before(const struct completion *a, const struct completion *b)
{
    return a->at < b->at || (a->at == b->at && a->start < b->start);
}

/* x comes to place i, or above. */
static void rise(struct completions *c, uint32_t i, struct completion x)
{
    for (; i > 0 && before(&x, &c->heap[(i - 1) / 2]); i = (i - 1) / 2)
        c->heap[i] = c->heap[(i - 1) / 2];
    c->heap[i] = x;
}

void completions_push(struct completions *c, struct completion x)
{
    rise(c, c->n++, x);
}

/* The hole at the top goes all the way down, and the last one rises from there: it mostly belongs far
 * down, so comparing it on the way would be for nothing. */
struct completion completions_pop(struct completions *c)
{
    struct completion first = c->heap[0], last = c->heap[--c->n];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < c->n; i = child) {
        if (child + 1 < c->n && before(&c->heap[child + 1], &c->heap[child]))
            child++;
        c->heap[i] = c->heap[child];
    }
    rise(c, i, last);
    return first;
}
