/*
 * What predictor.c, explain.c and snapshot.c share. Nobody else includes it.
 */
#ifndef HARBINGER_PREDICT_PREDICTOR_INTERNAL_H
#define HARBINGER_PREDICT_PREDICTOR_INTERNAL_H

#include "harbinger/predictor.h"
#include "predict/boundaries.h"
#include "predict/drift.h"
#include "predict/histogram.h"
#include "predict/keytable.h"

/* 73 years either way: the difference of two times, or of a time and an age, cannot overflow. */
#define PREDICTOR_TIME_MAX (INT64_C(1) << 61)

struct hb_predictor {
    struct hb_predictor_options options;
    double growth, pooled_growth; /* 1 / decay */
    mono_t now;                   /* the latest seen */
    struct keytable *table;
    struct histogram *pooled;
    struct histogram_layout *layout;
    struct boundaries boundaries;
    struct drift drift;
    struct hb_predictor_stats counters; /* only the ones that count up */
};

/* `now` as all of this takes it: within range, and never before the latest seen, because the
 * activity list relies on it. */
mono_t predictor_time(const struct hb_predictor *p, mono_t now);

static inline bool predictor_key_valid(struct hb_key key)
{
    return key.p != NULL && key.n > 0 && key.n <= HB_KEY_MAX;
}

static inline bool predictor_stale(const struct hb_predictor *p, const struct keytable_entry *e,
                                   mono_t now)
{
    int64_t limit = p->options.stale_after_ns;
    return limit > 0 && now - e->last_active_at > limit;
}

/* The estimate of the summary in use, refusal rules aside. */
double predictor_estimate(const struct hb_predictor *p, const struct histogram *h);

/* What a history says by itself: cold_key, censored, high_spread or predicted. */
enum hb_reason predictor_verdict(const struct hb_predictor *p, const struct histogram *h,
                                 double estimate_ms);

/* An empty pooled histogram; NULL when memory is short. Free with free(). */
struct histogram *predictor_pooled_new(const struct histogram_layout *l);

/* A table for the options of p; NULL when memory is short. */
struct keytable *predictor_table_new(const struct hb_predictor *p);

#endif
