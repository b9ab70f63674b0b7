#include "base/compiler.h"
#include "base/err.h"
#include "lab/mt19937.h"
#include "lab/stats.h"
#include "lib/testmain.h"

#include <math.h>

/* What Python 3 prints for random.seed(2026), and for a seed of more than 32 bits. */
START_TEST(random_numbers_are_pythons)
{
    struct mt19937 m;
    mt19937_seed(&m, 2026);
    ck_assert_double_eq(mt19937_unit(&m), 0x1.e7ea40a393788p-4);
    ck_assert_double_eq(mt19937_unit(&m), 0x1.0149bebce2cbfp-1);
    ck_assert_double_eq(mt19937_unit(&m), 0x1.060da0696bb1ep-1);
    mt19937_seed(&m, (UINT64_C(1) << 40) + 5);
    ck_assert_double_eq(mt19937_unit(&m), 0x1.023e2261153dcp-1);
    ck_assert_double_eq(mt19937_unit(&m), 0x1.130d0ad4f7578p-2);
}
END_TEST

/* The reference's first published run: five seeds, mean latencies in ms. */
static const double fifo[] = {8030.910806846464, 9867.075293205415, 6348.209557426566,
                              11716.391445008834, 7335.02161212849};
static const double predictive[] = {6156.936074937121, 7339.958077728264, 4070.8076987454697,
                                    8700.61258169158, 5229.246677269036};

START_TEST(published_interval_is_matched)
{
    struct stats_criterion c = {.rule = STATS_CHANGE, .bar = -0.15};
    struct stats_bootstrap b;
    struct stats_verdict v;
    stats_bootstrap_init(&b);
    ck_assert_int_eq(stats_judge(&c, predictive, fifo, 5, &b, &v), 0);
    ck_assert_int_eq(v.status, STATS_PASS);
    ck_assert_double_eq_tol(v.interval.point, -0.2785383569829803, 1e-12);
    ck_assert_double_eq_tol(v.interval.low, -0.3193343215102603, 1e-12);
    ck_assert_double_eq_tol(v.interval.high, -0.2472642008169251, 1e-12);
    ck_assert_double_eq_tol(v.margin, 0.1285383569829803, 1e-12);
}
END_TEST

static const double windows[] = {-0.3, -0.1,  0.05, -0.2,  -0.15, 0.1,
                                 -0.4, -0.05, 0.02, -0.25, -0.12, -0.33};

/* Computed with Python's own random module. */
START_TEST(blocks_are_drawn_together)
{
    static const struct {
        struct stats_bootstrap b;
        double low, high;
    } cases[] = {
        {{10000, 2026, 0.95, 1}, -0.22750000000000004, -0.0575},
        {{10000, 2026, 0.95, 4}, -0.16749999999999998, -0.0775},
        {{1000, 2026, 0.9, 5}, -0.15416666666666665, -0.07916666666666668},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct stats_interval x;
        ck_assert_int_eq(stats_bootstrap_mean(windows, 12, &cases[i].b, &x), 0);
        ck_assert_double_eq_tol(x.point, -0.14416666666666667, 1e-12);
        ck_assert_double_eq_tol(x.low, cases[i].low, 1e-12);
        ck_assert_double_eq_tol(x.high, cases[i].high, 1e-12);
    }
}
END_TEST

START_TEST(bad_options_are_refused)
{
    static const double bad[] = {1, (double)NAN};
    struct stats_bootstrap good, b;
    struct stats_interval x;
    stats_bootstrap_init(&good);
    ck_assert_int_eq(stats_bootstrap_mean(windows, 1, &good, &x), ERR_INVALID);
    ck_assert_int_eq(stats_bootstrap_mean(bad, 2, &good, &x), ERR_INVALID);
#define BAD(field, value)                                                         \
    do {                                                                          \
        b = good;                                                                 \
        b.field = (value);                                                        \
        ck_assert_int_eq(stats_bootstrap_mean(windows, 12, &b, &x), ERR_INVALID); \
    } while (0)
    BAD(resamples, 0);
    BAD(resamples, 1000001);
    BAD(block, 0);
    BAD(block, 13);
    BAD(confidence, 0);
    BAD(confidence, 1);
    BAD(confidence, (double)NAN);
#undef BAD
}
END_TEST

/* Two units of the same value: the interval is that value, so each rule is looked at exactly at its
 * bar and beside it. */
static enum stats_status judge(enum stats_rule rule, double bar, double arm)
{
    const double a[] = {arm, arm}, base[] = {8, 8};
    struct stats_criterion c = {.rule = rule, .bar = bar};
    struct stats_bootstrap b;
    struct stats_verdict v;
    stats_bootstrap_init(&b);
    ck_assert_int_eq(stats_judge(&c, a, base, 2, &b, &v), 0);
    ck_assert((v.margin >= 0) || v.status != STATS_PASS);
    return v.status;
}

