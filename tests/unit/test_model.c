/* The predictor against its plain twin in tests/lib/model.c, over random operations. */
#include "base/rng.h"
#include "harbinger/predictor.h"
#include "lib/model.h"
#include "lib/testmain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 30000, KEYS = 40 };

struct pair {
    struct hb_predictor *p;
    struct model *m;
    struct rng rng;
    int64_t now;
    uint64_t seen[HB_N_REASONS];
    uint64_t from_parent;
};

static double below(struct pair *t, double limit)
{
    return rng_unit(&t->rng) * limit;
}

/* Key i's durations: its own scale, some with a long tail, some zeroes. */
static double duration_of(struct pair *t, unsigned i)
{
    double scale = exp(below(t, 1.0)) * pow(1.4, i);
    if (i % 5 == 4 && below(t, 1) < 0.08)
        scale *= 2000;
    return i == 0 ? 0 : scale;
}

/* Bins of the first dozen keys have one parent each; the others have none. */
static void compose(struct pair *t, unsigned i, char text[32], struct hb_key *key,
                    struct hb_key *parent)
{
    int n_parent = snprintf(text, 32, "p\x1f%u", i);
    int n = n_parent;
    if (i < 12)
        n += snprintf(text + n_parent, 32 - (size_t)n_parent, "\x1fs%u", (unsigned)below(t, 12));
    *key = (struct hb_key){text, (size_t)n};
    *parent = i < 12 ? (struct hb_key){text, (size_t)n_parent} : (struct hb_key){0};
}

static void compare(struct pair *t, const struct hb_prediction *a, const struct hb_prediction *b)
{
    ck_assert_str_eq(hb_reason_name(a->reason), hb_reason_name(b->reason));
    ck_assert_uint_eq(a->level, b->level);
    ck_assert_int_eq(a->from_parent, b->from_parent);
    ck_assert_uint_eq(a->boundary_seq, b->boundary_seq);
    ck_assert_double_le(fabs(a->estimate_ms - b->estimate_ms), 1e-7 * b->estimate_ms);
    t->seen[a->reason]++;
    t->from_parent += a->from_parent;
}

static void step(struct pair *t)
{
    char text[32];
    struct hb_key key, parent;
    double speed = below(t, 1);
    t->now += (int64_t)(speed < 0.002 ? below(t, 2500e9) : below(t, speed < 0.1 ? 20e9 : 50e6));
    unsigned i = (unsigned)below(t, KEYS);
    compose(t, i, text, &key, &parent);
    double op = below(t, 1);
    if (op < 0.5) {
        struct hb_prediction a, b;
        hb_predictor_predict(t->p, key, parent, t->now, &a);
        model_predict(t->m, key, parent, t->now, &b);
        compare(t, &a, &b);
    } else if (op < 0.98 - 0.03 * (i % 7 == 3)) {
        double ms = duration_of(t, i);
        ck_assert(hb_predictor_observe(t->p, key, parent, ms, t->now) ==
                  model_observe(t->m, key, parent, ms, t->now));
    } else {
        ck_assert(hb_predictor_censor(t->p, key, parent, t->now) ==
                  model_censor(t->m, key, parent, t->now));
    }
}

static void run(const struct hb_predictor_options *o, uint64_t seed, struct pair *t)
{
    *t = (struct pair){.p = hb_predictor_new(o), .m = model_new(o), .rng = {seed}};
    ck_assert_ptr_nonnull(t->p);
    for (int i = 0; i < STEPS; i++) {
        step(t);
        if (i % 500 == 0)
            ck_assert_ptr_null(hb_predictor_check(t->p));
    }
    struct hb_predictor_stats stats;
    hb_predictor_stats(t->p, &stats);
    ck_assert_uint_eq(stats.keys, model_keys(t->m));
    ck_assert_uint_eq(stats.overflow, model_overflow(t->m));
    ck_assert_uint_eq(stats.evictions, model_evictions(t->m));
    ck_assert_uint_eq(stats.parent_fallbacks, t->from_parent);
    hb_predictor_free(t->p);
    model_free(t->m);
}

/* With the defaults every outcome occurs, and each one is the model's. */
START_TEST(defaults_agree_with_the_model)
{
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    struct pair t;
    run(&o, 1, &t);
    for (int r = 0; r < HB_N_REASONS; r++)
        ck_assert_msg(t.seen[r] > 0 || r == HB_INVALID_KEY, "%s never occurred",
                      hb_reason_name((enum hb_reason)r));
    ck_assert_uint_gt(t.from_parent, 0);
}
END_TEST

/* A table too small for the keys evicts and refuses exactly as the model does. */
START_TEST(a_full_table_agrees_with_the_model)
{
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    o.max_keys = 17;
    struct pair t;
    run(&o, 2, &t);
    o.idle_eviction_ns = o.cold_eviction_ns = 0;
    run(&o, 3, &t);
    o.stale_after_ns = 0;
    run(&o, 4, &t);
}
END_TEST

/* So do other summaries, levels, bins and decays, and the rules of a policy that refuses nothing.
 */
START_TEST(other_options_agree_with_the_model)
{
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    struct pair t;
    o.summary = HB_SUMMARY_P75;
    o.levels = 10;
    o.default_level = 4;
    run(&o, 5, &t);
    o.summary = HB_SUMMARY_MEAN;
    o.levels = 2;
    o.bins = 11;
    o.decay = 0.9;
    o.default_level = 0;
    run(&o, 6, &t);
    hb_predictor_options_init(&o);
    o.summary = HB_SUMMARY_GEOMETRIC;
    o.max_ms = 1e9;
    o.min_samples = 1;
    o.max_spread_ratio = 0;
    o.stale_after_ns = o.half_life_ns = 0;
    o.max_censored = 1;
    o.levels = 1;
    o.default_level = 0;
    run(&o, 7, &t);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {defaults_agree_with_the_model, a_full_table_agrees_with_the_model,
                                  other_options_agree_with_the_model, NULL};
    return suite_of("model", tests);
}
