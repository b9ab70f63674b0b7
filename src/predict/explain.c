/* The predictor seen from outside: counters, one key, all keys, invariants. Changes nothing. */
#include "predict/predictor_internal.h"

#include <math.h>

void hb_predictor_stats(const struct hb_predictor *p, struct hb_predictor_stats *out)
{
    *out = p->counters;
    out->scored = p->drift.scored;
    out->matches = p->drift.matches;
    out->drift_alerts = p->drift.alerts;
    out->drift_alert = p->drift.alert;
    out->window = p->drift.in_window;
    out->agreement = drift_agreement(&p->drift);
    out->abs_log2_error = p->drift.abs_log2_error;
    out->keys = keytable_count(p->table);
    out->max_keys = p->options.max_keys;
    out->pooled_samples = p->pooled->n;
    out->boundary_seq = p->boundaries.seq;
    out->memory_bytes =
        sizeof *p + keytable_bytes(p->table) + p->layout->bytes + histogram_layout_bytes(p->layout);
}

const double *hb_predictor_boundaries(const struct hb_predictor *p, size_t *n)
{
    *n = p->boundaries.n;
    return p->boundaries.at;
}

static void describe_history(const struct hb_predictor *p, const struct histogram *h,
                             struct hb_key_info *out)
{
    out->n = h->n;
    out->censored_share = histogram_censored_share(h);
    out->estimate_ms = h->n > 0 ? predictor_estimate(p, h) : 0;
    out->median_ms = histogram_quantile(p->layout, h, 0.5);
    out->p75_ms = histogram_quantile(p->layout, h, 0.75);
    out->mean_ms = histogram_mean(h);
    out->tail_ms = histogram_quantile(p->layout, h, p->options.spread_quantile);
    out->spread_ratio = out->tail_ms / fmax(out->median_ms, p->options.min_ms);
}

static enum hb_reason reason_of(const struct hb_predictor *p, const struct keytable_entry *e,
                                const struct histogram *h, mono_t now)
{
    if (!boundaries_ready(&p->boundaries))
        return HB_UNREADY;
    if (predictor_stale(p, e, now))
        return HB_STALE_KEY;
    return predictor_verdict(p, h, predictor_estimate(p, h));
}

static void describe(const struct hb_predictor *p, uint32_t slot, mono_t now,
                     struct hb_key_info *out)
{
    const struct keytable_entry *e = keytable_entry(p->table, slot);
    const struct histogram *h = keytable_history(p->table, slot);
    *out = (struct hb_key_info){
        .key = keytable_key(e),
        .known = true,
        .reason = reason_of(p, e, h, now),
        .level = p->options.default_level,
        .age_ns = now - e->last_active_at,
        .remembered_level =
            e->remembered_level == KEYTABLE_NO_LEVEL ? -1 : (int)e->remembered_level,
    };
    describe_history(p, h, out);
    if (out->reason == HB_PREDICTED)
        out->level = boundaries_sticky_level(&p->boundaries, out->estimate_ms, e->remembered_level);
}

bool hb_predictor_explain(const struct hb_predictor *p, struct hb_key key, int64_t now,
                          struct hb_key_info *out)
{
    bool valid = predictor_key_valid(key);
    uint32_t slot = valid ? keytable_find(p->table, key) : KEYTABLE_NONE;
    if (slot != KEYTABLE_NONE) {
        describe(p, slot, predictor_time(p, now), out);
        out->key = key;
        return true;
    }
    *out = (struct hb_key_info){
        .key = key,
        .reason = HB_COLD_KEY,
        .level = p->options.default_level,
        .remembered_level = -1,
    };
    if (!valid)
        out->reason = HB_INVALID_KEY;
    else if (!boundaries_ready(&p->boundaries))
        out->reason = HB_UNREADY;
    return false;
}

void hb_predictor_each_key(const struct hb_predictor *p, int64_t now,
                           bool (*visit)(void *ctx, const struct hb_key_info *info), void *ctx)
{
    now = predictor_time(p, now);
    uint32_t s = keytable_newest(p->table);
    for (; s != KEYTABLE_NONE; s = keytable_next_older(p->table, s)) {
        struct hb_key_info info;
        describe(p, s, now, &info);
        if (!visit(ctx, &info))
            return;
    }
}

static const char *check_boundaries(const struct boundaries *b)
{
    if (b->n != 0 && b->n != b->levels - 1)
        return "the number of boundaries does not fit the levels";
    if (b->seq == 0 && b->n != 0)
        return "there are boundaries before the first publication";
    return boundaries_rise(b->at, b->n) ? NULL : "the boundaries do not rise";
}

static const char *check_entry(const struct hb_predictor *p, uint32_t slot)
{
    const struct keytable_entry *e = keytable_entry(p->table, slot);
    const struct histogram *h = keytable_history(p->table, slot);
    if (e->last_active_at > p->now)
        return "a key was active in the future";
    if (e->remembered_level != KEYTABLE_NO_LEVEL && e->remembered_level >= p->options.levels)
        return "a key remembers a level that does not exist";
    if (!e->changed && e->verdict != predictor_verdict(p, h, predictor_estimate(p, h)))
        return "a key's verdict is not that of its history";
    return histogram_check(p->layout, h);
}

const char *hb_predictor_check(const struct hb_predictor *p)
{
    const char *why = keytable_check(p->table);
    if (why == NULL)
        why = check_boundaries(&p->boundaries);
    if (why == NULL)
        why = histogram_check(p->layout, p->pooled);
    uint32_t s = keytable_newest(p->table);
    for (; why == NULL && s != KEYTABLE_NONE; s = keytable_next_older(p->table, s))
        why = check_entry(p, s);
    return why;
}
