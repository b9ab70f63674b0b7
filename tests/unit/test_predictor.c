#include "harbinger/predictor.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "lib/keys.h"
#include "lib/testmain.h"

#include <math.h>
#include <stdio.h>

static struct hb_predictor_options defaults(void)
{
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    return o;
}

/* A predictor whose boundaries are published: three other keys share the pooled histogram. */
static struct hb_predictor *ready_with(const struct hb_predictor_options *o)
{
    struct hb_predictor *p = hb_predictor_new(o);
    ck_assert_ptr_nonnull(p);
    for (int i = 0; i < 100; i++) {
        teach(p, "fast", 1, 5, 0);
        teach(p, "middle", 1, 100, 0);
        teach(p, "slow", 1, 2000, 0);
    }
    return p;
}

static struct hb_predictor *ready(void)
{
    struct hb_predictor_options o = defaults();
    return ready_with(&o);
}

static void done(struct hb_predictor *p)
{
    ck_assert_ptr_null(hb_predictor_check(p));
    hb_predictor_free(p);
}

/* Each wrong option is refused by its name, and its limits are inside. */
START_TEST(wrong_options_are_named)
{
#define WRONG(field, value)                                                                   \
    do {                                                                                      \
        struct hb_predictor_options o = defaults();                                           \
        char why[128] = "";                                                                   \
        o.field = value;                                                                      \
        ck_assert_msg(!hb_predictor_options_valid(&o, why, sizeof why), #field " = " #value); \
        ck_assert_ptr_null(hb_predictor_new(&o));                                             \
        char name[32] = #field;                                                               \
        char *unit = strstr(name, "_ns");                                                     \
        if (unit != NULL)                                                                     \
            *unit = '\0';                                                                     \
        ck_assert_msg(strncmp(why, name, strlen(name)) == 0, "%s: %s", name, why);            \
    } while (0)
    WRONG(levels, 0);
    WRONG(levels, 256);
    WRONG(default_level, 3);
    WRONG(summary, HB_N_SUMMARIES);
    WRONG(min_samples, 0);
    WRONG(spread_quantile, 0.5);
    WRONG(spread_quantile, (double)NAN);
    WRONG(max_spread_ratio, 0.5);
    WRONG(max_censored, 1.01);
    WRONG(max_censored, -0.01);
    WRONG(stale_after_ns, -1);
    WRONG(decay, 0);
    WRONG(decay, 1.001);
    WRONG(pooled_decay, (double)NAN);
    WRONG(half_life_ns, INT64_MAX);
    WRONG(bins, 7);
    WRONG(bins, 1025);
    WRONG(min_ms, 0);
    WRONG(max_ms, 1);
    WRONG(max_ms, HUGE_VAL);
    WRONG(boundary_every, 0);
    WRONG(pooled_min_samples, UINT32_MAX);
    WRONG(hysteresis, 1);
    WRONG(max_keys, 0);
    WRONG(max_keys, UINT32_MAX);
    WRONG(idle_eviction_ns, -1);
    WRONG(cold_eviction_ns, -1);
#undef WRONG
    struct hb_predictor_options o = defaults();
    ck_assert(hb_predictor_options_valid(&o, NULL, 0));
    o.levels = 0;
    ck_assert(!hb_predictor_options_valid(&o, NULL, 0));
}
END_TEST

/* The words are the ones that metrics and people use. */
START_TEST(reasons_have_their_words)
{
    static const char *const words[] = {"predicted", "unready",   "cold_key",   "high_spread",
                                        "censored",  "stale_key", "invalid_key"};
    ck_assert_uint_eq(ARRAY_SIZE(words), HB_N_REASONS);
    for (int i = 0; i < HB_N_REASONS; i++)
        ck_assert_str_eq(hb_reason_name((enum hb_reason)i), words[i]);
    ck_assert_str_eq(hb_reason_name(HB_N_REASONS), "unknown");
    ck_assert_str_eq(hb_summary_name(HB_SUMMARY_GEOMETRIC), "geometric");
    ck_assert_str_eq(hb_summary_name(HB_N_SUMMARIES), "unknown");
}
END_TEST

/* An invalid key is that before anything else, teaches nothing and is counted. */
START_TEST(invalid_keys_come_first)
{
    struct hb_predictor_options o = defaults();
    struct hb_predictor *p = hb_predictor_new(&o);
    char longest[258];
    memset(longest, 'x', 257);
    longest[257] = '\0';
    ck_assert_int_eq(reason(p, "", 0), HB_INVALID_KEY);
    ck_assert_int_eq(reason(p, NULL, 0), HB_INVALID_KEY);
    ck_assert_int_eq(reason(p, longest, 0), HB_INVALID_KEY);
    ck_assert(!hb_predictor_observe(p, k(longest), NO_PARENT, 1, 0));
    ck_assert(!hb_predictor_censor(p, k(""), NO_PARENT, 0));
    ck_assert_uint_eq(stats_of(p).rejected, 2);
    ck_assert_uint_eq(stats_of(p).pooled_samples, 0);
    longest[256] = '\0';
    ck_assert_int_eq(reason(p, longest, 0), HB_UNREADY);
    ck_assert(hb_predictor_observe(p, k(longest), NO_PARENT, 1, 0));
    ck_assert_uint_eq(stats_of(p).keys, 1);
    done(p);
}
END_TEST

/* Durations that are none are refused; zero is one. */
START_TEST(only_durations_are_learned)
{
    struct hb_predictor *p = ready();
    uint64_t before = stats_of(p).pooled_samples;
    static const double bad[] = {-1, -1e-300, (double)NAN, HUGE_VAL, -HUGE_VAL};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert(!hb_predictor_observe(p, k("a"), NO_PARENT, bad[i], 0));
    ck_assert_uint_eq(stats_of(p).rejected, ARRAY_SIZE(bad));
    ck_assert_uint_eq(stats_of(p).pooled_samples, before);
    teach(p, "zero", 20, 0, 0);
    struct hb_prediction out = ask(p, "zero", 0);
    ck_assert_int_eq(out.reason, HB_PREDICTED);
    ck_assert_double_eq(out.estimate_ms, 0.5);
    ck_assert_uint_eq(out.level, 0);
    done(p);
}
END_TEST

/* A key is predicted from its 20th duration on; marks do not count. */
START_TEST(twenty_durations_make_a_key)
{
    struct hb_predictor *p = ready();
    ck_assert_int_eq(reason(p, "new", 0), HB_COLD_KEY);
    ck_assert(hb_predictor_censor(p, k("new"), NO_PARENT, 0));
    teach(p, "new", 19, 50, 0);
    struct hb_prediction out = ask(p, "new", 0);
    ck_assert_int_eq(out.reason, HB_COLD_KEY);
    ck_assert(!out.has_estimate);
    ck_assert_uint_eq(out.level, 1);
    ck_assert_double_eq(out.estimate_ms, 0);
    teach(p, "new", 1, 50, 0);
    ck_assert_int_ne(reason(p, "new", 0), HB_COLD_KEY);
    done(p);
}
END_TEST

/* The first boundaries appear with the 100th duration, and then only every 256th can move them. */
START_TEST(boundaries_appear_at_one_hundred)
{
    struct hb_predictor_options o = defaults();
    struct hb_predictor *p = hb_predictor_new(&o);
    teach(p, "a", 99, 10, 0);
    ck_assert_int_eq(reason(p, "a", 0), HB_UNREADY);
    teach(p, "a", 1, 10, 0);
    ck_assert_int_eq(reason(p, "a", 0), HB_PREDICTED);
    ck_assert_uint_eq(stats_of(p).boundary_seq, 1);
    teach(p, "b", 155, 1000, 0);
    ck_assert_uint_eq(stats_of(p).boundary_seq, 1);
    teach(p, "b", 1, 1000, 0);
    ck_assert_uint_eq(stats_of(p).boundary_seq, 2);
    done(p);
}
END_TEST

/* Equality with a boundary goes to the slower level. */
START_TEST(equality_goes_down)
{
    struct hb_predictor *p = ready();
    size_t n;
    const double *b = hb_predictor_boundaries(p, &n);
    ck_assert_uint_eq(n, 2);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(hb_predictor_level_of(p, nextafter(b[i], 0)), i);
        ck_assert_uint_eq(hb_predictor_level_of(p, b[i]), i + 1);
    }
    done(p);
}
END_TEST

