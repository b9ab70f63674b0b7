/*
 * Nearest-rank quantiles of whole numbers, by selection in place.
 *
 * The p-quantile of n values is the one with rank ceil(p x n), counted from 1, at least 1: a value
 * that occurred, never an average of two.
 */
#ifndef HARBINGER_LAB_QUANTILE_H
#define HARBINGER_LAB_QUANTILE_H

#include <stddef.h>
#include <stdint.h>

/* The index of the p-quantile among n > 0 values in rising order; p in 0..1. */
size_t quantile_index(size_t n, double p);

/* Reorders a[0..n) so that a[k], k < n, is what it were in rising order, nothing before it is larger
 * and nothing behind it smaller. Linear time, but for rare bad cases, n log n. */
void quantile_select(uint64_t *a, size_t n, size_t k);

/* Brings a[0..n) into rising order, in its own memory: the C library's sort takes as much again. */
void quantile_sort(uint64_t *a, size_t n);

/* out[i] = the p[i]-quantile of a[0..n), n > 0, which is reordered; p rises. */
void quantiles(uint64_t *a, size_t n, const double *p, size_t n_p, uint64_t *out);

#endif
