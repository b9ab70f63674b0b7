#include "policy/aging.h"

void aging_restart(struct aging *a, mono_t now)
{
    a->passed_at = now;
    a->next_from = 0;
}

static bool is_due(const struct levels *l, unsigned i, mono_t cut)
{
    const struct policy_msg *front = level_front(l, i);
    return front != NULL && front->placed_at <= cut;
}

/* Level i holds promoted messages, and its front has been here for the threshold. */
static bool is_behind(const struct aging *a, const struct levels *l, unsigned i)
{
    return l->level[i].n_promoted > 0 && level_front(l, i)->arrived_at <= a->cut;
}

struct promoter {
    void (*promote)(void *ctx, unsigned i, mono_t now);
    void *ctx;
    mono_t now;
};

static void pausing_pass(struct aging *a, const struct levels *l, const struct promoter *p)
{
    for (unsigned i = a->next_from; i > 0; i--)
        if (is_due(l, i, a->cut) && !is_behind(a, l, i - 1))
            p->promote(p->ctx, i, p->now);
    a->next_from = 0;
}

/* A promoted message is placed anew, later than the cut: it is not met again in the level above. */
static void plain_pass(struct aging *a, const struct levels *l, const struct promoter *p)
{
    unsigned left = a->slice;
    for (; a->next_from > 0; a->next_from--)
        for (; is_due(l, a->next_from, a->cut); left--) {
            if (left == 0)
                return;
            p->promote(p->ctx, a->next_from, p->now);
        }
}

/* The front of a level is the first of it to be due. */
static mono_t first_due_at(const struct aging *a, const struct levels *l)
{
    mono_t first = MONO_NEVER;
    for (unsigned i = 1; i < l->n; i++)
        if (!level_is_empty(l, i))
            first = mono_min(first, mono_add(level_front(l, i)->placed_at, a->threshold));
    return first;
}

/* The first pass after the latest one at which something is due. */
static mono_t next_pass_at(const struct aging *a, const struct levels *l)
{
    mono_t first = first_due_at(a, l), next = mono_add(a->passed_at, a->interval);
    if (first == MONO_NEVER || first <= next)
        return first == MONO_NEVER ? MONO_NEVER : next;
    mono_t late = (first - next) % a->interval;
    return late == 0 ? first : mono_add(first, a->interval - late);
}

mono_t aging_tick(struct aging *a, const struct levels *l, mono_t now,
                  void (*promote)(void *ctx, unsigned i, mono_t now), void *ctx)
{
    if (a->threshold == 0)
        return MONO_NEVER;
    if (a->next_from == 0) {
        mono_t due_at = next_pass_at(a, l);
        if (now < due_at)
            return due_at;
        a->passed_at = now;
        a->cut = now - a->threshold;
        a->next_from = l->n - 1;
    }
    struct promoter promoter = {promote, ctx, now};
    if (a->pause_when_behind)
        pausing_pass(a, l, &promoter);
    else
        plain_pass(a, l, &promoter);
    return a->next_from > 0 ? now : next_pass_at(a, l);
}
