#include "sim/arms.h"

#include "base/num.h"

#include <stdlib.h>

#define WEIGHTS "broker.weights=8/3/1 "

const struct sim_arm sim_arms[] = {
    {"fifo", "first come, first served", SIM_FIFO, ""},
    {"static", "levels from a map by hand", SIM_MAP, ""},
    {"static-history", "levels from each key's median in the history", SIM_HISTORY, ""},
    {"random", "a level per key, at random", SIM_RANDOM, ""},
    {"shadow", "predicts and learns, but all have the default level", SIM_SHADOW, ""},
    {"predictive", "predicted levels, taught by the history first", SIM_FLOW, ""},
    {"predictive-cold", "predicted levels, nothing learned before", SIM_FLOW, "warm=false"},
    {"aging-off", "predictive, nothing is promoted", SIM_FLOW, "broker.aging_threshold=0"},
    {"pausing", "predictive, aging pauses when the level above is behind", SIM_FLOW,
     "broker.pause_when_behind=always"},
    {"weighted", "predictive, levels share worker time 8:3:1, plain aging", SIM_FLOW,
     WEIGHTS "broker.pause_when_behind=never"},
    {"weighted-pausing", "predictive, 8:3:1, pausing aging", SIM_FLOW, WEIGHTS},
    {"weighted-alt", "predictive, 4:2:1, pausing aging", SIM_FLOW, "broker.weights=4/2/1"},
    {"weighted-aging-off", "predictive, 8:3:1, nothing is promoted", SIM_FLOW,
     WEIGHTS "broker.aging_threshold=0"},
    {"oracle", "levels from the true durations", SIM_ORACLE, ""},
    {"oracle-weighted", "true durations, 8:3:1, pausing aging", SIM_ORACLE, WEIGHTS},
    {"oracle-aging-off", "true durations, nothing is promoted", SIM_ORACLE,
     "broker.aging_threshold=0"},
    {"queues", "a queue per key with equal shares of worker time", SIM_QUEUES, ""},
    {"mean", "predictive by each key's mean", SIM_FLOW, "predictor.summary=mean"},
    {"p75", "predictive by each key's 75th percentile", SIM_FLOW, "predictor.summary=p75"},
    {"no-decay", "predictive, nothing fades", SIM_FLOW,
     "predictor.decay=1 predictor.time_half_life=0"},
    {"no-spread", "predictive, no check of the spread", SIM_FLOW, "predictor.max_spread_ratio=0"},
    {"no-stale", "predictive, keys are never stale", SIM_FLOW, "predictor.stale_after=0"},
    {"no-minimum", "predictive from a key's first duration on", SIM_FLOW,
     "predictor.min_samples=1"},
    {"size-bins", "predictive, keys carry the size's bin", SIM_FLOW, "size_bins=true"},
    {NULL, NULL, SIM_FLOW, NULL},
};

/* ---- options by name ---- */

enum setting_type { T_BOOL, T_U32, T_DOUBLE, T_DURATION, T_DURATION_MS, T_WORD, T_WEIGHTS };

struct setting {
    const char *name;
    enum setting_type type;
    size_t offset;
    const char *const *words; /* T_WORD: of an enum from 0 on, NULL behind the last */
};

static const char *const pause_words[] = {"auto", "always", "never", NULL};
static const char *const summary_words[] = {
#define SUMMARY_WORD(name, word) word,
    HB_SUMMARY_MAP(SUMMARY_WORD)
#undef SUMMARY_WORD
        NULL};

#define PREDICTOR(field) offsetof(struct sim_options, predictor.field)
#define BROKER(field)    offsetof(struct sim_options, broker.field)