/* One level needs no boundaries; 255 levels work like three. */
START_TEST(one_and_many_levels)
{
    struct hb_predictor_options o = defaults();
    o.levels = 1;
    o.default_level = 0;
    struct hb_predictor *p = hb_predictor_new(&o);
    teach(p, "a", 20, 10, 0);
    ck_assert_int_eq(reason(p, "a", 0), HB_PREDICTED);
    ck_assert_uint_eq(ask(p, "a", 0).level, 0);
    done(p);
    o.levels = 255;
    p = hb_predictor_new(&o);
    struct rng rng = {3};
    for (int i = 0; i < 6000; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i % 60);
        teach(p, name, 1, pow(1.25, i % 60) * (1 + rng_unit(&rng) / 4), 0);
    }
    unsigned last = 0;
    for (int i = 0; i < 60; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        struct hb_prediction out = ask(p, name, 0);
        ck_assert_int_eq(out.reason, HB_PREDICTED);
        ck_assert_uint_ge(out.level, last);
        last = out.level;
    }
    ck_assert_uint_gt(last, 240);
    done(p);
}
END_TEST

/* A key of 92 fast and 8 very slow jobs is not trusted, and the ninetieth percentile would have
 * been. */
START_TEST(a_slow_tail_is_seen)
{
    struct hb_predictor_options o = defaults();
    for (int tail = 0; tail < 2; tail++) {
        o.spread_quantile = tail == 0 ? 0.99 : 0.9;
        struct hb_predictor *p = ready_with(&o);
        for (int i = 0; i < 300; i++)
            teach(p, "bimodal", 1, i % 25 == 3 || i % 25 == 15 ? 60000 : 5, 0);
        ck_assert_int_eq(reason(p, "bimodal", 0), tail == 0 ? HB_HIGH_SPREAD : HB_PREDICTED);
        done(p);
    }
}
END_TEST

