#include "predict/histogram.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "lib/testmain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static unsigned by_formula(unsigned bins, double min, double max, double v)
{
    v = fmin(v, max);
    if (v < min)
        return 0;
    double i = floor(log(v / min) / (log(max / min) / (bins - 1))) + 1;
    return i < bins - 1 ? (unsigned)i : bins - 1;
}

static struct histogram *empty(const struct histogram_layout *l)
{
    struct histogram *h = aligned_alloc(64, l->bytes);
    ck_assert_ptr_nonnull(h);
    histogram_init(l, h, 0);
    return h;
}

static void add(const struct histogram_layout *l, struct histogram *h, double ms, double growth)
{
    histogram_add(l, h, histogram_sample(l, ms), growth);
}

/* The table gives the bin of the formula for millions of values, and around every edge. */
START_TEST(bins_are_those_of_the_formula)
{
    static const struct {
        unsigned bins;
        double min, max;
    } shapes[] = {{48, 1, 600000},   {48, 1, 1e9},   {8, 0.5, 77},
                  {1024, 1, 600000}, {1024, 3, 3.1}, {11, 1e-9, 1e15}};
    struct rng rng = {1};
    for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
        unsigned bins = shapes[s].bins;
        double min = shapes[s].min, max = shapes[s].max;
        struct histogram_layout *l = histogram_layout_new(bins, min, max);
        for (int i = 0; i < 1000000; i++) {
            double v = min / 4 * pow(16 * max / min, rng_unit(&rng));
            unsigned want = by_formula(bins, min, max, v);
            if (histogram_sample(l, v).bin != want)
                ck_abort_msg("%.17g: bin %u, not %u", v, histogram_sample(l, v).bin, want);
        }
        for (unsigned i = 1; i <= bins; i++) {
            double v = l->edge[i];
            for (int k = 0; k < 40; k++)
                v = nextafter(v, 0);
            for (int k = 0; k < 80; k++, v = nextafter(v, HUGE_VAL))
                ck_assert_uint_eq(histogram_sample(l, v).bin, by_formula(bins, min, max, v));
        }
        ck_assert_uint_eq(histogram_sample(l, 0).bin, 0);
        ck_assert_uint_eq(histogram_sample(l, 1e300).bin, bins - 1);
        histogram_layout_free(l);
    }
}
END_TEST

/* The first upper edges are those of the reference. */
START_TEST(edges_are_the_known_ones)
{
    static const double known[] = {0,      1,      1.3272, 1.7615, 2.3379, 3.1028,
                                   4.1181, 5.4656, 7.2540, 9.6275, 12.778};
    struct histogram_layout *l = histogram_layout_new(48, 1, 600000);
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        ck_assert_double_eq_tol(l->edge[i], known[i], 6e-5 * fmax(1, known[i]));
    ck_assert_double_eq_tol(l->edge[47], 452076, 1);
    ck_assert_double_eq(l->edge[48], 600000);
    histogram_layout_free(l);
}
END_TEST

/* Quantiles lie inside the bin in proportion to the weight before them, and rise with q. */
START_TEST(quantiles_interpolate_and_rise)
{
    struct histogram_layout *l = histogram_layout_new(48, 1, 600000);
    struct histogram *h = empty(l);
    ck_assert_double_eq(histogram_quantile(l, h, 0.5), 0);
    add(l, h, 0, 1);
    ck_assert_double_eq(histogram_quantile(l, h, 0.5), 0.5);
    ck_assert_double_le(histogram_quantile(l, h, 0), 1e-300);
    ck_assert_double_eq(histogram_quantile(l, h, 1), 1);
    add(l, h, 100, 1);
    add(l, h, 100, 1);
    add(l, h, 100, 1);
    double low = l->edge[histogram_bin(l, 100)], high = l->edge[histogram_bin(l, 100) + 1];
    ck_assert_double_eq(histogram_quantile(l, h, 0.25), 1);
    ck_assert_double_eq_tol(histogram_quantile(l, h, 0.5), low + (high - low) / 3, 1e-9);
    struct rng rng = {2};
    for (int i = 0; i < 5000; i++)
        add(l, h, exp(rng_unit(&rng) * 14), 1 / 0.995);
    double last = 0;
    for (int q = 0; q <= 1000; q++) {
        double v = histogram_quantile(l, h, q / 1000.0);
        ck_assert_double_ge(v, last);
        last = v;
    }
    ck_assert_double_le(last, 600000);
    free(h);
    histogram_layout_free(l);
}
END_TEST