static const struct setting settings[] = {
    {"warm", T_BOOL, offsetof(struct sim_options, warm), NULL},
    {"size_bins", T_BOOL, offsetof(struct sim_options, size_bins), NULL},
    {"levels", T_U32, PREDICTOR(levels), NULL},
    {"default_level", T_U32, PREDICTOR(default_level), NULL},
    {"broker.aging_threshold", T_DURATION, BROKER(aging_threshold_ns), NULL},
    {"broker.aging_interval", T_DURATION, BROKER(aging_interval_ns), NULL},
    {"broker.weights", T_WEIGHTS, BROKER(weights), NULL},
    {"broker.pause_when_behind", T_WORD, BROKER(pause), pause_words},
    {"predictor.summary", T_WORD, PREDICTOR(summary), summary_words},
    {"predictor.min_samples", T_U32, PREDICTOR(min_samples), NULL},
    {"predictor.boundary_refresh_every", T_U32, PREDICTOR(boundary_every), NULL},
    {"predictor.global_min_samples", T_U32, PREDICTOR(pooled_min_samples), NULL},
    {"predictor.spread_quantile", T_DOUBLE, PREDICTOR(spread_quantile), NULL},
    {"predictor.max_spread_ratio", T_DOUBLE, PREDICTOR(max_spread_ratio), NULL},
    {"predictor.decay", T_DOUBLE, PREDICTOR(decay), NULL},
    {"predictor.global_decay", T_DOUBLE, PREDICTOR(pooled_decay), NULL},
    {"predictor.time_half_life", T_DURATION, PREDICTOR(half_life_ns), NULL},
    {"predictor.stale_after", T_DURATION, PREDICTOR(stale_after_ns), NULL},
    {"predictor.idle_eviction", T_DURATION, PREDICTOR(idle_eviction_ns), NULL},
    {"predictor.cold_eviction_grace", T_DURATION, PREDICTOR(cold_eviction_ns), NULL},
    {"predictor.histogram_bins", T_U32, PREDICTOR(bins), NULL},
    {"predictor.min", T_DURATION_MS, PREDICTOR(min_ms), NULL},
    {"predictor.max", T_DURATION_MS, PREDICTOR(max_ms), NULL},
    {"predictor.max_keys", T_U32, PREDICTOR(max_keys), NULL},
    {"predictor.hysteresis", T_DOUBLE, PREDICTOR(hysteresis), NULL},
};

const char *sim_option_name(size_t i)
{
    return i < ARRAY_SIZE(settings) ? settings[i].name : NULL;
}

static bool take_word(const struct setting *s, struct text value, void *field)
{
    for (int i = 0; s->words[i] != NULL; i++)
        if (text_equal(text_of(s->words[i]), value)) {
            *(int *)field = i;
            return true;
        }
    return false;
}

static bool take_bool(struct text value, bool *field)
{
    *field = text_equal(value, text_of("true"));
    return *field || text_equal(value, text_of("false"));
}

static bool take_u32(struct text value, uint32_t *field)
{
    uint64_t n;
    if (num_parse_u64(value.p, value.n, &n) < 0 || n > INT32_MAX)
        return false;
    *field = (uint32_t)n;
    return true;
}

static bool take_ms(struct text value, double *field)
{
    mono_t ns;
    if (num_parse_duration(value.p, value.n, &ns) < 0)
        return false;
    *field = mono_to_ms(ns);
    return true;
}

/* "8/3/1"; nothing: none. */
static bool take_weights(struct text value, struct sim_options *o)
{
    uint16_t weights[HB_LEVELS_MAX];
    unsigned n = 0;
    for (size_t from = 0, to; from < value.n && n < HB_LEVELS_MAX; from = to + 1) {
        uint64_t weight;
        for (to = from; to < value.n && value.p[to] != '/'; to++)
            ;
        if (num_parse_u64(value.p + from, to - from, &weight) < 0 || weight < 1 || weight > 1000)
            return false;
        weights[n++] = (uint16_t)weight;
    }
    for (unsigned i = 0; n > 0 && i < HB_LEVELS_MAX; i++)
        o->broker.weights[i] = i < n ? weights[i] : 1;
    o->broker.weighted = n > 0;
    return true;
}

static bool take_value(const struct setting *s, struct text value, struct sim_options *o)
{
    void *field = (char *)o + s->offset;
    switch (s->type) {
    case T_BOOL: return take_bool(value, field);
    case T_U32: return take_u32(value, field);
    case T_DOUBLE: return num_parse_double(value.p, value.n, field) == 0;
    case T_DURATION: return num_parse_duration(value.p, value.n, field) == 0;
    case T_DURATION_MS: return take_ms(value, field);
    case T_WORD: return take_word(s, value, field);
    case T_WEIGHTS: return take_weights(value, o);
    }
    return false;
}

