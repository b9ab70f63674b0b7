/*
 * What there is to know about a trace before it is simulated: how much work, how unequal, and
 * whether the key tells the cost.
 *
 * Quantiles are nearest ranks: the smallest value that at least the share q of all values does not
 * exceed.
 *
 * Predictability follows the paper's Table 8: the first half of the jobs (by arrival) teaches, the
 * second half is predicted. A prediction is the median of all durations of the first half (global),
 * or that of the job's key (per key; the global one for a key that is new), or that of its key only
 * if the key has at least 20 jobs whose p99 is at most 16 times their p50 (gated). Durations are
 * floored at 1 ms wherever they are compared. The error of a prediction is |log2(predicted /
 * actual)|; its tier is the number of terciles of the first half that are not above it.
 *
 * Near pairs: two jobs of the second half, at most 64 places apart in order of arrival, whose
 * durations differ by more than a factor of 2. The key orders them rightly when the per-key
 * prediction of the shorter one is the smaller; it may also leave them tied. The pairs are a random
 * sample with a seed: place and distance are uniform.
 */
#ifndef HARBINGER_TRACE_INFO_H
#define HARBINGER_TRACE_INFO_H

#include "trace/set.h"

enum { INFO_NEAR = 64, INFO_PAIRS = 200000, INFO_MIN_SAMPLES = 20, INFO_MAX_SPREAD = 16 };

struct info_score {
    double median_error; /* octaves */
    double within_2x;    /* share of the jobs */
    double tier_accuracy;
    double mean_error_ms; /* of |predicted - actual| */
};

struct info_spread {
    double p25, p50, p75, p90;
};

struct info {
    size_t jobs;
    uint32_t keys, producers;
    double span_s;      /* from the first arrival to the last */
    double work_s;      /* all durations together */
    double concurrency; /* busy workers on average: work over span; 0 when the span is 0 */
    double top_share;   /* of the work that the longest 1 % of the jobs has, rounded up to a job */
    struct {
        double mean, min, p25, p50, p75, p90, p95, p99, p999, max;
    } ms; /* durations */

    /* Within a key, p99 over p50 (0 counts as 1 us), over keys and over jobs. */
    struct info_spread spread_of_keys, spread_of_jobs;

    /* The halves; with fewer than two jobs nothing below is known. */
    size_t taught, predicted;
    uint32_t keys_taught, keys_routable; /* routable: what is gated has its own prediction */
    double jobs_routable, jobs_unseen;   /* shares of the second half, by their key */
    double terciles_ms[2];
    struct info_score global, per_key, gated;
    struct {
        size_t sampled, different;
        double right, tied, wrong; /* shares of the different ones */
    } pairs;
};

/* The set must be in order of arrival, with a job in it. 0, or ERR_NOMEM. */
int info_of(const struct trace_set *set, uint64_t seed, struct info *out) MUST_CHECK;

#endif