/* The censored share rises with marks, refuses above 5 %, and is diluted by durations. */
START_TEST(censored_share_rises_and_dilutes)
{
    struct hb_predictor *p = ready();
    teach(p, "a", 60, 50, 0);
    ck_assert_int_eq(reason(p, "a", 0), HB_PREDICTED);
    for (int i = 0; i < 4; i++)
        ck_assert(hb_predictor_censor(p, k("a"), NO_PARENT, 0));
    ck_assert_int_eq(reason(p, "a", 0), HB_CENSORED);
    teach(p, "a", 60, 50, 0);
    ck_assert_int_eq(reason(p, "a", 0), HB_PREDICTED);
    ck_assert_uint_eq(stats_of(p).censored, 4);
    done(p);
}
END_TEST

/* Staleness begins after, not at, the limit; predictions keep a key fresh; only evidence revives
 * it, anew. */
START_TEST(staleness_follows_activity)
{
    struct hb_predictor *p = ready();
    const int64_t limit = SECONDS(1800);
    ck_assert_int_eq(reason(p, "fast", limit), HB_PREDICTED);
    ck_assert_int_eq(reason(p, "fast", 2 * limit), HB_PREDICTED);
    ck_assert_int_eq(reason(p, "fast", 3 * limit + 1), HB_STALE_KEY);
    ck_assert_int_eq(reason(p, "fast", 3 * limit + 2), HB_STALE_KEY);
    struct hb_key_info info;
    ck_assert(hb_predictor_explain(p, k("fast"), 3 * limit + 2, &info));
    ck_assert_uint_eq(info.n, 100);
    teach(p, "fast", 1, 5, 3 * limit + 3);
    ck_assert_int_eq(reason(p, "fast", 3 * limit + 3), HB_COLD_KEY);
    ck_assert(hb_predictor_explain(p, k("fast"), 3 * limit + 3, &info));
    ck_assert_uint_eq(info.n, 1);
    ck_assert_int_eq(info.remembered_level, -1);
    done(p);
}
END_TEST

