#include "predict/histogram.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The leading bits of a double that select the first guess of its bin: enough that no two bins
 * begin within one selection (a few more steps are taken when 1024 bins are packed too densely for
 * that). */
enum { START_ENTRIES_MAX = 4096, MANTISSA_BITS = 52 };

/* Fading by less than this is no different from forgetting; it keeps scale finite. */
#define FADE_MIN 1e-100

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static unsigned round_up(unsigned n, unsigned to)
{
    return (n + to - 1) / to * to;
}

/* The definition of a bin. Logarithms are too slow for each duration, so they only build the table.
 */
static unsigned bin_by_formula(const struct histogram_layout *l, double ms)
{
    if (ms < l->min_ms)
        return 0;
    double log_ratio = log(l->max_ms / l->min_ms) / (l->bins - 1);
    double i = floor(log(ms / l->min_ms) / log_ratio) + 1;
    return i < l->bins - 1 ? (unsigned)i : l->bins - 1;
}

/* The smallest double that the formula puts into bin i: positive doubles are ordered as their bits
 * are. */
static double first_of_bin(const struct histogram_layout *l, unsigned i)
{
    uint64_t low = bits_of(l->edge[i] * (1 - 1e-9)), high = bits_of(l->edge[i] * (1 + 1e-9));
    while (low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;
        if (bin_by_formula(l, double_of(middle)) >= i)
            high = middle;
        else
            low = middle;
    }
    return double_of(high);
}

static void fill_edges(struct histogram_layout *l)
{
    l->edge[0] = 0;
    for (unsigned i = 0; i < l->bins; i++)
        l->edge[i + 1] = l->min_ms * pow(l->max_ms / l->min_ms, (double)i / (l->bins - 1));
    l->edge[l->bins] = l->max_ms;
    l->first[0] = 0;
    l->first[1] = l->min_ms;
    for (unsigned i = 2; i < l->bins; i++)
        l->first[i] = first_of_bin(l, i);
    l->first[l->bins] = HUGE_VAL;
}

/* Takes as many mantissa bits as START_ENTRIES_MAX allows, but no more than separate the bins. */
static void choose_shift(struct histogram_layout *l)
{
    double ratio = pow(l->max_ms / l->min_ms, 1.0 / (l->bins - 1));
    unsigned extra = 1;
    while (extra < 12 && 1 + ldexp(1, -(int)extra) >= ratio)
        extra++;
    for (;; extra--) {
        l->shift = MANTISSA_BITS - extra;
        l->start_min = bits_of(l->min_ms) >> l->shift;
        l->n_start = (size_t)((bits_of(l->max_ms) >> l->shift) - l->start_min + 1);
        if (l->n_start <= START_ENTRIES_MAX || extra == 0)
            return;
    }
}

static void fill_start(struct histogram_layout *l)
{
    unsigned bin = 1;
    for (size_t k = 0; k < l->n_start; k++) {
        double lowest = double_of((l->start_min + k) << l->shift);
        while (lowest >= l->first[bin + 1])
            bin++;
        l->start[k] = (uint16_t)bin;
    }
}

struct histogram_layout *histogram_layout_new(unsigned bins, double min_ms, double max_ms)
{
    assert(bins >= 8 && bins <= 1024 && min_ms > 0 && min_ms < max_ms && isfinite(max_ms));
    struct histogram_layout *l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->bins = bins;
    l->groups = (bins + HISTOGRAM_GROUP - 1) / HISTOGRAM_GROUP;
    l->bins_at = round_up(l->groups, HISTOGRAM_GROUP);
    size_t lines = 1 + (l->bins_at + round_up(bins, HISTOGRAM_GROUP)) / HISTOGRAM_GROUP;
    /* An odd number of lines: with a power of two, the busy first lines of all histograms would
     * share a few sets of the caches. */
    l->bytes = (lines | 1) * sizeof(struct histogram);
    l->min_ms = min_ms;
    l->max_ms = max_ms;
    choose_shift(l);
    l->edge = calloc(bins + 1, sizeof *l->edge);
    l->first = calloc(bins + 1, sizeof *l->first);
    l->start = calloc(l->n_start, sizeof *l->start);
    if (l->edge == NULL || l->first == NULL || l->start == NULL) {
        histogram_layout_free(l);
        return NULL;
    }
    fill_edges(l);
    fill_start(l);
    return l;
}

void histogram_layout_free(struct histogram_layout *l)
{
    if (l == NULL)
        return;
    free(l->edge);
    free(l->first);
    free(l->start);
    free(l);
}

size_t histogram_layout_bytes(const struct histogram_layout *l)
{
    return sizeof *l + (l->bins + 1) * (sizeof *l->edge + sizeof *l->first) +
           l->n_start * sizeof *l->start;
}

unsigned histogram_bin(const struct histogram_layout *l, double ms)
{
    if (ms < l->min_ms)
        return 0;
    uint64_t k = (bits_of(ms) >> l->shift) - l->start_min;
    if (k >= l->n_start)
        return l->bins - 1;
    unsigned i = l->start[k];
    i += ms >= l->first[i + 1];
    while (ms >= l->first[i + 1])
        i++;
    return i;
}

void histogram_init(const struct histogram_layout *l, struct histogram *h, mono_t now)
{
    memset(h, 0, l->bytes);
    h->scale = 1;
    h->decayed_at = now;
}

static void renormalise(const struct histogram_layout *l, struct histogram *h)
{
    double by = 1 / h->scale;
    size_t n = l->bins_at + l->bins;
    for (size_t i = 0; i < n; i++)
        h->w[i] *= by;
    h->total *= by;
    h->sum *= by;
    h->censored *= by;
    h->scale = 1;
}

