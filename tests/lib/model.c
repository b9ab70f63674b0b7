#include "lib/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 15 };

struct hist {
    double *w;
    double total, sum, censored;
    uint64_t n;
};

struct mkey {
    struct mkey *next; /* in its bucket */
    struct mkey *next_of_all;
    size_t n_key;
    char key[HB_KEY_MAX];
    struct hist h;
    int64_t active, faded;
    uint64_t touched; /* order of activity */
    int level;
};

struct model {
    struct hb_predictor_options o;
    struct mkey *buckets[BUCKETS], *all;
    unsigned n_keys;
    unsigned long overflow, evictions;
    uint64_t clock;
    struct hist pooled;
    double b[HB_LEVELS_MAX];
    uint64_t seq;
};

struct model *model_new(const struct hb_predictor_options *o)
{
    struct model *m = calloc(1, sizeof *m);
    m->o = *o;
    m->pooled.w = calloc(o->bins, sizeof(double));
    m->seq = o->levels == 1;
    return m;
}

static struct mkey **bucket_of(struct model *m, struct hb_key key)
{
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < key.n; i++)
        h = (h ^ (unsigned char)key.p[i]) * UINT64_C(1099511628211);
    return &m->buckets[h % BUCKETS];
}

static struct mkey *find(struct model *m, struct hb_key key)
{
    struct mkey *k = *bucket_of(m, key);
    while (k != NULL && (k->n_key != key.n || memcmp(k->key, key.p, key.n) != 0))
        k = k->next;
    return k;
}

static void drop(struct model *m, struct mkey *k)
{
    struct mkey **at = bucket_of(m, (struct hb_key){k->key, k->n_key});
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    for (at = &m->all; *at != k; at = &(*at)->next_of_all)
        ;
    *at = k->next_of_all;
    free(k->h.w);
    free(k);
    m->n_keys--;
}

void model_free(struct model *m)
{
    while (m->all != NULL)
        drop(m, m->all);
    free(m->pooled.w);
    free(m);
}

static struct mkey *least_active(struct model *m)
{
    struct mkey *least = NULL;
    for (struct mkey *k = m->all; k != NULL; k = k->next_of_all)
        if (least == NULL || k->touched < least->touched)
            least = k;
    return least;
}

static double edge(const struct model *m, unsigned i)
{
    if (i == 0)
        return 0;
    return m->o.min_ms * pow(m->o.max_ms / m->o.min_ms, (double)(i - 1) / (m->o.bins - 1));
}

static unsigned bin_of(const struct model *m, double ms)
{
    if (ms < m->o.min_ms)
        return 0;
    double log_ratio = log(m->o.max_ms / m->o.min_ms) / (m->o.bins - 1);
    double i = floor(log(ms / m->o.min_ms) / log_ratio) + 1;
    return i < m->o.bins - 1 ? (unsigned)i : m->o.bins - 1;
}

static void multiply(const struct model *m, struct hist *h, double by)
{
    for (unsigned i = 0; i < m->o.bins; i++)
        h->w[i] *= by;
    h->total *= by;
    h->sum *= by;
    h->censored *= by;
}

static void add(const struct model *m, struct hist *h, double ms, double decay)
{
    ms = fmin(ms, m->o.max_ms);
    multiply(m, h, decay);
    h->w[bin_of(m, ms)] += 1;
    h->total += 1;
    h->sum += ms;
    h->n++;
}

static double quantile(const struct model *m, const struct hist *h, double q)
{
    double target = q * h->total, before = 0;
    for (unsigned i = 0; i < m->o.bins; i++) {
        if (h->w[i] > 0 && before + h->w[i] >= target * (1 - 1e-12)) {
            double part = fmin((target - before) / h->w[i], 1);
            return edge(m, i) + part * (edge(m, i + 1) - edge(m, i));
        }
        before += h->w[i];
    }
    return 0;
}

static bool stale(const struct model *m, const struct mkey *k, int64_t now)
{
    return m->o.stale_after_ns > 0 && now - k->active > m->o.stale_after_ns;
}

static bool may_go(const struct model *m, const struct mkey *k, int64_t now)
{
    int64_t limit = k->h.n >= m->o.min_samples ? m->o.idle_eviction_ns : m->o.cold_eviction_ns;
    return stale(m, k, now) || (limit > 0 && now - k->active >= limit);
}

static struct mkey *insert(struct model *m, struct hb_key key, int64_t now)
{
    /* A newcomer takes at most two stale keys along, the least active first, whether it needs room
     * or not. */
    for (int i = 0; i < 2 && m->o.stale_after_ns > 0; i++) {
        struct mkey *least = least_active(m);
        if (least == NULL || !stale(m, least, now))
            break;
        drop(m, least);
        m->evictions++;
    }
    if (m->n_keys == m->o.max_keys) {
        struct mkey *least = least_active(m);
        if (!may_go(m, least, now)) {
            m->overflow++;
            return NULL;
        }
        drop(m, least);
        m->evictions++;
    }
    struct mkey *k = calloc(1, sizeof *k);
    k->h.w = calloc(m->o.bins, sizeof(double));
    memcpy(k->key, key.p, key.n);
    k->n_key = key.n;
    k->active = k->faded = now;
    k->level = -1;
    k->next = *bucket_of(m, key);
    *bucket_of(m, key) = k;
    k->next_of_all = m->all;
    m->all = k;
    m->n_keys++;
    return k;
}

static struct mkey *touched(struct model *m, struct hb_key key, int64_t now)
{
    struct mkey *k = find(m, key);
    if (k == NULL)
        k = insert(m, key, now);
    if (k == NULL)
        return NULL;
    if (stale(m, k, now)) {
        multiply(m, &k->h, 0);
        k->h.n = 0;
        k->level = -1;
        k->faded = now;
    }
    int64_t gap = now - k->faded;
    if (m->o.half_life_ns > 0 && gap >= 1000000000) {
        multiply(m, &k->h, pow(0.5, (double)gap / (double)m->o.half_life_ns));
        k->faded = now;
    }
    k->active = now;
    k->touched = ++m->clock;
    return k;
}