START_TEST(each_rule_has_its_bar)
{
    ck_assert_int_eq(judge(STATS_CHANGE, -0.25, 6), STATS_PASS);
    ck_assert_int_eq(judge(STATS_CHANGE, -0.25, 6.01), STATS_FAIL);
    ck_assert_int_eq(judge(STATS_CHANGE, 0, 7.99), STATS_PASS);
    ck_assert_int_eq(judge(STATS_CHANGE, 0, 8), STATS_FAIL);
    ck_assert_int_eq(judge(STATS_CHANGE, 0.25, 10), STATS_PASS);
    ck_assert_int_eq(judge(STATS_CHANGE, 0.25, 10.01), STATS_FAIL);
    ck_assert_int_eq(judge(STATS_MAX_RATIO, 1.25, 10), STATS_PASS);
    ck_assert_int_eq(judge(STATS_MAX_RATIO, 1.25, 10.01), STATS_FAIL);
    ck_assert_int_eq(judge(STATS_MIN_RATIO, 0.75, 6), STATS_PASS);
    ck_assert_int_eq(judge(STATS_MIN_RATIO, 0.75, 5.99), STATS_FAIL);
    ck_assert_int_eq(judge(STATS_BAND, 0.25, 6), STATS_PASS);
    ck_assert_int_eq(judge(STATS_BAND, 0.25, 10), STATS_PASS);
    ck_assert_int_eq(judge(STATS_BAND, 0.25, 5.99), STATS_FAIL);
    ck_assert_int_eq(judge(STATS_BAND, 0.25, 10.01), STATS_FAIL);
}
END_TEST

/* An improvement needs its interval below 0 as well: -90 % and +20 % are -35 % on average. */
START_TEST(improvement_must_be_sure)
{
    static const double arm[] = {1, 12}, base[] = {10, 10};
    struct stats_criterion c = {.rule = STATS_CHANGE, .bar = -0.15};
    struct stats_bootstrap b;
    struct stats_verdict v;
    stats_bootstrap_init(&b);
    ck_assert_int_eq(stats_judge(&c, arm, base, 2, &b, &v), 0);
    ck_assert_double_eq_tol(v.interval.point, -0.35, 1e-12);
    ck_assert_double_eq_tol(v.interval.high, 0.2, 1e-12);
    ck_assert_int_eq(v.status, STATS_FAIL);
}
END_TEST

/* Each unit by itself must be within the absolute limit. */
START_TEST(limit_holds_for_every_unit)
{
    static const double arm[] = {10, 61}, base[] = {10, 61};
    struct stats_criterion c = {.rule = STATS_MAX_RATIO, .bar = 2, .limit = 60};
    struct stats_bootstrap b;
    struct stats_verdict v;
    stats_bootstrap_init(&b);
    ck_assert_int_eq(stats_judge(&c, arm, base, 2, &b, &v), 0);
    ck_assert_int_eq(v.status, STATS_FAIL);
    ck_assert(v.over_limit);
    c.limit = 61;
    ck_assert_int_eq(stats_judge(&c, arm, base, 2, &b, &v), 0);
    ck_assert_int_eq(v.status, STATS_PASS);
}
END_TEST

START_TEST(what_is_missing_is_no_pass)
{
    static const double arm[] = {1, 1, 1}, zero[] = {2, 0, 2}, missing[] = {2, (double)NAN, 2};
    struct stats_criterion c = {.rule = STATS_CHANGE, .bar = -0.1};
    struct stats_bootstrap b;
    struct stats_verdict v;
    stats_bootstrap_init(&b);
    ck_assert_int_eq(stats_judge(&c, arm, zero, 1, &b, &v), 0);
    ck_assert_int_eq(v.status, STATS_INSUFFICIENT);
    ck_assert_int_eq(stats_judge(&c, arm, zero, 3, &b, &v), 0);
    ck_assert_int_eq(v.status, STATS_UNEVALUABLE);
    ck_assert_int_eq(stats_judge(&c, arm, missing, 3, &b, &v), 0);
    ck_assert_int_eq(v.status, STATS_UNEVALUABLE);
    ck_assert_int_eq(stats_judge(&c, missing, arm, 3, &b, &v), 0);
    ck_assert_int_eq(v.status, STATS_UNEVALUABLE);
    ck_assert_str_eq(stats_status_name(STATS_UNEVALUABLE), "unevaluable");
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("stats");
    TCase *t = tcase_create("stats");
    tcase_add_test(t, random_numbers_are_pythons);
    tcase_add_test(t, published_interval_is_matched);
    tcase_add_test(t, blocks_are_drawn_together);
    tcase_add_test(t, bad_options_are_refused);
    tcase_add_test(t, each_rule_has_its_bar);
    tcase_add_test(t, improvement_must_be_sure);
    tcase_add_test(t, limit_holds_for_every_unit);
    tcase_add_test(t, what_is_missing_is_no_pass);
    suite_add_tcase(s, t);
    return s;
}
