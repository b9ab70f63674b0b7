#include "predict/predictor_internal.h"

#include <math.h>
#include <stdlib.h>

/* Stale keys that one newcomer sweeps out: more than it adds, so that they cannot pile up. */
enum { STALE_PER_NEWCOMER = 2, LINE = 64 };

struct histogram *predictor_pooled_new(const struct histogram_layout *l)
{
    struct histogram *h = aligned_alloc(LINE, l->bytes);
    if (h != NULL)
        histogram_init(l, h, 0);
    return h;
}

struct keytable *predictor_table_new(const struct hb_predictor *p)
{
    struct hash_seed seed = {p->options.seed[0], p->options.seed[1]};
    return keytable_new(p->options.max_keys, &seed, p->layout);
}

struct hb_predictor *hb_predictor_new(const struct hb_predictor_options *o)
{
    if (!hb_predictor_options_valid(o, NULL, 0))
        return NULL;
    struct hb_predictor *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->options = *o;
    p->growth = 1 / o->decay;
    p->pooled_growth = 1 / o->pooled_decay;
    p->now = -PREDICTOR_TIME_MAX;
    boundaries_init(&p->boundaries, o->levels, o->hysteresis);
    p->layout = histogram_layout_new(o->bins, o->min_ms, o->max_ms);
    if (p->layout == NULL)
        goto err;
    p->pooled = predictor_pooled_new(p->layout);
    p->table = predictor_table_new(p);
    if (p->pooled == NULL || p->table == NULL)
        goto err;
    return p;

err:
    hb_predictor_free(p);
    return NULL;
}

void hb_predictor_free(struct hb_predictor *p)
{
    if (p == NULL)
        return;
    keytable_free(p->table);
    free(p->pooled);
    histogram_layout_free(p->layout);
    free(p);
}

const struct hb_predictor_options *hb_predictor_options(const struct hb_predictor *p)
{
    return &p->options;
}

mono_t predictor_time(const struct hb_predictor *p, mono_t now)
{
    if (now <= p->now)
        return p->now;
    return now < PREDICTOR_TIME_MAX ? now : PREDICTOR_TIME_MAX;
}

static mono_t advance(struct hb_predictor *p, mono_t now)
{
    p->now = predictor_time(p, now);
    return p->now;
}

double predictor_estimate(const struct hb_predictor *p, const struct histogram *h)
{
    double median;
    switch (p->options.summary) {
    case HB_SUMMARY_P75: return histogram_quantile(p->layout, h, 0.75);
    case HB_SUMMARY_MEAN: return histogram_mean(h);
    case HB_SUMMARY_GEOMETRIC:
        median = histogram_quantile(p->layout, h, 0.5);
        return sqrt(fmax(median, p->options.min_ms) * fmax(histogram_mean(h), p->options.min_ms));
    default: return histogram_quantile(p->layout, h, 0.5);
    }
}

static bool spread_is_high(const struct hb_predictor *p, const struct histogram *h,
                           double estimate_ms)
{
    const struct hb_predictor_options *o = &p->options;
    if (o->max_spread_ratio == 0)
        return false;
    double median =
        o->summary == HB_SUMMARY_MEDIAN ? estimate_ms : histogram_quantile(p->layout, h, 0.5);
    double tail = histogram_quantile(p->layout, h, o->spread_quantile);
    return tail > o->max_spread_ratio * (median > o->min_ms ? median : o->min_ms);
}

enum hb_reason predictor_verdict(const struct hb_predictor *p, const struct histogram *h,
                                 double estimate_ms)
{
    if (h->n < p->options.min_samples)
        return HB_COLD_KEY;
    if (histogram_censored_share(h) > p->options.max_censored)
        return HB_CENSORED;
    if (spread_is_high(p, h, estimate_ms) || !isfinite(estimate_ms) || estimate_ms < 0)
        return HB_HIGH_SPREAD;
    return HB_PREDICTED;
}

/* Learning only marks an entry as changed: several durations between two lookups cost one summary.
 */
