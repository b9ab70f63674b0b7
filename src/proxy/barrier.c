#include "proxy/barrier.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 4 };

void barrier_fini(struct barrier *b)
{
    free(b->v);
    *b = (struct barrier){0};
}

/* In the order of acks: one that needs nothing itself still waits for those before it. */
bool barrier_holds(const struct barrier *b)
{
    return b->published || b->n > 0;
}

static int make_room(struct barrier *b)
{
    if (b->first + b->n < b->cap)
        return 0;
    if (b->n <= b->cap / 2 && b->cap > 0) {
        memmove(b->v, b->v + b->first, b->n * sizeof *b->v);
        b->first = 0;
        return 0;
    }
    size_t cap = b->cap > 0 ? 2 * b->cap : FIRST_CAP;
    struct barrier_held *v = realloc(b->v, cap * sizeof *v);
    if (v == NULL)
        return ERR_NOMEM;
    b->v = v;
    b->cap = cap;
    return 0;
}

int barrier_hold(struct barrier *b, const struct barrier_held *held)
{
    int r = make_room(b);
    if (r < 0)
        return r;
    b->v[b->first + b->n++] = *held;
    /* Nothing published since the flow was sent: it covers this one too. */
    if (b->under_way && !b->published)
        b->n_covered = b->n;
    return 0;
}

bool barrier_wants_flow(const struct barrier *b)
{
    return !b->under_way && b->n > b->n_covered;
}

void barrier_flow_sent(struct barrier *b)
{
    b->under_way = true;
    b->published = false;
    b->others = b->theirs;
    b->n_covered = b->n;
}

void barrier_flow_of_client(struct barrier *b)
{
    b->theirs++;
}

bool barrier_flow_ok(struct barrier *b)
{
    if (b->under_way && b->others == 0) {
        b->under_way = false;
        return true;
    }
    b->others -= b->others > 0;
    b->theirs -= b->theirs > 0;
    return false;
}

bool barrier_next(struct barrier *b, struct barrier_held *out)
{
    if (b->under_way || b->n_covered == 0)
        return false;
    *out = b->v[b->first++];
    b->n_covered--;
    if (--b->n == 0)
        b->first = 0;
    return true;
}

void barrier_open(struct barrier *b)
{
    b->under_way = false;
    b->published = false;
    b->n_covered = b->n;
}
