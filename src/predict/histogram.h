/*
 * Decaying histograms of durations over one shared set of geometric bins (paper 3.4, Equation 1).
 *
 * Bin 0 is [0, min). Bin i is [min r^(i-1), min r^i) with r = (max/min)^(1/(bins-1)); what is
 * longer than max counts as max. Every weight is relative: adding puts `scale` into a bin and then
 * raises `scale` by 1/decay, so that what lies there already has faded without being touched.
 * Wall-clock fading raises `scale` in the same way. All is divided by `scale` once it exceeds
 * HISTOGRAM_SCALE_MAX.
 *
 * Invariants: weights, sum and censored are finite and >= 0; scale is in [1, HISTOGRAM_SCALE_MAX];
 * the bins add up to total, and each group of eight bins to its group sum, but for rounding.
 */
#ifndef HARBINGER_PREDICT_HISTOGRAM_H
#define HARBINGER_PREDICT_HISTOGRAM_H

#include "base/mono.h"

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_SCALE_MAX 1e100
#define HISTOGRAM_GROUP     8 /* bins per group sum: one cache line of doubles */

/* The bins, computed once and shared by all histograms of one predictor. */
struct histogram_layout {
    unsigned bins;
    unsigned groups;
    unsigned bins_at; /* index into w[] of bin 0; the group sums start at 0 */
    size_t bytes;     /* of one struct histogram */
    double min_ms, max_ms;
    double *edge;       /* bins + 1: bin i covers edge[i] .. edge[i + 1] */
    double *first;      /* bins + 1: the smallest double of bin i; infinity after the last */
    uint16_t *start;    /* by the leading bits of a duration: the bin of the smallest such one */
    unsigned shift;     /* of a double's bits, to get its leading ones */
    uint64_t start_min; /* leading bits of min_ms */
    size_t n_start;
};

/* One cache line of sums, then one for each eight groups, then the bins: what an addition touches
 * is three lines. */
struct histogram {
    double total;
    double sum;        /* of weight x duration, for the mean */
    double censored;   /* weight of the censored marks, which lie in no bin */
    double scale;      /* weight of the next duration */
    uint64_t n;        /* durations ever added; fades never */
    mono_t decayed_at; /* until when wall-clock fading has been applied */
    double unused[2];
    double w[];
};

_Static_assert(sizeof(struct histogram) == HISTOGRAM_GROUP * sizeof(double), "one cache line");

/* Returned to the caller, free with histogram_layout_free; NULL when memory is short. Needs
 * bins in 8..1024 and 0 < min_ms < max_ms. */
struct histogram_layout *histogram_layout_new(unsigned bins, double min_ms, double max_ms);
void histogram_layout_free(struct histogram_layout *l);

/* What it has allocated. */
size_t histogram_layout_bytes(const struct histogram_layout *l);

/* The bin of a duration >= 0. Equals 0 below min_ms, else
 * min(floor(ln(ms / min) / ln r) + 1, bins - 1). */
unsigned histogram_bin(const struct histogram_layout *l, double ms);

/* Makes the caller's l->bytes bytes an empty histogram. */
void histogram_init(const struct histogram_layout *l, struct histogram *h, mono_t now);

/* A duration with its bin: looked up once, added to several histograms. */
struct histogram_sample {
    double ms; /* at most max_ms */
    unsigned bin;
};

/* Of a duration >= 0. */
struct histogram_sample histogram_sample(const struct histogram_layout *l, double ms);

/* `growth` is 1 / decay. */
void histogram_add(const struct histogram_layout *l, struct histogram *h, struct histogram_sample s,
                   double growth);

/* Adds a mark without a duration; it ages the durations, and they it, like one of them. */
void histogram_censor(const struct histogram_layout *l, struct histogram *h, double growth);

/* Halves the weight of the past once per half-life since the last fading; gaps below one second
 * wait for the next call. half_life_ns 0 = never. */
void histogram_fade(const struct histogram_layout *l, struct histogram *h, mono_t half_life_ns,
                    mono_t now);

/* The q-quantile, linear inside its bin; 0 when empty. */
double histogram_quantile(const struct histogram_layout *l, const struct histogram *h, double q);

/* The weighted mean; 0 when empty. */
double histogram_mean(const struct histogram *h);

/* censored / (total + censored); 0 when empty. */
double histogram_censored_share(const struct histogram *h);

/* The weight in bin i. */
static inline double histogram_weight(const struct histogram_layout *l, const struct histogram *h,
                                      unsigned i)
{
    return h->w[l->bins_at + i];
}

/* Puts `weight` into bin i and its group: for restoring. Total is the caller's to set. */
void histogram_set_weight(const struct histogram_layout *l, struct histogram *h, unsigned i,
                          double weight);

/* NULL, or words for the first broken invariant. */
const char *histogram_check(const struct histogram_layout *l, const struct histogram *h);

#endif
