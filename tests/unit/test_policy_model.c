/*
 * The paper's order against a slow and obvious model of its rules: an array of messages that every
 * operation scans whole.
 */
#include "policy/policy.h"

#include "base/rng.h"
#include "lib/testmain.h"

#include <math.h>
#include <stdlib.h>

enum { N = 96, LEVELS = 4, STEPS = 60000 };

struct item {
    struct policy_msg m;
    bool waiting, pulled, held;
    /* the model's own copy of what the policy writes */
    unsigned level;
    mono_t placed_at;
    uint64_t place;
    double charge_ms;
};

struct model {
    struct policy_paper_options o;
    struct item item[N];
    uint64_t n_placed;
    mono_t passed_at;
    double clock[LEVELS], floor, average[LEVELS];
};

static uint64_t below(struct rng *rng, uint64_t n)
{
    return rng_next(rng) % n;
}

static bool before(const struct item *a, const struct item *b)
{
    return a->place < b->place;
}

static struct item *first_of(struct model *w, unsigned level, bool held_too)
{
    struct item *first = NULL;
    for (int i = 0; i < N; i++) {
        struct item *it = &w->item[i];
        if (it->waiting && it->level == level && (held_too || !it->held) &&
            (first == NULL || before(it, first)))
            first = it;
    }
    return first;
}

static struct item *front(struct model *w, unsigned level)
{
    return first_of(w, level, true);
}

static struct item *servable(struct model *w, unsigned level)
{
    return first_of(w, level, false);
}

static void wake(struct model *w, unsigned level)
{
    if (servable(w, level) == NULL && w->clock[level] < w->floor)
        w->clock[level] = w->floor;
}

static void place(struct model *w, struct item *it, unsigned level, mono_t now)
{
    if (!it->held)
        wake(w, level);
    it->level = level;
    it->placed_at = now;
    it->place = ++w->n_placed;
    it->waiting = true;
}

static double cost_of(const struct model *w, const struct item *it)
{
    double cost = it->m.estimate_ms >= 0 ? it->m.estimate_ms : w->average[it->level];
    return cost < 1 ? 1 : cost;
}

static struct item *next(struct model *w, mono_t now)
{
    struct item *best = NULL;
    for (unsigned level = 0; level < LEVELS; level++) {
        struct item *it = servable(w, level);
        if (it != NULL &&
            (best == NULL || (w->o.weights != NULL && w->clock[level] < w->clock[best->level])))
            best = it;
    }
    if (best != NULL) {
        best->waiting = false;
        best->charge_ms = w->o.weights != NULL ? cost_of(w, best) / w->o.weights[best->level] : 0;
        w->floor = fmax(w->floor, w->clock[best->level]);
        w->clock[best->level] += best->charge_ms;
    }
    for (unsigned level = 0; level < LEVELS; level++)
        if (front(w, level) != NULL)
            return best;
    w->passed_at = now;
    return best;
}

static void put_back(struct model *w, struct item *it)
{
    w->clock[it->level] -= it->charge_ms;
    wake(w, it->level);
    it->waiting = true;
}

static bool behind(struct model *w, unsigned level, mono_t now)
{
    struct item *first = front(w, level);
    bool promoted = false;
    for (int i = 0; i < N; i++)
        promoted |=
            w->item[i].waiting && w->item[i].level == level && level < w->item[i].m.original_level;
    return first != NULL && promoted && now - first->m.arrived_at >= w->o.aging_threshold;
}

/* Every message of the level that is due, front to back; just the first one when pausing. */
static void age_level(struct model *w, unsigned level, mono_t now)
{
    uint64_t last = w->n_placed, after = 0;
    for (;;) {
        struct item *due = NULL;
        for (int i = 0; i < N; i++) {
            struct item *it = &w->item[i];
            if (it->waiting && it->level == level && it->place > after && it->place <= last &&
                now - it->placed_at >= w->o.aging_threshold && (due == NULL || before(it, due)))
                due = it;
        }
        if (due == NULL)
            return;
        after = due->place;
        place(w, due, level - 1, now);
        if (w->o.pause_when_behind)
            return;
    }
}

static void pass(struct model *w, mono_t now)
{
    for (unsigned level = LEVELS - 1; level > 0; level--)
        if (!w->o.pause_when_behind || !behind(w, level - 1, now))
            age_level(w, level, now);
    w->passed_at = now;
}

