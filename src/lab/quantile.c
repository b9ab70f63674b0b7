#include "lab/quantile.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

enum { SMALL = 24, ROUNDS_MAX = 64, TOP_BIT = 63 };

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

static void sort_few(uint64_t *a, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && a[k - 1] > a[k]; k--)
            swap(a, k - 1, k);
}

/* Radix exchange: those without the bit come first. As deep as there are bits, whatever the input. */
static void sort_by_bits(uint64_t *a, size_t n, int bit)
{
    for (; n > SMALL && bit >= 0; bit--) {
        size_t zeros = 0, end = n;
        while (zeros < end) {
            if ((a[zeros] >> bit & 1) == 0)
                zeros++;
            else
                swap(a, zeros, --end);
        }
        sort_by_bits(a, zeros, bit - 1);
        a += zeros;
        n -= zeros;
    }
    if (n <= SMALL)
        sort_few(a, n);
}

void quantile_sort(uint64_t *a, size_t n)
{
    sort_by_bits(a, n, TOP_BIT);
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
    quantile_sort(a, n);
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