static void refresh_entry(struct hb_predictor *p, struct keytable_entry *e, uint32_t slot)
{
    const struct histogram *h = keytable_history(p->table, slot);
    e->estimate_ms = predictor_estimate(p, h);
    e->verdict = (uint8_t)predictor_verdict(p, h, e->estimate_ms);
    e->changed = false;
}

/* The checks in the order of the reference; the key is valid and boundaries are published. Being
 * asked keeps a key that is not stale alive, or a backlog would make stale the very keys that wait
 * in it. */
static enum hb_reason look_up(struct hb_predictor *p, struct hb_key key, mono_t now,
                              struct hb_prediction *out)
{
    uint32_t slot = keytable_find(p->table, key);
    if (slot == KEYTABLE_NONE)
        return HB_COLD_KEY;
    struct keytable_entry *e = keytable_entry(p->table, slot);
    if (predictor_stale(p, e, now))
        return HB_STALE_KEY;
    e->last_active_at = now;
    keytable_move_to_front(p->table, slot);
    if (e->changed)
        refresh_entry(p, e, slot);
    if (e->verdict != HB_PREDICTED)
        return (enum hb_reason)e->verdict;
    unsigned level = boundaries_sticky_level(&p->boundaries, e->estimate_ms, e->remembered_level);
    e->remembered_level = (uint8_t)level;
    out->has_estimate = true;
    out->level = level;
    out->estimate_ms = e->estimate_ms;
    return HB_PREDICTED;
}

static enum hb_reason decide(struct hb_predictor *p, struct hb_key key, struct hb_key parent,
                             mono_t now, struct hb_prediction *out)
{
    if (!predictor_key_valid(key))
        return HB_INVALID_KEY;
    if (!boundaries_ready(&p->boundaries))
        return HB_UNREADY;
    enum hb_reason reason = look_up(p, key, now, out);
    if (reason != HB_COLD_KEY || !predictor_key_valid(parent))
        return reason;
    if (look_up(p, parent, now, out) != HB_PREDICTED)
        return reason;
    out->from_parent = true;
    p->counters.parent_fallbacks++;
    return HB_PREDICTED;
}

void hb_predictor_predict(struct hb_predictor *p, struct hb_key key, struct hb_key parent,
                          int64_t now, struct hb_prediction *out)
{
    *out = (struct hb_prediction){
        .level = p->options.default_level,
        .boundary_seq = p->boundaries.seq,
    };
    out->reason = decide(p, key, parent, advance(p, now), out);
    p->counters.lookups++;
    p->counters.outcomes[out->reason]++;
}

static void drop_oldest(struct hb_predictor *p, mono_t now)
{
    uint32_t slot = keytable_oldest(p->table);
    p->counters.evictions++;
    p->counters.stale_freed += predictor_stale(p, keytable_entry(p->table, slot), now);
    keytable_remove(p->table, slot);
}

/* Only the least recently active key is ever given up: a flood of newcomers cannot push out a
 * working set, and an unproven key makes room sooner than a proven one. */
static bool oldest_may_go(const struct hb_predictor *p, mono_t now)
{
    uint32_t slot = keytable_oldest(p->table);
    const struct keytable_entry *e = keytable_entry(p->table, slot);
    if (predictor_stale(p, e, now))
        return true;
    bool proven = keytable_history(p->table, slot)->n >= p->options.min_samples;
    int64_t limit = proven ? p->options.idle_eviction_ns : p->options.cold_eviction_ns;
    return limit > 0 && now - e->last_active_at >= limit;
}

static uint32_t add_newcomer(struct hb_predictor *p, struct hb_key key, mono_t now)
{
    for (int i = 0; i < STALE_PER_NEWCOMER && keytable_count(p->table) > 0; i++) {
        if (!predictor_stale(p, keytable_entry(p->table, keytable_oldest(p->table)), now))
            break;
        drop_oldest(p, now);
    }
    if (keytable_full(p->table)) {
        if (!oldest_may_go(p, now)) {
            p->counters.overflow++;
            return KEYTABLE_NONE;
        }
        drop_oldest(p, now);
    }
    uint32_t slot = keytable_insert(p->table, key, now);
    if (slot == KEYTABLE_NONE) {
        p->counters.overflow++;
        p->counters.no_memory++;
    }
    return slot;
}