/* ---- the nearest name ---- */

enum { NAME_MAX_BYTES = 48 };

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein's distance to a name of at most NAME_MAX_BYTES. */
static unsigned distance(struct text a, const char *name)
{
    unsigned row[NAME_MAX_BYTES + 1];
    size_t n = strlen(name);
    for (size_t k = 0; k <= n; k++)
        row[k] = (unsigned)k;
    for (size_t i = 0; i < a.n; i++) {
        unsigned corner = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t k = 0; k < n; k++) {
            unsigned above = row[k + 1];
            row[k + 1] = least(above + 1, row[k] + 1, corner + (a.p[i] != name[k]));
            corner = above;
        }
    }
    return row[n];
}

struct nearest {
    struct text wanted;
    const char *name;
    unsigned distance;
};

static void consider(struct nearest *x, const char *name, const char *compared)
{
    unsigned d = distance(x->wanted, compared);
    if (x->name == NULL || d < x->distance) {
        x->name = name;
        x->distance = d;
    }
}

static int no_such(const char *what, struct nearest *x, struct err *e)
{
    return err_set(e, ERR_INVALID, "there is no %s '%.*s'; the nearest one is '%s'", what,
                   (int)(x->wanted.n < NAME_MAX_BYTES ? x->wanted.n : NAME_MAX_BYTES), x->wanted.p,
                   x->name);
}

/* ---- setting ---- */

/* What follows the dot, or all. */
static const char *short_name(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

int sim_option_set(struct sim_options *o, struct text name, struct text value, struct err *e)
{
    struct nearest nearest = {.wanted = name};
    for (const struct setting *s = settings; s < settings + ARRAY_SIZE(settings); s++) {
        if (!text_equal(text_of(s->name), name) &&
            !text_equal(text_of(short_name(s->name)), name)) {
            consider(&nearest, s->name, s->name);
            consider(&nearest, s->name, short_name(s->name));
            continue;
        }
        struct sim_options changed = *o;
        if (!take_value(s, value, &changed))
            return err_set(e, ERR_INVALID, "%s: '%.*s' is not a value of it", s->name,
                           (int)(value.n < NAME_MAX_BYTES ? value.n : NAME_MAX_BYTES), value.p);
        *o = changed;
        return 0;
    }
    return no_such("option", &nearest, e);
}

/* Each NAME=VALUE of `list`, which `separator` parts. */
static int set_all(struct sim_options *o, struct text list, char separator, struct err *e)
{
    for (size_t from = 0, to; from < list.n; from = to + 1) {
        const char *end = memchr(list.p + from, separator, list.n - from);
        to = end != NULL ? (size_t)(end - list.p) : list.n;
        struct text one = {list.p + from, to - from};
        const char *equals = one.n > 0 ? memchr(one.p, '=', one.n) : NULL;
        if (one.n == 0)
            continue;
        if (equals == NULL)
            return err_set(e, ERR_INVALID, "'%.*s' is not of the form NAME=VALUE",
                           (int)(one.n < NAME_MAX_BYTES ? one.n : NAME_MAX_BYTES), one.p);
        struct text name = {one.p, (size_t)(equals - one.p)};
        struct text value = {equals + 1, one.n - name.n - 1};
        if (sim_option_set(o, name, value, e) < 0)
            return e->code;
    }
    return 0;
}

int sim_arm_apply(struct sim_options *o, const char *spec, struct err *e)
{
    struct text name = {spec, strcspn(spec, ":")};
    struct nearest nearest = {.wanted = name};
    struct err ignored = {0};
    e = e != NULL ? e : &ignored;
    for (const struct sim_arm *arm = sim_arms; arm->name != NULL; arm++) {
        if (!text_equal(text_of(arm->name), name)) {
            consider(&nearest, arm->name, arm->name);
            continue;
        }
        o->router = arm->router;
        if (set_all(o, text_of(arm->settings), ' ', e) < 0 ||
            set_all(o, text_of(spec + name.n), ':', e) < 0)
            return err_prefix(e, "arm %s", arm->name);
        return 0;
    }
    return no_such("arm", &nearest, e);
}
