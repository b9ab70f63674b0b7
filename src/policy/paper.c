/*
 * The paper's order: which level is served is strict or by weights (shares), who climbs is aging's
 * business, and levels keep each list in order. Here they meet.
 */
#include "policy/aging.h"
#include "policy/policy_impl.h"
#include "policy/shares.h"

#include <assert.h>
#include <stdlib.h>

struct paper {
    struct policy policy;
    struct levels *levels;
    struct aging aging;
    struct shares *shares; /* NULL: strict */
    struct {
        uint64_t pulls, promotions;
    } count[LEVELS_MAX];
};

static struct paper *paper_of(struct policy *p)
{
    return CONTAINER_OF(p, struct paper, policy);
}

/* The policy is the first member; the macro would cast the const away. */
static const struct paper *const_paper(const struct policy *p)
{
    return (const struct paper *)p;
}

static void paper_free(struct policy *policy)
{
    struct paper *p = paper_of(policy);
    free(p->levels);
    free(p->shares);
    free(p);
}

static void wake(struct paper *p, unsigned i)
{
    if (p->shares != NULL && level_is_idle(p->levels, i))
        shares_wake(p->shares, i);
}

static void place(struct paper *p, struct policy_msg *m, mono_t now)
{
    if (!m->held)
        wake(p, m->level);
    level_place(p->levels, m->level, m, now);
}

static void paper_place(struct policy *p, struct policy_msg *m, mono_t now)
{
    place(paper_of(p), m, now);
}

static struct policy_msg *paper_next(struct policy *policy, mono_t now)
{
    struct paper *p = paper_of(policy);
    int i = p->shares != NULL ? shares_least(p->shares, p->levels) : levels_first(p->levels);
    struct policy_msg *m = NULL;
    if (i >= 0) {
        m = level_next(p->levels, (unsigned)i);
        if (p->shares != NULL)
            shares_charge(p->shares, (unsigned)i, m);
        level_take(p->levels, (unsigned)i, m);
        p->count[i].pulls++;
    }
    if (p->levels->n_waiting == 0)
        aging_restart(&p->aging, now);
    return m;
}

/* The refund comes before the wake: a level that nobody else has used in between gets its very
 * clock back. */
static void paper_put_back(struct policy *policy, struct policy_msg *m)
{
    struct paper *p = paper_of(policy);
    if (p->shares != NULL)
        shares_refund(p->shares, m->level, m);
    wake(p, m->level);
    level_put_back(p->levels, m->level, m);
    p->count[m->level].pulls--;
}

static void paper_remove(struct policy *policy, struct policy_msg *m)
{
    level_take(paper_of(policy)->levels, m->level, m);
}

static void paper_hold(struct policy *policy, struct policy_msg *m)
{
    level_hold(paper_of(policy)->levels, m->level, m);
}

static void paper_release(struct policy *policy, struct policy_msg *m)
{
    struct paper *p = paper_of(policy);
    wake(p, m->level);
    level_release(p->levels, m->level, m);
}

static struct policy_msg *paper_any(const struct policy *policy)
{
    const struct levels *l = const_paper(policy)->levels;
    struct policy_msg *m = NULL;
    for (unsigned i = 0; i < l->n && m == NULL; i++)
        m = level_front(l, i);
    return m;
}

static void paper_done(struct policy *policy, struct policy_msg *m, double duration_ms)
{
    struct paper *p = paper_of(policy);
    if (p->shares != NULL)
        shares_learn(p->shares, m->level, duration_ms);
}

static void promote(void *ctx, unsigned i, mono_t now)
{
    struct paper *p = ctx;
    struct policy_msg *m = level_front(p->levels, i);
    level_take(p->levels, i, m);
    m->level--;
    place(p, m, now);
    p->count[i].promotions++;
}

static mono_t paper_tick(struct policy *policy, mono_t now)
{
    struct paper *p = paper_of(policy);
    return aging_tick(&p->aging, p->levels, now, promote, p);
}

static void paper_stats(const struct policy *policy, unsigned i, struct policy_level_stats *out)
{
    const struct paper *p = const_paper(policy);
    *out = (struct policy_level_stats){
        .waiting = p->levels->level[i].n,
        .promoted = p->levels->level[i].n_promoted,
        .front = level_front(p->levels, i),
        .pulls = p->count[i].pulls,
        .promotions = p->count[i].promotions,
    };
    if (p->shares == NULL)
        return;
    out->clock_ms = shares_clock_ms(p->shares, i);
    out->charged_ms = shares_charged_ms(p->shares, i);
    out->average_ms = p->shares->share[i].average_ms;
}

static bool all_name_their_level(const struct levels *l, unsigned i)
{
    const struct list *head = &l->level[i].waiting;
    for (const struct list *node = head->next; node != head; node = node->next)
        if (((const struct policy_msg *)node)->level != i)
            return false;
    return true;
}

static const char *paper_check(const struct policy *policy)
{
    const struct paper *p = const_paper(policy);
    size_t n = 0;
    for (unsigned i = 0; i < p->levels->n; i++) {
        n += p->levels->level[i].n;
        if (!all_name_their_level(p->levels, i))
            return "a message waits in a level that it does not name";
    }
    if (n != policy->n_waiting)
        return "the policy miscounts its waiting messages";
    return levels_check(p->levels);
}

static const struct policy_ops paper_ops = {
    .name = "paper",
    .free = paper_free,
    .place = paper_place,
    .next = paper_next,
    .put_back = paper_put_back,
    .requeue = paper_place,
    .remove = paper_remove,
    .hold = paper_hold,
    .release = paper_release,
    .any = paper_any,
    .done = paper_done,
    .tick = paper_tick,
    .level_stats = paper_stats,
    .check = paper_check,
};

struct policy *policy_paper_new(const struct policy_paper_options *o)
{
    assert(o->n_levels >= 1 && o->n_levels <= LEVELS_MAX);
    assert(o->aging_threshold == 0 || (o->aging_interval > 0 && o->slice > 0));
    struct paper *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->policy.ops = &paper_ops;
    p->levels = levels_new(o->n_levels);
    p->aging = (struct aging){.threshold = o->aging_threshold,
                              .interval = o->aging_interval,
                              .pause_when_behind = o->pause_when_behind,
                              .slice = o->slice};
    if (o->weights != NULL)
        p->shares = malloc(sizeof *p->shares);
    if (p->levels == NULL || (o->weights != NULL && p->shares == NULL)) {
        paper_free(&p->policy);
        return NULL;
    }
    if (p->shares != NULL)
        shares_init(p->shares, o->weights, o->n_levels);
    return &p->policy;
}
