#include "lab/quantile.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SMALL = 24, ROUNDS_MAX = 64 };

/* A rank may not come out one too high because p x n was rounded up: 0.95 x 100 is 95. */
size_t quantile_index(size_t n, double p)
{
    assert(n > 0 && p >= 0 && p <= 1);
    double exact = p * (double)n, whole = round(exact);
    double rank = fabs(exact - whole) < 1e-12 * (double)n ? whole : ceil(exact);
    return rank < 1 ? 0 : (size_t)rank - 1;
}

static void swap(uint64_t *a, size_t i, size_t j)
{
    uint64_t x = a[i];
    a[i] = a[j];
    a[j] = x;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median3(uint64_t a, uint64_t b, uint64_t c)
{
    if (a > b)
        return b > c ? b : (a > c ? c : a);
    return a > c ? a : (b > c ? c : b);
}

/* Tukey's ninther of values spread over the range: sorted input is no bad case. */
static uint64_t pivot_of(const uint64_t *a, size_t n)
{
    size_t s = n / 9;
    return median3(median3(a[0], a[s], a[2 * s]), median3(a[3 * s], a[4 * s], a[5 * s]),
                   median3(a[6 * s], a[7 * s], a[n - 1]));
}

/* Splits a[0..n) into less, equal and greater; [*from, *to) are the equal ones. */
static void split(uint64_t *a, size_t n, size_t *from, size_t *to)
{
    uint64_t pivot = pivot_of(a, n);
    size_t less = 0, i = 0, greater = n;
    while (i < greater) {
        if (a[i] < pivot)
            swap(a, less++, i++);
        else if (a[i] > pivot)
            swap(a, i, --greater);
        else
            i++;
    }
    *from = less;
    *to = greater;
}

/* Each round usually leaves less than half; after too many of them sorting decides. */
void quantile_select(uint64_t *a, size_t n, size_t k)
{
    assert(k < n);
    for (int round = 0; n > SMALL && round < ROUNDS_MAX; round++) {
        size_t from, to;
        split(a, n, &from, &to);
        if (k < from) {
            n = from;
        } else if (k >= to) {
            a += to;
            n -= to;
            k -= to;
        } else {
            return;
        }
    }
    qsort(a, n, sizeof *a, compare);
}

void quantiles(uint64_t *a, size_t n, const double *p, size_t n_p, uint64_t *out)
{
    size_t done = 0; /* a[0..done) are not larger than what follows */
    for (size_t i = 0; i < n_p; i++) {
        size_t k = quantile_index(n, p[i]);
        assert(k >= done || done == 0 || k + 1 == done);
        if (k >= done)
            quantile_select(a + done, n - done, k - done);
        out[i] = a[k];
        done = k + 1 > done ? k + 1 : done;
    }
}
