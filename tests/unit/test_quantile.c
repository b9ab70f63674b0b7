#include "base/compiler.h"
#include "base/rng.h"
#include "lab/quantile.h"
#include "lib/testmain.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 3000 };

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* ceil(p n), from 1 on: of 100 values the 95th is p95, of 101 the 96th. */
START_TEST(ranks_are_nearest)
{
    ck_assert_uint_eq(quantile_index(100, 0.95), 94);
    ck_assert_uint_eq(quantile_index(101, 0.95), 95);
    ck_assert_uint_eq(quantile_index(100, 0.99), 98);
    ck_assert_uint_eq(quantile_index(1, 0.5), 0);
    ck_assert_uint_eq(quantile_index(2, 0.5), 0);
    ck_assert_uint_eq(quantile_index(3, 0.5), 1);
    ck_assert_uint_eq(quantile_index(9, 1.0 / 3), 2);
    ck_assert_uint_eq(quantile_index(9, 2.0 / 3), 5);
    ck_assert_uint_eq(quantile_index(10, 0), 0);
    ck_assert_uint_eq(quantile_index(10, 1), 9);
    ck_assert_uint_eq(quantile_index(1000000, 0.999999), 999998);
    ck_assert_uint_eq(quantile_index(110, 0.1), 10); /* 0.1 x 110 is a little above 11 */
}
END_TEST

/* Rising, falling, equal, few different, all different values. */
static uint64_t value(struct rng *r, int kind, size_t i, size_t n)
{
    switch (kind) {
    case 0: return i;
    case 1: return n - i;
    case 2: return 7;
    case 3: return rng_next(r) % 3;
    case 4: return i % 2 == 0 ? i : n - i;
    default: return rng_next(r);
    }
}

START_TEST(selection_finds_what_sorting_finds)
{
    static const double p[] = {0, 0.01, 0.5, 0.5, 0.95, 0.99, 1};
    static uint64_t a[MOST], sorted[MOST], again[MOST];
    struct rng rng = {1};
    for (int round = 0; round < 600; round++) {
        size_t n = 1 + rng_next(&rng) % (round % 10 == 0 ? MOST : 60);
        uint64_t out[ARRAY_SIZE(p)];
        for (size_t i = 0; i < n; i++)
            a[i] = sorted[i] = value(&rng, round % 6, i, n);
        qsort(sorted, n, sizeof sorted[0], compare);
        memcpy(again, a, n * sizeof a[0]);
        quantile_sort(again, n);
        ck_assert_mem_eq(again, sorted, n * sizeof a[0]);
        quantiles(a, n, p, ARRAY_SIZE(p), out);
        for (size_t i = 0; i < ARRAY_SIZE(p); i++)
            ck_assert_uint_eq(out[i], sorted[quantile_index(n, p[i])]);
        qsort(a, n, sizeof a[0], compare);
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_eq(a[i], sorted[i]);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("quantile");
    TCase *t = tcase_create("quantile");
    tcase_add_test(t, ranks_are_nearest);
    tcase_add_test(t, selection_finds_what_sorting_finds);
    suite_add_tcase(s, t);
    return s;
}