/* A fallback counts as activity as well. */
START_TEST(fallbacks_keep_a_key_alive)
{
    struct hb_predictor *p = ready();
    teach(p, "new", 5, 5, 0);
    for (int i = 1; i <= 5; i++)
        ck_assert_int_eq(reason(p, "new", i * SECONDS(1700)), HB_COLD_KEY);
    done(p);
}
END_TEST

/* Stale keys make way for newcomers while there is room too, so that the table does not fill with
 * them. */
START_TEST(stale_keys_are_reclaimed)
{
    struct hb_predictor *p = ready();
    ck_assert_uint_eq(stats_of(p).keys, 3);
    teach(p, "x", 1, 5, SECONDS(2000));
    ck_assert_uint_eq(stats_of(p).keys, 2);
    teach(p, "y", 1, 5, SECONDS(2000));
    ck_assert_uint_eq(stats_of(p).keys, 2);
    ck_assert_uint_eq(stats_of(p).stale_freed, 3);
    ck_assert_int_eq(reason(p, "fast", SECONDS(2000)), HB_COLD_KEY);
    done(p);
}
END_TEST

/* Junk keys cannot push a working set out, and they go after 30 s; proven keys go after 10 min. */
START_TEST(junk_cannot_lock_out_real_keys)
{
    struct hb_predictor_options o = defaults();
    o.max_keys = 50;
    struct hb_predictor *p = ready_with(&o);
    char name[16];
    for (int i = 0; i < 100000; i++) {
        snprintf(name, sizeof name, "junk%d", i);
        teach(p, name, 1, 5, SECONDS(i * 1e-4));
        if (i % 1000 == 0)
            (void)ask(p, "fast", SECONDS(i * 1e-4)), (void)ask(p, "slow", SECONDS(i * 1e-4));
    }
    ck_assert_uint_eq(stats_of(p).keys, 50);
    ck_assert_uint_eq(stats_of(p).overflow, 100000 - 47);
    ck_assert_int_eq(reason(p, "fast", SECONDS(10)), HB_PREDICTED);
    teach(p, "real", 20, 5, SECONDS(41)); /* "middle", proven, is the oldest and stays */
    ck_assert_int_eq(reason(p, "real", SECONDS(41)), HB_COLD_KEY);
    (void)ask(p, "middle", SECONDS(41));
    teach(p, "real", 20, 5, SECONDS(41));
    ck_assert_int_eq(reason(p, "real", SECONDS(41)), HB_PREDICTED);
    ck_assert_uint_eq(stats_of(p).keys, 50);
    done(p);
}
END_TEST

/* More real keys than room: those that stay are predicted, memory does not grow. */
START_TEST(a_flood_is_bounded)
{
    struct hb_predictor_options o = defaults();
    o.max_keys = 300;
    struct hb_predictor *p = ready_with(&o);
    char name[200];
    memset(name, 'x', sizeof name); /* longer than what lies inline */
    uint64_t most = 0;
    for (int i = 0; i < 20000; i++) {
        snprintf(name + 150, 50, "%d", i);
        teach(p, name, 1, 5, SECONDS(i));
        uint64_t bytes = stats_of(p).memory_bytes;
        if (i == 2000)
            most = bytes;
        ck_assert(i <= 2000 || bytes <= most + 300);
    }
    ck_assert_uint_le(stats_of(p).keys, 300);
    done(p);
}
END_TEST

