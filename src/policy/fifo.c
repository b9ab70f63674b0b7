/* First come, first served: a single list, in which a message keeps the level that it was given. */
#include "policy/levels.h"
#include "policy/policy_impl.h"

#include <stdlib.h>

struct fifo {
    struct policy policy;
    struct levels *one;
};

static struct levels *list_of(const struct policy *p)
{
    return ((const struct fifo *)p)->one;
}

static void fifo_free(struct policy *p)
{
    struct fifo *f = CONTAINER_OF(p, struct fifo, policy);
    free(f->one);
    free(f);
}

static void fifo_place(struct policy *p, struct policy_msg *m, mono_t now)
{
    level_place(list_of(p), 0, m, now);
}

static struct policy_msg *fifo_next(struct policy *p, mono_t now)
{
    struct policy_msg *m = level_next(list_of(p), 0);
    if (m != NULL)
        level_take(list_of(p), 0, m);
    return m;
}

static void fifo_put_back(struct policy *p, struct policy_msg *m)
{
    level_put_back(list_of(p), 0, m);
}

static void fifo_remove(struct policy *p, struct policy_msg *m)
{
    level_take(list_of(p), 0, m);
}

static void fifo_hold(struct policy *p, struct policy_msg *m)
{
    level_hold(list_of(p), 0, m);
}

static void fifo_release(struct policy *p, struct policy_msg *m)
{
    level_release(list_of(p), 0, m);
}

static struct policy_msg *fifo_any(const struct policy *p)
{
    return level_front(list_of(p), 0);
}

static const char *fifo_check(const struct policy *p)
{
    const struct levels *l = list_of(p);
    if (l->level[0].n != p->n_waiting)
        return "the policy miscounts its waiting messages";
    return levels_check(l);
}

static const struct policy_ops fifo_ops = {
    .name = "fifo",
    .free = fifo_free,
    .place = fifo_place,
    .next = fifo_next,
    .put_back = fifo_put_back,
    .requeue = fifo_place,
    .remove = fifo_remove,
    .hold = fifo_hold,
    .release = fifo_release,
    .any = fifo_any,
    .check = fifo_check,
};

struct policy *policy_fifo_new(void)
{
    struct fifo *f = calloc(1, sizeof *f);
    struct levels *one = levels_new(1);
    if (f == NULL || one == NULL) {
        free(f);
        free(one);
        return NULL;
    }
    *f = (struct fifo){.policy.ops = &fifo_ops, .one = one};
    return &f->policy;
}