/* The history that new evidence about the key goes into, faded up to now; NULL when there is no
 * room. A stale history is not continued: evidence about a key that was away for long starts it
 * anew. */
static struct histogram *history_for(struct hb_predictor *p, struct hb_key key, mono_t now)
{
    uint32_t slot = keytable_find(p->table, key);
    if (slot == KEYTABLE_NONE)
        slot = add_newcomer(p, key, now);
    if (slot == KEYTABLE_NONE)
        return NULL;
    struct keytable_entry *e = keytable_entry(p->table, slot);
    struct histogram *h = keytable_history(p->table, slot);
    if (predictor_stale(p, e, now)) {
        histogram_init(p->layout, h, now);
        e->remembered_level = KEYTABLE_NO_LEVEL;
    }
    histogram_fade(p->layout, h, p->options.half_life_ns, now);
    e->changed = true;
    e->last_active_at = now;
    keytable_move_to_front(p->table, slot);
    return h;
}

static void refresh_boundaries(struct hb_predictor *p)
{
    const struct hb_predictor_options *o = &p->options;
    if (p->pooled->n < o->pooled_min_samples)
        return;
    if (boundaries_ready(&p->boundaries) && p->pooled->n % o->boundary_every != 0)
        return;
    switch (boundaries_refresh(&p->boundaries, p->layout, p->pooled)) {
    case BOUNDARIES_PUBLISHED: p->counters.publications++; break;
    case BOUNDARIES_DEGENERATE: p->counters.degenerate++; break;
    case BOUNDARIES_SAME: break;
    }
}

static void learn(struct hb_predictor *p, struct hb_key key, struct histogram_sample sample,
                  mono_t now)
{
    struct histogram *h = history_for(p, key, now);
    if (h != NULL)
        histogram_add(p->layout, h, sample, p->growth);
}

bool hb_predictor_observe(struct hb_predictor *p, struct hb_key key, struct hb_key parent,
                          double duration_ms, int64_t now)
{
    now = advance(p, now);
    if (!predictor_key_valid(key) || !isfinite(duration_ms) || duration_ms < 0) {
        p->counters.rejected++;
        return false;
    }
    struct histogram_sample sample = histogram_sample(p->layout, duration_ms);
    learn(p, key, sample, now);
    if (predictor_key_valid(parent))
        learn(p, parent, sample, now);
    histogram_add(p->layout, p->pooled, sample, p->pooled_growth);
    p->counters.observations++;
    p->counters.saturated += duration_ms > p->options.max_ms;
    refresh_boundaries(p);
    return true;
}

static void mark(struct hb_predictor *p, struct hb_key key, mono_t now)
{
    struct histogram *h = history_for(p, key, now);
    if (h != NULL)
        histogram_censor(p->layout, h, p->growth);
}

bool hb_predictor_censor(struct hb_predictor *p, struct hb_key key, struct hb_key parent,
                         int64_t now)
{
    now = advance(p, now);
    if (!predictor_key_valid(key)) {
        p->counters.rejected++;
        return false;
    }
    mark(p, key, now);
    if (predictor_key_valid(parent))
        mark(p, parent, now);
    p->counters.censored++;
    return true;
}

unsigned hb_predictor_level_of(const struct hb_predictor *p, double duration_ms)
{
    if (!boundaries_ready(&p->boundaries))
        return p->options.default_level;
    return boundaries_level(&p->boundaries, duration_ms);
}

void hb_predictor_score(struct hb_predictor *p, unsigned predicted_level, double estimate_ms,
                        double duration_ms)
{
    bool match = hb_predictor_level_of(p, duration_ms) == predicted_level;
    drift_score(&p->drift, match, estimate_ms, duration_ms);
}