/* A key's level resists small moves of its estimate; without hysteresis it does not. */
START_TEST(levels_are_remembered)
{
    for (int with = 0; with < 2; with++) {
        struct hb_predictor_options o = defaults();
        o.hysteresis = with ? 0.1 : 0;
        o.decay = 0.5;
        struct hb_predictor *p = ready_with(&o);
        size_t n;
        double b = hb_predictor_boundaries(p, &n)[1];
        unsigned above = 0;
        teach(p, "a", 20, 50, 0);
        ck_assert_uint_eq(ask(p, "a", 0).level, 1);
        /* Medians just above the boundary: from the middle level they count only without
         * hysteresis. */
        for (double d = b; d < 1.6 * b; d *= 1.01) {
            teach(p, "a", 1, d, 0);
            struct hb_prediction out = ask(p, "a", 0);
            if (out.estimate_ms >= b && out.estimate_ms < 1.1 * b)
                above += out.level == 2;
            if (out.estimate_ms >= 1.1 * b)
                ck_assert_uint_eq(out.level, 2);
        }
        ck_assert_uint_eq(above > 0, !with);
        done(p);
    }
}
END_TEST

/* Summaries are ordered on skewed durations, and the geometric one lies between median and mean. */
START_TEST(summaries_are_ordered)
{
    double value[HB_N_SUMMARIES];
    for (int s = 0; s < HB_N_SUMMARIES; s++) {
        struct hb_predictor_options o = defaults();
        o.summary = (enum hb_summary)s;
        o.max_spread_ratio = 0;
        struct hb_predictor *p = ready_with(&o);
        struct rng rng = {5};
        for (int i = 0; i < 400; i++)
            teach(p, "a", 1, exp(6 * rng_unit(&rng)), 0);
        value[s] = ask(p, "a", 0).estimate_ms;
        done(p);
    }
    ck_assert_double_lt(value[HB_SUMMARY_MEDIAN], value[HB_SUMMARY_P75]);
    ck_assert_double_lt(value[HB_SUMMARY_MEDIAN], value[HB_SUMMARY_GEOMETRIC]);
    ck_assert_double_lt(value[HB_SUMMARY_GEOMETRIC], value[HB_SUMMARY_MEAN]);
}
END_TEST

static struct hb_prediction ask_both(struct hb_predictor *p, const char *key, const char *parent)
{
    struct hb_prediction out;
    hb_predictor_predict(p, k(key), k(parent), SECONDS(1), &out);
    return out;
}

/* A cold bin borrows its parent's estimate, never a refusal of it, and a bin with a refusal of its
 * own keeps it. */
START_TEST(cold_bins_borrow_from_their_parent)
{
    struct hb_predictor *p = ready();
    for (int i = 0; i < 20; i++)
        ck_assert(hb_predictor_observe(p, k("j\x1fs3"), k("j"), 50, 0));
    struct hb_prediction out = ask_both(p, "j\x1fs9", "j");
    ck_assert_int_eq(out.reason, HB_PREDICTED);
    ck_assert(out.from_parent && out.has_estimate);
    ck_assert_double_eq(out.estimate_ms, ask(p, "j", SECONDS(1)).estimate_ms);
    ck_assert_uint_eq(stats_of(p).parent_fallbacks, 1);
    ck_assert(!ask_both(p, "j\x1fs3", "j").from_parent);
    ck_assert_int_eq(ask_both(p, "j\x1fs9", "unknown").reason, HB_COLD_KEY);
    for (int i = 0; i < 20; i++)
        ck_assert(hb_predictor_censor(p, k("j\x1fs3"), NO_PARENT, 0));
    ck_assert_int_eq(ask_both(p, "j\x1fs3", "j").reason, HB_CENSORED);
    struct hb_predictor_stats s = stats_of(p);
    uint64_t sum = 0;
    for (int i = 0; i < HB_N_REASONS; i++)
        sum += s.outcomes[i];
    ck_assert_uint_eq(sum, s.lookups);
    ck_assert_uint_eq(s.lookups, 5);
    ck_assert_uint_eq(s.pooled_samples, 320);
    done(p);
}
END_TEST