static void learn(struct model *m, struct hb_key key, double ms, int64_t now)
{
    struct mkey *k = touched(m, key, now);
    if (k != NULL)
        add(m, &k->h, ms, m->o.decay);
}

static bool rises(const double *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (b[i] <= (i > 0 ? b[i - 1] : 0))
            return false;
    return true;
}

static void publish(struct model *m)
{
    if (m->pooled.n < m->o.pooled_min_samples)
        return;
    if (m->seq > 0 && m->pooled.n % m->o.boundary_every != 0)
        return;
    double fresh[HB_LEVELS_MAX], mix[HB_LEVELS_MAX];
    unsigned n = m->o.levels - 1;
    for (unsigned i = 0; i < n; i++) {
        fresh[i] = quantile(m, &m->pooled, (double)(i + 1) / m->o.levels);
        bool near = m->seq > 0 && fabs(fresh[i] - m->b[i]) <= m->o.hysteresis * m->b[i];
        mix[i] = near ? m->b[i] : fresh[i];
    }
    if (!rises(fresh, n))
        return;
    const double *chosen = rises(mix, n) ? mix : fresh;
    if (m->seq > 0 && memcmp(chosen, m->b, n * sizeof *chosen) == 0)
        return;
    memcpy(m->b, chosen, n * sizeof *chosen);
    m->seq++;
}

static bool valid(struct hb_key key)
{
    return key.p != NULL && key.n > 0 && key.n <= HB_KEY_MAX;
}

bool model_observe(struct model *m, struct hb_key key, struct hb_key parent, double ms, int64_t now)
{
    if (!valid(key) || !isfinite(ms) || ms < 0)
        return false;
    learn(m, key, ms, now);
    if (valid(parent))
        learn(m, parent, ms, now);
    add(m, &m->pooled, ms, m->o.pooled_decay);
    publish(m);
    return true;
}

static void mark(struct model *m, struct hb_key key, int64_t now)
{
    struct mkey *k = touched(m, key, now);
    if (k == NULL)
        return;
    multiply(m, &k->h, m->o.decay);
    k->h.censored += 1;
}

bool model_censor(struct model *m, struct hb_key key, struct hb_key parent, int64_t now)
{
    if (!valid(key))
        return false;
    mark(m, key, now);
    if (valid(parent))
        mark(m, parent, now);
    return true;
}

static double mean(const struct hist *h)
{
    return h->total > 0 ? h->sum / h->total : 0;
}

static double estimate(const struct model *m, const struct hist *h)
{
    double median = quantile(m, h, 0.5);
    if (m->o.summary == HB_SUMMARY_P75)
        return quantile(m, h, 0.75);
    if (m->o.summary == HB_SUMMARY_MEAN)
        return mean(h);
    if (m->o.summary == HB_SUMMARY_GEOMETRIC)
        return sqrt(fmax(median, m->o.min_ms) * fmax(mean(h), m->o.min_ms));
    return median;
}

static unsigned level_of(const struct model *m, double ms, int remembered)
{
    unsigned n = m->o.levels - 1, level = 0;
    for (unsigned i = 0; i < n; i++)
        level += m->b[i] <= ms;
    if (remembered < 0 || (unsigned)remembered == level)
        return level;
    unsigned t = (unsigned)remembered;
    double low = t == 0 ? 0 : m->b[t - 1] * (1 - m->o.hysteresis);
    double high = t == n ? HUGE_VAL : m->b[t] * (1 + m->o.hysteresis);
    return ms >= low && ms < high ? t : level;
}

static enum hb_reason look_up(struct model *m, struct hb_key key, int64_t now,
                              struct hb_prediction *out)
{
    struct mkey *k = find(m, key);
    if (k == NULL)
        return HB_COLD_KEY;
    if (stale(m, k, now))
        return HB_STALE_KEY;
    k->active = now;
    k->touched = ++m->clock;
    if (k->h.n < m->o.min_samples)
        return HB_COLD_KEY;
    if (k->h.censored > m->o.max_censored * (k->h.total + k->h.censored))
        return HB_CENSORED;
    double tail = quantile(m, &k->h, m->o.spread_quantile);
    double median = quantile(m, &k->h, 0.5);
    if (m->o.max_spread_ratio > 0 && tail / fmax(median, m->o.min_ms) > m->o.max_spread_ratio)
        return HB_HIGH_SPREAD;
    out->estimate_ms = estimate(m, &k->h);
    out->has_estimate = true;
    out->level = level_of(m, out->estimate_ms, k->level);
    k->level = (int)out->level;
    return HB_PREDICTED;
}

void model_predict(struct model *m, struct hb_key key, struct hb_key parent, int64_t now,
                   struct hb_prediction *out)
{
    *out = (struct hb_prediction){.level = m->o.default_level, .boundary_seq = m->seq};
    out->reason = !valid(key)   ? HB_INVALID_KEY
                  : m->seq == 0 ? HB_UNREADY
                                : look_up(m, key, now, out);
    if (out->reason == HB_COLD_KEY && valid(parent) &&
        look_up(m, parent, now, out) == HB_PREDICTED) {
        out->reason = HB_PREDICTED;
        out->from_parent = true;
    }
}

unsigned model_keys(const struct model *m)
{
    return m->n_keys;
}

unsigned long model_overflow(const struct model *m)
{
    return m->overflow;
}

unsigned long model_evictions(const struct model *m)
{
    return m->evictions;
}