static void compare(struct policy *p, struct model *w)
{
    size_t n_held = 0;
    for (int i = 0; i < N; i++)
        n_held += w->item[i].held;
    if (policy_held(p) != n_held)
        ck_abort_msg("%zu are held back, not %zu", policy_held(p), n_held);
    const char *broken = policy_check(p);
    if (broken != NULL) /* Check writes to a file at each of its assertions */
        ck_abort_msg("%s", broken);
    for (unsigned level = 0; level < LEVELS; level++) {
        struct policy_level_stats s;
        policy_level_stats(p, level, &s);
        struct item *first = front(w, level);
        if (s.front != (first != NULL ? &first->m : NULL))
            ck_abort_msg("another message is at the front of level %u", level);
        if (w->o.weights != NULL && fabs(s.clock_ms - w->clock[level]) > 1e-3)
            ck_abort_msg("the clock of level %u is %g, not %g", level, s.clock_ms, w->clock[level]);
    }
}

/* All messages but few pulled ones wait, so that levels run full and dry in turns. */
static void step(struct policy *p, struct model *w, struct rng *rng, mono_t now)
{
    struct item *it = &w->item[below(rng, N)];
    unsigned what = (unsigned)below(rng, 16);
    if (it->waiting) {
        if (what == 0) {
            policy_remove(p, &it->m);
            it->waiting = it->held = false;
        } else if (what < 8 && !it->held) {
            policy_hold(p, &it->m);
            it->held = true;
        } else if (what < 12 && it->held) {
            policy_release(p, &it->m);
            wake(w, it->level);
            it->held = false;
        }
    } else if (it->pulled) {
        it->pulled = false;
        if (what < 4) {
            policy_put_back(p, &it->m);
            put_back(w, it);
        } else if (what < 8) {
            policy_requeue(p, &it->m, now);
            place(w, it, it->m.original_level, now);
        } else {
            double ms = (double)below(rng, 1000);
            policy_done(p, &it->m, ms);
            double *average = &w->average[it->level];
            *average = *average > 0 ? *average + 0.05 * (ms - *average) : ms;
        }
    } else if (what < 8) {
        it->m = (struct policy_msg){
            .arrived_at = now,
            .original_level = (uint8_t)below(rng, LEVELS),
            .estimate_ms = what % 2 == 0 ? -1 : (double)below(rng, 500),
        };
        list_init(&it->m.link);
        policy_place(p, &it->m, now);
        place(w, it, it->m.original_level, now);
    }
    if (what < 6) {
        struct item *expected = next(w, now);
        ck_assert_ptr_eq(policy_next(p, now), expected != NULL ? &expected->m : NULL);
        if (expected != NULL)
            expected->pulled = true;
    }
}

static const uint16_t weights[LEVELS] = {8, 4, 2, 1};

/* Strict and weighted, without aging, with plain and with pausing aging. */
static const struct policy_paper_options sets[] = {
    {.n_levels = LEVELS},
    {.n_levels = LEVELS, .aging_threshold = 500, .aging_interval = 50, .slice = 1000},
    {.n_levels = LEVELS,
     .aging_threshold = 500,
     .aging_interval = 50,
     .slice = 1000,
     .pause_when_behind = true},
    {.n_levels = LEVELS, .weights = weights},
    {.n_levels = LEVELS,
     .weights = weights,
     .aging_threshold = 300,
     .aging_interval = 70,
     .slice = 1000},
    {.n_levels = LEVELS,
     .weights = weights,
     .aging_threshold = 300,
     .aging_interval = 70,
     .slice = 1000,
     .pause_when_behind = true},
};

/* Each pull, each front and each clock is the model's, and a tick comes when the model's pass does.
 */
START_TEST(random_operations_equal_the_obvious_model)
{
    struct policy *p = policy_paper_new(&sets[_i]);
    struct model *w = calloc(1, sizeof *w);
    struct rng rng = {1 + (uint64_t)_i};
    w->o = sets[_i];
    policy_next(p, 0);
    next(w, 0);
    mono_t now = 0;
    for (int i = 0; i < STEPS; i++) {
        step(p, w, &rng, now);
        now += (mono_t)below(&rng, 8);
        if (w->o.aging_threshold > 0 && now >= w->passed_at + w->o.aging_interval) {
            now = w->passed_at + w->o.aging_interval;
            policy_tick(p, now);
            pass(w, now);
        }
        compare(p, w);
    }
    policy_free(p);
    free(w);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("policy_model");
    TCase *c = tcase_create("policy_model");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, random_operations_equal_the_obvious_model, 0, (int)ARRAY_SIZE(sets));
    suite_add_tcase(s, c);
    return s;
}