/* Size labels are floor(log2), from 0 to 63. */
START_TEST(size_labels)
{
    static const struct {
        double size;
        const char *label;
    } rows[] = {{0, "s0"},         {1, "s0"},     {1.99, "s0"},        {2, "s1"},
                {1023, "s9"},      {1024, "s10"}, {0x1p53 - 1, "s52"}, {1e300, "s63"},
                {HUGE_VAL, "s63"}, {-5, "s0"},    {(double)NAN, "s0"}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char out[HB_SIZE_LABEL_MAX];
        ck_assert_uint_eq(hb_size_label(rows[i].size, out), strlen(rows[i].label));
        ck_assert_str_eq(out, rows[i].label);
    }
}
END_TEST

/* Too long durations count as the longest. */
START_TEST(long_durations_are_clamped)
{
    struct hb_predictor *p = ready();
    teach(p, "a", 20, 1e12, 0);
    ck_assert_uint_eq(stats_of(p).saturated, 20);
    ck_assert_double_le(ask(p, "a", 0).estimate_ms, 600000);
    struct hb_key_info info;
    ck_assert(hb_predictor_explain(p, k("a"), 0, &info));
    ck_assert_double_eq_tol(info.mean_ms, 600000, 1e-3);
    done(p);
}
END_TEST

/* The agreement is that of the last 512; one alert below a half, which holds until above six
 * tenths. */
START_TEST(drift_alerts_once_and_latches)
{
    struct hb_predictor *p = ready();
    for (int i = 0; i < 511; i++)
        hb_predictor_score(p, 2, 5, 5);
    ck_assert(!stats_of(p).drift_alert);
    hb_predictor_score(p, 2, 5, 5);
    ck_assert(stats_of(p).drift_alert);
    for (int i = 0; i < 307; i++)
        hb_predictor_score(p, 0, 5, 5);
    ck_assert(stats_of(p).drift_alert);
    hb_predictor_score(p, 0, 5, 5);
    ck_assert(!stats_of(p).drift_alert);
    struct hb_predictor_stats s = stats_of(p);
    ck_assert_uint_eq(s.drift_alerts, 1);
    ck_assert_double_eq(s.agreement, 308 / 512.0);
    ck_assert_uint_eq(s.matches, 308);
    ck_assert_uint_eq(s.scored, 820);
    ck_assert_double_eq(s.abs_log2_error, 0);
    hb_predictor_score(p, 0, 40, 0.1);
    ck_assert_double_eq_tol(stats_of(p).abs_log2_error, 0.01 * log2(40), 1e-12);
    done(p);
}
END_TEST

/* A clock that jumps, stands, runs back or reaches its end breaks nothing. */
START_TEST(any_clock_will_do)
{
    struct hb_predictor *p = ready();
    static const int64_t times[] = {SECONDS(10), SECONDS(5),  0,         -1,
                                    INT64_MIN,   SECONDS(11), INT64_MAX, 0};
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        char name[8];
        snprintf(name, sizeof name, "t%zu", i);
        teach(p, name, 2, 5, times[i]);
        (void)ask(p, "fast", times[i]);
        ck_assert_ptr_null(hb_predictor_check(p));
    }
    ck_assert_int_eq(reason(p, "slow", 0), HB_COLD_KEY);
    done(p);
}
END_TEST