/* After a half-life of new durations, a former regime weighs as much as the new one. */
START_TEST(decay_forgets)
{
    struct histogram_layout *l = histogram_layout_new(48, 1, 600000);
    struct histogram *h = empty(l);
    for (int i = 0; i < 5000; i++)
        add(l, h, 1000, 1 / 0.995);
    ck_assert_double_gt(histogram_quantile(l, h, 0.5), 700);
    for (int i = 0; i < 138; i++)
        add(l, h, 10, 1 / 0.995);
    ck_assert_double_gt(histogram_quantile(l, h, 0.5), 700);
    add(l, h, 10, 1 / 0.995);
    ck_assert_double_lt(histogram_quantile(l, h, 0.5), 15);
    ck_assert_uint_eq(h->n, 5139);
    free(h);
    histogram_layout_free(l);
}
END_TEST

/* Half a million events with the strongest decay, and gaps of years, keep every number in range. */
START_TEST(renormalising_stays_finite)
{
    struct histogram_layout *l = histogram_layout_new(48, 1, 600000);
    struct histogram *h = empty(l);
    for (int i = 0; i < 500000; i++) {
        if (i % 3 == 0)
            histogram_censor(l, h, 100);
        else
            add(l, h, i % 1000, 100);
    }
    ck_assert_ptr_null(histogram_check(l, h));
    for (int i = 0; i < 10; i++) {
        add(l, h, 5, 1e100);
        ck_assert_ptr_null(histogram_check(l, h));
    }
    for (mono_t at = MONO_S; at > 0 && at < MONO_NEVER / 8; at *= 2) {
        histogram_fade(l, h, 600 * MONO_S, at);
        add(l, h, 5, 1);
        ck_assert_ptr_null(histogram_check(l, h));
    }
    ck_assert_uint_eq(histogram_bin(l, histogram_quantile(l, h, 0.5)), histogram_bin(l, 5));
    free(h);
    histogram_layout_free(l);
}
END_TEST

/* One half-life halves what was there against what comes next; gaps below a second wait. */
START_TEST(a_half_life_halves)
{
    struct histogram_layout *l = histogram_layout_new(48, 1, 600000);
    struct histogram *h = empty(l);
    add(l, h, 10, 1);
    histogram_fade(l, h, 100 * MONO_S, MONO_S - 1);
    ck_assert_int_eq(h->decayed_at, 0);
    histogram_fade(l, h, 0, 500 * MONO_S);
    ck_assert_int_eq(h->decayed_at, 0);
    histogram_fade(l, h, 100 * MONO_S, 100 * MONO_S);
    add(l, h, 1000, 1);
    unsigned low = histogram_bin(l, 10), high = histogram_bin(l, 1000);
    ck_assert_double_eq_tol(histogram_weight(l, h, high) / histogram_weight(l, h, low), 2, 1e-9);
    ck_assert_double_eq_tol(histogram_mean(h), (10 + 2 * 1000) / 3.0, 1e-9);
    free(h);
    histogram_layout_free(l);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {bins_are_those_of_the_formula,
                                  edges_are_the_known_ones,
                                  quantiles_interpolate_and_rise,
                                  decay_forgets,
                                  renormalising_stays_finite,
                                  a_half_life_halves,
                                  NULL};
    return suite_of("histogram", tests);
}
