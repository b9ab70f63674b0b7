#include "predict/boundaries.h"

#include "lib/testmain.h"

#include <math.h>
#include <stdlib.h>

static struct histogram_layout *layout;

static struct histogram *of(double a, int n_a, double b, int n_b)
{
    struct histogram *h = aligned_alloc(64, layout->bytes);
    ck_assert_ptr_nonnull(h);
    histogram_init(layout, h, 0);
    for (int i = 0; i < n_a; i++)
        histogram_add(layout, h, histogram_sample(layout, a), 1);
    for (int i = 0; i < n_b; i++)
        histogram_add(layout, h, histogram_sample(layout, b), 1);
    return h;
}

static enum boundaries_result refresh(struct boundaries *b, double a, int n_a, double c, int n_c)
{
    struct histogram *h = of(a, n_a, c, n_c);
    enum boundaries_result r = boundaries_refresh(b, layout, h);
    free(h);
    return r;
}

static void setup(void)
{
    layout = histogram_layout_new(48, 1, 600000);
}

static void teardown(void)
{
    histogram_layout_free(layout);
}

/* Each boundary resists on its own, and a set that stays as a whole is not published again. */
START_TEST(each_boundary_resists_by_itself)
{
    struct boundaries b;
    boundaries_init(&b, 3, 0.1);
    ck_assert(!boundaries_ready(&b));
    ck_assert_int_eq(refresh(&b, 10, 50, 1000, 50), BOUNDARIES_PUBLISHED);
    double low = b.at[0], high = b.at[1];
    ck_assert_int_eq(refresh(&b, 10, 51, 1000, 49), BOUNDARIES_SAME);
    ck_assert_double_eq(b.at[0], low);
    ck_assert_int_eq(refresh(&b, 10, 51, 9000, 49), BOUNDARIES_PUBLISHED);
    ck_assert_double_eq(b.at[0], low);
    ck_assert_double_gt(b.at[1], 5 * high);
    ck_assert_uint_eq(b.seq, 2);
}
END_TEST

/* When the mix of kept and fresh values does not rise, the fresh set is taken whole. */
START_TEST(a_falling_mix_gives_way)
{
    struct boundaries b;
    boundaries_init(&b, 3, 0.3);
    b.n = 2;
    b.seq = 1;
    b.at[0] = 11.5;
    b.at[1] = 40;
    struct histogram *h =
        of(10, 100, 10, 0); /* fresh: 10.68 and 11.73; the first alone would stay */
    b.at[0] = 11.8;
    ck_assert_int_eq(boundaries_refresh(&b, layout, h), BOUNDARIES_PUBLISHED);
    ck_assert_double_eq_tol(b.at[0], 10.678, 1e-3);
    ck_assert_double_eq_tol(b.at[1], 11.728, 1e-3);
    free(h);
}
END_TEST

/* Nothing learned gives no boundaries, and what is published stays. */
START_TEST(degenerate_sets_are_discarded)
{
    struct boundaries b;
    boundaries_init(&b, 3, 0.1);
    ck_assert_int_eq(refresh(&b, 10, 0, 10, 0), BOUNDARIES_DEGENERATE);
    ck_assert(!boundaries_ready(&b));
    ck_assert_int_eq(refresh(&b, 10, 50, 1000, 50), BOUNDARIES_PUBLISHED);
    ck_assert_int_eq(refresh(&b, 10, 0, 10, 0), BOUNDARIES_DEGENERATE);
    ck_assert_uint_eq(b.n, 2);
}
END_TEST

/* One level is ready from the start and its empty set never changes. */
START_TEST(one_level_is_always_ready)
{
    struct boundaries b;
    boundaries_init(&b, 1, 0.1);
    ck_assert(boundaries_ready(&b));
    ck_assert_int_eq(refresh(&b, 10, 50, 1000, 50), BOUNDARIES_SAME);
    ck_assert_uint_eq(boundaries_level(&b, 1e9), 0);
}
END_TEST

/* The level is the number of boundaries reached; memory widens its range by a tenth on both sides.
 */
START_TEST(memory_widens_a_level)
{
    struct boundaries b;
    boundaries_init(&b, 3, 0.1);
    b.n = 2;
    b.seq = 1;
    b.at[0] = 100;
    b.at[1] = 1000;
    static const struct {
        double ms;
        unsigned remembered, level;
    } rows[] = {{99, 255, 0},  {100, 255, 1}, {1000, 255, 2}, {109, 0, 0},  {110.0001, 0, 1},
                {90, 1, 1},    {89.9, 1, 0},  {1099, 1, 1},   {1101, 1, 2}, {900, 2, 2},
                {899.9, 2, 1}, {0, 2, 0},     {1e9, 0, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(boundaries_sticky_level(&b, rows[i].ms, rows[i].remembered) == rows[i].level,
                      "%g from %u", rows[i].ms, rows[i].remembered);
    ck_assert(!boundaries_rise((const double[]){0, 1}, 2));
    ck_assert(!boundaries_rise((const double[]){2, 2}, 2));
    ck_assert(!boundaries_rise((const double[]){2, (double)NAN}, 2));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("boundaries");
    TCase *tc = tcase_create("boundaries");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, each_boundary_resists_by_itself);
    tcase_add_test(tc, a_falling_mix_gives_way);
    tcase_add_test(tc, degenerate_sets_are_discarded);
    tcase_add_test(tc, one_level_is_always_ready);
    tcase_add_test(tc, memory_widens_a_level);
    suite_add_tcase(s, tc);
    return s;
}