static void grow(const struct histogram_layout *l, struct histogram *h, double growth)
{
    h->scale *= growth;
    if (h->scale > HISTOGRAM_SCALE_MAX)
        renormalise(l, h);
}

struct histogram_sample histogram_sample(const struct histogram_layout *l, double ms)
{
    if (ms > l->max_ms)
        ms = l->max_ms;
    return (struct histogram_sample){ms, histogram_bin(l, ms)};
}

void histogram_add(const struct histogram_layout *l, struct histogram *h, struct histogram_sample s,
                   double growth)
{
    h->w[s.bin / HISTOGRAM_GROUP] += h->scale;
    h->w[l->bins_at + s.bin] += h->scale;
    h->total += h->scale;
    h->sum += h->scale * s.ms;
    h->n++;
    grow(l, h, growth);
}

void histogram_censor(const struct histogram_layout *l, struct histogram *h, double growth)
{
    h->censored += h->scale;
    grow(l, h, growth);
}

void histogram_fade(const struct histogram_layout *l, struct histogram *h, mono_t half_life_ns,
                    mono_t now)
{
    mono_t gap = now - h->decayed_at;
    if (half_life_ns == 0 || gap < MONO_S)
        return;
    double left = exp2(-(double)gap / (double)half_life_ns);
    grow(l, h, 1 / fmax(left, FADE_MIN));
    h->decayed_at = now;
}

/* fmin and fmax are calls, for the sake of NaN, which does not occur here. */
static inline double smaller(double a, double b)
{
    return a < b ? a : b;
}

static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

/*
 * The place of `target` among HISTOGRAM_GROUP weights whose predecessors weigh *before: the index
 * of the first at which the running sum reaches it, or the last; *before becomes the weight ahead
 * of that one. Counting instead of stopping early: where the target lies is not predictable, and a
 * mispredicted branch costs more than the additions.
 */
static inline unsigned place_of(const double *w, double target, double *before)
{
    double sum = *before, ahead = *before;
    unsigned place = 0;
#pragma GCC unroll 8
    for (unsigned i = 0; i + 1 < HISTOGRAM_GROUP; i++) {
        sum += w[i];
        place += sum < target;
        ahead = sum < target ? sum : ahead;
    }
    *before = ahead;
    return place;
}

/* The group that the target lies in; whole runs of groups first, of which 48 bins have one. */
static unsigned group_of(const struct histogram_layout *l, const struct histogram *h, double target,
                         double *before)
{
    unsigned base = 0;
    for (; base + HISTOGRAM_GROUP < l->groups; base += HISTOGRAM_GROUP) {
        double sum = *before;
        for (unsigned i = 0; i < HISTOGRAM_GROUP; i++)
            sum += h->w[base + i];
        if (sum >= target)
            break;
        *before = sum;
    }
    return base + place_of(h->w + base, target, before);
}

/* Rounding can put the target just beyond the last bin that weighs anything: that bin's end, then.
 */
static double end_of_last(const struct histogram_layout *l, const struct histogram *h, unsigned i)
{
    i = i < l->bins ? i : l->bins - 1;
    while (i > 0 && histogram_weight(l, h, i) <= 0)
        i--;
    return l->edge[i + 1];
}

double histogram_quantile(const struct histogram_layout *l, const struct histogram *h, double q)
{
    if (h->total <= 0)
        return 0;
    double target = larger(smaller(larger(q, 0), 1) * h->total, DBL_MIN);
    double before = 0;
    unsigned i = group_of(l, h, target, &before) * HISTOGRAM_GROUP;
    if (i >= l->bins)
        return end_of_last(l, h, i);
    i += place_of(h->w + l->bins_at + i, target, &before);
    double weight = i < l->bins ? histogram_weight(l, h, i) : 0;
    if (weight <= 0)
        return end_of_last(l, h, i);
    double part = smaller((target - before) / weight, 1);
    return l->edge[i] + part * (l->edge[i + 1] - l->edge[i]);
}

double histogram_mean(const struct histogram *h)
{
    return h->total > 0 ? h->sum / h->total : 0;
}

double histogram_censored_share(const struct histogram *h)
{
    return h->censored > 0 ? h->censored / (h->total + h->censored) : 0;
}

void histogram_set_weight(const struct histogram_layout *l, struct histogram *h, unsigned i,
                          double weight)
{
    assert(i < l->bins);
    h->w[l->bins_at + i] = weight;
    h->w[i / HISTOGRAM_GROUP] += weight;
}

static bool about(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
}

const char *histogram_check(const struct histogram_layout *l, const struct histogram *h)
{
    const double sums[] = {h->total, h->sum, h->censored};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        if (!isfinite(sums[i]) || sums[i] < 0)
            return "a sum of a histogram is negative or not finite";
    if (!(h->scale >= 1 && h->scale <= HISTOGRAM_SCALE_MAX))
        return "a histogram's scale is out of range";
    double total = 0;
    for (unsigned g = 0; g < l->groups; g++) {
        double group = 0;
        for (unsigned i = g * HISTOGRAM_GROUP; i < l->bins && i < (g + 1) * HISTOGRAM_GROUP; i++) {
            double w = histogram_weight(l, h, i);
            if (!isfinite(w) || w < 0)
                return "a bin's weight is negative or not finite";
            group += w;
        }
        if (!about(group, h->w[g]))
            return "a group's weight is not that of its bins";
        total += group;
    }
    if (h->sum > h->total * l->max_ms * (1 + 1e-6))
        return "a histogram's mean is above its range";
    return about(total, h->total) ? NULL : "a histogram's total is not that of its bins";
}
