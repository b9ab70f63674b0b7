/* Options of the predictor, and the words and labels that go with its enums. */
#include "harbinger/predictor.h"

#include <math.h>
#include <stdio.h>

#define NS_PER_S   INT64_C(1000000000)
#define NS_PER_MIN (60 * NS_PER_S)
#define NS_MAX     (INT64_C(365) * 24 * 60 * NS_PER_MIN)

/* Its inverse times HISTOGRAM_SCALE_MAX is still a number. */
#define DECAY_MIN 1e-100

enum {
    BINS_MIN = 8,
    BINS_MAX = 1024,
    KEYS_MAX = 1 << 23,
    COUNT_MAX = 1 << 30,
    SIZE_EXPONENT_MAX = 63
};

const char *hb_reason_name(enum hb_reason reason)
{
    switch (reason) {
#define REASON_CASE(name, word) \
    case name: return word;
        HB_REASON_MAP(REASON_CASE)
#undef REASON_CASE
    default: return "unknown";
    }
}

const char *hb_summary_name(enum hb_summary summary)
{
    switch (summary) {
#define SUMMARY_CASE(name, word) \
    case name: return word;
        HB_SUMMARY_MAP(SUMMARY_CASE)
#undef SUMMARY_CASE
    default: return "unknown";
    }
}

size_t hb_size_label(double size, char out[HB_SIZE_LABEL_MAX])
{
    int exponent = 0;
    if (size >= 1) /* false for NaN */
        exponent = isinf(size) ? SIZE_EXPONENT_MAX : ilogb(size);
    if (exponent > SIZE_EXPONENT_MAX)
        exponent = SIZE_EXPONENT_MAX;
    return (size_t)snprintf(out, HB_SIZE_LABEL_MAX, "s%d", exponent);
}

void hb_predictor_options_init(struct hb_predictor_options *o)
{
    *o = (struct hb_predictor_options){
        .levels = 3,
        .default_level = 1,
        .summary = HB_SUMMARY_MEDIAN,
        .min_samples = 20,
        .spread_quantile = 0.99,
        .max_spread_ratio = 16,
        .max_censored = 0.05,
        .stale_after_ns = 30 * NS_PER_MIN,
        .decay = 0.995,
        .pooled_decay = 0.9999,
        .half_life_ns = 10 * NS_PER_MIN,
        .bins = 48,
        .min_ms = 1,
        .max_ms = 600000,
        .boundary_every = 256,
        .pooled_min_samples = 100,
        .hysteresis = 0.10,
        .max_keys = 16384,
        .idle_eviction_ns = 10 * NS_PER_MIN,
        .cold_eviction_ns = 30 * NS_PER_S,
    };
}

/* One sentence per rule; the first that does not hold is reported. NaN holds to none. */
struct rule {
    bool holds;
    const char *text;
};

static bool within(double v, double low, double high)
{
    return v >= low && v <= high;
}

static bool duration_ok(int64_t ns)
{
    return ns >= 0 && ns <= NS_MAX;
}

bool hb_predictor_options_valid(const struct hb_predictor_options *o, char *why, size_t size)
{
    const struct rule rules[] = {
        {within(o->levels, 1, HB_LEVELS_MAX), "levels must be 1..255"},
        {o->default_level < o->levels, "default_level must be below levels"},
        {(unsigned)o->summary < HB_N_SUMMARIES, "summary must be one of the listed ones"},
        {within(o->min_samples, 1, COUNT_MAX), "min_samples must be 1..2^30"},
        {within(o->spread_quantile, 0.5, 1) && o->spread_quantile > 0.5,
         "spread_quantile must be above 0.5 and at most 1"},
        {o->max_spread_ratio == 0 || within(o->max_spread_ratio, 1, 1e9),
         "max_spread_ratio must be 1..1e9, or 0 for no check"},
        {within(o->max_censored, 0, 1), "max_censored must be 0..1"},
        {duration_ok(o->stale_after_ns), "stale_after must be 0..365 days"},
        {within(o->decay, DECAY_MIN, 1), "decay must be above 0 and at most 1"},
        {within(o->pooled_decay, DECAY_MIN, 1), "pooled_decay must be above 0 and at most 1"},
        {duration_ok(o->half_life_ns), "half_life must be 0..365 days"},
        {within(o->bins, BINS_MIN, BINS_MAX), "bins must be 8..1024"},
        {within(o->min_ms, 1e-9, 1e15), "min_ms must be 1e-9..1e15"},
        {within(o->max_ms, 1e-9, 1e15) && o->max_ms >= 1.01 * o->min_ms,
         "max_ms must be above min_ms by 1 % at least, and at most 1e15"},
        {within(o->boundary_every, 1, COUNT_MAX), "boundary_every must be 1..2^30"},
        {within(o->pooled_min_samples, 0, COUNT_MAX), "pooled_min_samples must be 0..2^30"},
        {within(o->hysteresis, 0, 1) && o->hysteresis < 1, "hysteresis must be 0 or more, below 1"},
        {within(o->max_keys, 1, KEYS_MAX), "max_keys must be 1..2^23"},
        {duration_ok(o->idle_eviction_ns), "idle_eviction must be 0..365 days"},
        {duration_ok(o->cold_eviction_ns), "cold_eviction must be 0..365 days"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].holds)
            continue;
        if (size > 0)
            snprintf(why, size, "%s", rules[i].text);
        return false;
    }
    return true;
}