/* Another seed changes nothing that can be seen. */
START_TEST(the_seed_is_invisible)
{
    struct hb_predictor *p[2];
    for (int s = 0; s < 2; s++) {
        struct hb_predictor_options o = defaults();
        o.seed[0] = (uint64_t)s * 77;
        o.max_keys = 20;
        p[s] = ready_with(&o);
        struct rng rng = {9};
        for (int i = 0; i < 20000; i++) {
            char name[16];
            snprintf(name, sizeof name, "k%u", (unsigned)(rng_unit(&rng) * 40));
            teach(p[s], name, 1, 10 * rng_unit(&rng), SECONDS(i));
            (void)ask(p[s], name, SECONDS(i));
        }
    }
    struct hb_predictor_stats a = stats_of(p[0]), b = stats_of(p[1]);
    ck_assert_int_eq(memcmp(&a, &b, sizeof a), 0);
    done(p[0]);
    done(p[1]);
}
END_TEST

struct seen {
    int n;
    char names[4][16];
};

static bool note(void *ctx, const struct hb_key_info *info)
{
    struct seen *s = ctx;
    snprintf(s->names[s->n++], 16, "%.*s", (int)info->key.n, info->key.p);
    ck_assert(info->known);
    return s->n < 3;
}

/* Keys are visited by activity until the visitor stops; explaining is not activity, and tells what
 * predict will. */
START_TEST(keys_can_be_read)
{
    struct hb_predictor *p = ready();
    teach(p, "later", 3, 7, SECONDS(5));
    (void)ask(p, "fast", SECONDS(6));
    struct seen s = {0};
    hb_predictor_each_key(p, SECONDS(9), note, &s);
    ck_assert_int_eq(s.n, 3);
    ck_assert_str_eq(s.names[0], "fast");
    ck_assert_str_eq(s.names[1], "later");
    ck_assert_str_eq(s.names[2], "slow");
    struct hb_key_info info;
    ck_assert(hb_predictor_explain(p, k("slow"), SECONDS(1800), &info));
    ck_assert_int_eq(info.reason, HB_PREDICTED);
    ck_assert_uint_eq(info.level, 2);
    ck_assert_int_eq(info.age_ns, SECONDS(1800));
    ck_assert(hb_predictor_explain(p, k("slow"), SECONDS(1801), &info));
    ck_assert_int_eq(info.reason, HB_STALE_KEY);
    ck_assert_uint_eq(info.level, 1);
    ck_assert(hb_predictor_explain(p, k("later"), SECONDS(9), &info));
    ck_assert_int_eq(info.reason, HB_COLD_KEY);
    ck_assert_uint_eq(info.n, 3);
    ck_assert(!hb_predictor_explain(p, k("nobody"), 0, &info));
    ck_assert_int_eq(info.reason, HB_COLD_KEY);
    ck_assert(!hb_predictor_explain(p, k(""), 0, &info));
    ck_assert_int_eq(info.reason, HB_INVALID_KEY);
    done(p);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {wrong_options_are_named,
                                  reasons_have_their_words,
                                  invalid_keys_come_first,
                                  only_durations_are_learned,
                                  twenty_durations_make_a_key,
                                  boundaries_appear_at_one_hundred,
                                  equality_goes_down,
                                  one_and_many_levels,
                                  a_slow_tail_is_seen,
                                  censored_share_rises_and_dilutes,
                                  staleness_follows_activity,
                                  fallbacks_keep_a_key_alive,
                                  stale_keys_are_reclaimed,
                                  junk_cannot_lock_out_real_keys,
                                  a_flood_is_bounded,
                                  levels_are_remembered,
                                  summaries_are_ordered,
                                  cold_bins_borrow_from_their_parent,
                                  size_labels,
                                  long_durations_are_clamped,
                                  drift_alerts_once_and_latches,
                                  any_clock_will_do,
                                  the_seed_is_invisible,
                                  keys_can_be_read,
                                  NULL};
    return suite_of("predictor", tests);
}
