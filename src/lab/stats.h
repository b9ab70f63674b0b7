/*
 * Intervals of paired comparisons, and what they say about a bar that was set beforehand.
 *
 * A unit is a seed or a window in which two arms saw the same jobs. Its value is the relative change
 * (arm - base) / base, or the ratio arm / base; the point is the plain mean of the units, its interval
 * is from bootstrap resamples of them.
 */
#ifndef HARBINGER_LAB_STATS_H
#define HARBINGER_LAB_STATS_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The reference's: 10,000 resamples, seed 2026 anew for each criterion, 0.95, blocks of 1. */
struct stats_bootstrap {
    unsigned resamples; /* 1..1000000 */
    uint64_t seed;
    double confidence; /* in (0, 1) */
    unsigned block;    /* units in a row that are drawn together; 1 = each by itself */
};

void stats_bootstrap_init(struct stats_bootstrap *b);

struct stats_interval {
    double point, low, high;
};

/*
 * The mean of values[0..n) and its interval: sorted, the means of the resamples with index
 * floor(resamples x (1 - confidence) / 2) and ceil(resamples x (1 + confidence) / 2) - 1. Draws are
 * floor(random() x number of starts). With blocks, starts are 0..n - block: blocks overlap and do not
 * wrap; as many as needed, the last one cut. 0; ERR_INVALID for n < 2, a value that is not finite, an
 * option out of range or a block longer than n; ERR_NOMEM.
 */
int stats_bootstrap_mean(const double *values, size_t n, const struct stats_bootstrap *b,
                         struct stats_interval *out) MUST_CHECK;

/* ---- criteria ---- */

enum stats_rule {
    STATS_CHANGE, /* bar < 0: point <= bar and high < 0; bar = 0: high < 0; bar > 0: high <= bar */
    STATS_MAX_RATIO, /* high <= bar, and each unit's own value within the limit */
    STATS_MIN_RATIO, /* low >= bar */
    STATS_BAND,      /* of the change: -bar <= low and high <= bar */
};

struct stats_criterion {
    enum stats_rule rule;
    double bar;
    double limit; /* of each unit's value of the arm, in its own unit; 0: none */
};

#define STATS_STATUS_MAP(X)                                                   \
    X(STATS_PASS, "pass")                                                     \
    X(STATS_FAIL, "fail")                                                     \
    X(STATS_INSUFFICIENT, "insufficient") /* fewer than two units; no pass */ \
    X(STATS_UNEVALUABLE, "unevaluable")   /* a base is missing or 0; no pass */

enum stats_status {
#define STATS_STATUS_ENUM(name, word) name,
    STATS_STATUS_MAP(STATS_STATUS_ENUM)
#undef STATS_STATUS_ENUM
        STATS_N_STATUSES
};

const char *stats_status_name(enum stats_status s);

struct stats_verdict {
    enum stats_status status;
    struct stats_interval
        interval;  /* of changes or ratios, by the rule; 0 unless passed or failed */
    double margin; /* from what the rule looks at to the bar: positive on the good side */
    bool over_limit;
};

/* Units i of arm[0..n) and base[0..n) belong together; NaN: missing. 0, or as stats_bootstrap_mean
 * for a bad option or no memory. */
int stats_judge(const struct stats_criterion *c, const double *arm, const double *base, size_t n,
                const struct stats_bootstrap *b, struct stats_verdict *out) MUST_CHECK;

#endif
