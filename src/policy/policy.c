#include "policy/policy.h"

#include "policy/policy_impl.h"

#include <assert.h>

void policy_free(struct policy *p)
{
    if (p != NULL)
        p->ops->free(p);
}

const char *policy_name(const struct policy *p)
{
    return p->ops->name;
}

size_t policy_waiting(const struct policy *p)
{
    return p->n_waiting;
}

size_t policy_held(const struct policy *p)
{
    return p->n_held;
}

void policy_place(struct policy *p, struct policy_msg *m, mono_t now)
{
    m->level = m->original_level;
    m->held = false;
    p->ops->place(p, m, now);
    p->n_waiting++;
}

struct policy_msg *policy_next(struct policy *p, mono_t now)
{
    struct policy_msg *m = p->ops->next(p, now);
    if (m != NULL)
        p->n_waiting--;
    return m;
}

void policy_put_back(struct policy *p, struct policy_msg *m)
{
    p->ops->put_back(p, m);
    p->n_waiting++;
}

void policy_requeue(struct policy *p, struct policy_msg *m, mono_t now)
{
    m->level = m->original_level;
    p->ops->requeue(p, m, now);
    p->n_waiting++;
}

void policy_remove(struct policy *p, struct policy_msg *m)
{
    assert(p->n_waiting > 0);
    p->ops->remove(p, m);
    p->n_waiting--;
    p->n_held -= m->held;
    m->held = false;
}

void policy_hold(struct policy *p, struct policy_msg *m)
{
    if (m->held)
        return;
    p->ops->hold(p, m);
    p->n_held++;
}

void policy_release(struct policy *p, struct policy_msg *m)
{
    if (!m->held)
        return;
    p->ops->release(p, m);
    p->n_held--;
}

struct policy_msg *policy_any(const struct policy *p)
{
    return p->ops->any(p);
}

void policy_done(struct policy *p, struct policy_msg *m, double duration_ms)
{
    if (p->ops->done != NULL)
        p->ops->done(p, m, duration_ms);
}

mono_t policy_tick(struct policy *p, mono_t now)
{
    return p->ops->tick != NULL ? p->ops->tick(p, now) : MONO_NEVER;
}

void policy_level_stats(const struct policy *p, unsigned level, struct policy_level_stats *out)
{
    *out = (struct policy_level_stats){0};
    if (p->ops->level_stats != NULL)
        p->ops->level_stats(p, level, out);
}

const char *policy_check(const struct policy *p)
{
    return p->ops->check(p);
}
