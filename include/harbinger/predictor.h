/*
 * The predictor: learns how long each key's messages take and says which level a new one belongs
 * to.
 *
 * A key is raw bytes that the caller composes (producer + 0x1F + label [+ 0x1F + size label]);
 * nothing here looks inside. Per key there is a histogram of durations whose older entries fade,
 * and one pooled histogram over all keys, whose quantiles are the boundaries between the levels. A
 * key's level is the number of boundaries that its estimate has reached: level 0 is the shortest
 * work.
 *
 * Rules that hold everywhere:
 *   - Nothing here reads a clock, allocates without a bound, logs or blocks. `now` is monotonic
 *     nanoseconds from any start; one that lies before the latest seen counts as the latest.
 *   - A prediction is a fact about the past, never a demand: whoever gets no estimate gets the
 *     default level and the reason, and the caller goes on.
 *   - At most `max_keys` keys are held. When memory for a newcomer is missing it stays unknown and
 *     is counted.
 *   - One predictor belongs to one thread at a time; two predictors share nothing.
 *   - Equal calls with equal times give equal answers; the seed changes only where a key lies in
 *     memory.
 */
#ifndef HARBINGER_PREDICTOR_H
#define HARBINGER_PREDICTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef HB_API
#define HB_API __attribute__((visibility("default")))
#endif

#define HB_KEY_MAX      256 /* bytes; a longer key is invalid_key */
#define HB_LEVELS_MAX   255
#define HB_DRIFT_WINDOW 512 /* scored messages in the rolling agreement */

/* Why a prediction is what it is, as words for people and labels for metrics. All but `predicted`
 * mean: no estimate, default level. The checks are made in the order invalid_key, unready, cold_key
 * (unknown), stale_key, cold_key (too few), censored, high_spread. */
#define HB_REASON_MAP(X)                                                                \
    X(HB_PREDICTED, "predicted")                                                        \
    X(HB_UNREADY, "unready")         /* no boundaries are published yet */              \
    X(HB_COLD_KEY, "cold_key")       /* unknown, or fewer than min_samples durations */ \
    X(HB_HIGH_SPREAD, "high_spread") /* the tail is far from the median */              \
    X(HB_CENSORED, "censored")       /* too many deliveries gave no duration */         \
    X(HB_STALE_KEY, "stale_key")     /* no activity for longer than stale_after */      \
    X(HB_INVALID_KEY, "invalid_key") /* empty or longer than HB_KEY_MAX */

enum hb_reason {
#define HB_REASON_ENUM(name, word) name,
    HB_REASON_MAP(HB_REASON_ENUM)
#undef HB_REASON_ENUM
        HB_N_REASONS
};

/* The word of the list above, "unknown" for any other value. Never NULL. */
HB_API const char *hb_reason_name(enum hb_reason reason);

/* Which number of a key's histogram is its estimate. */
#define HB_SUMMARY_MAP(X)          \
    X(HB_SUMMARY_MEDIAN, "median") \
    X(HB_SUMMARY_P75, "p75")       \
    X(HB_SUMMARY_MEAN, "mean")     \
    X(HB_SUMMARY_GEOMETRIC, "geometric") /* sqrt(median x mean), both at least min_ms */

enum hb_summary {
#define HB_SUMMARY_ENUM(name, word) name,
    HB_SUMMARY_MAP(HB_SUMMARY_ENUM)
#undef HB_SUMMARY_ENUM
        HB_N_SUMMARIES
};

HB_API const char *hb_summary_name(enum hb_summary summary);

/* Borrowed bytes; valid during the call only. {NULL, 0} = none. */
struct hb_key {
    const char *p;
    size_t n;
};

/* Defaults in brackets, from Table 1 of the paper where it has them. All are changed only by a new
 * predictor. */
struct hb_predictor_options {
    unsigned levels;        /* [3] 1..HB_LEVELS_MAX */
    unsigned default_level; /* [1] below `levels` */

    enum hb_summary summary; /* [median] */
    uint32_t min_samples;    /* [20] durations before a key is predicted; 1 = from the first on */
    double spread_quantile;  /* [0.99] (0.5, 1] */
    double max_spread_ratio; /* [16] this quantile / median above it: high_spread; >= 1, or 0 = no
                                check */
    double max_censored;     /* [0.05] censored share above it: censored; 0..1, 1 = no check */
    int64_t stale_after_ns;  /* [30 min] 0 = never stale */

    double decay; /* [0.995] weight that is left of a duration when its key gets the next; (0, 1] */
    double pooled_decay;  /* [0.9999] the same for the pooled histogram */
    int64_t half_life_ns; /* [10 min] wall-clock half-life of a key's history; 0 = off */

    unsigned bins; /* [48] 8..1024: the first below min_ms, the others geometric up to max_ms */
    double min_ms; /* [1] > 0 */
    double max_ms; /* [600000] > min_ms; longer durations count as this */

    uint32_t boundary_every;     /* [256] durations between looks at the boundaries; >= 1 */
    uint32_t pooled_min_samples; /* [100] durations before the first boundaries */
    double hysteresis; /* [0.10] [0, 1): a boundary, and a key's level, resist smaller moves */

    uint32_t max_keys;        /* [16384] 1..2^23 */
    int64_t idle_eviction_ns; /* [10 min] a full table gives up a key idle for so long; 0 = never */
    int64_t cold_eviction_ns; /* [30 s] the same for a key with fewer than min_samples durations */

    uint64_t seed[2]; /* [0, 0] draw it at random once per process: nobody can then prepare
                         colliding keys */
};

HB_API void hb_predictor_options_init(struct hb_predictor_options *o);

/* True when a predictor can be made of them; else false, and `why` (may be NULL when size is 0)
 * names the wrong option and its range. */
HB_API bool hb_predictor_options_valid(const struct hb_predictor_options *o, char *why,
                                       size_t size);

struct hb_predictor;

/* NULL when memory is short or the options are not valid. Copies the options. Free with
 * hb_predictor_free. */
HB_API struct hb_predictor *hb_predictor_new(const struct hb_predictor_options *o);
HB_API void hb_predictor_free(struct hb_predictor *p);
HB_API const struct hb_predictor_options *hb_predictor_options(const struct hb_predictor *p);

struct hb_prediction {
    enum hb_reason reason;
    bool has_estimate;     /* reason is HB_PREDICTED */
    bool from_parent;      /* estimate and level are the parent's */
    unsigned level;        /* the default level without an estimate */
    double estimate_ms;    /* 0 without an estimate */
    uint64_t boundary_seq; /* which set of boundaries was used; 0 = none published */
};

/*
 * What is known about `key` now. `parent` is the key without its size part, or none: it is asked
 * only when the key itself is cold_key, and its answer is taken only when it is `predicted`. Always
 * fills *out.
 *
 * Asking keeps a key alive: a key that is not stale counts as active now, even when the answer is a
 * fallback. It never creates a key. A stale key stays stale until its next duration or censored
 * mark, which starts it anew; its entry is reclaimed when room is needed, or by a later newcomer,
 * and from then on it is cold_key.
 */
HB_API void hb_predictor_predict(struct hb_predictor *p, struct hb_key key, struct hb_key parent,
                                 int64_t now, struct hb_prediction *out);

/*
 * Learns a duration: for the key, its parent (if there is one), and the pooled histogram once.
 * False, and counted as rejected, when the key is invalid or the duration is negative or not
 * finite; zero is a duration. A key that finds no room is counted as overflow and still feeds the
 * pooled histogram.
 */
HB_API bool hb_predictor_observe(struct hb_predictor *p, struct hb_key key, struct hb_key parent,
                                 double duration_ms, int64_t now);

/* A delivery that ended without a duration (its lease ran out): marks key and parent, never the
 * pooled histogram. False, and counted as rejected, when the key is invalid. */
HB_API bool hb_predictor_censor(struct hb_predictor *p, struct hb_key key, struct hb_key parent,
                                int64_t now);

/* The level of a known duration under the boundaries of now; the default level while there are
 * none. */
HB_API unsigned hb_predictor_level_of(const struct hb_predictor *p, double duration_ms);

/*
 * Compares a prediction made at ingress with the duration that came of it, for the drift signals in
 * the stats. Call it for each learned duration whose message carried an estimate, before
 * hb_predictor_observe. Changes no prediction.
 */
HB_API void hb_predictor_score(struct hb_predictor *p, unsigned predicted_level, double estimate_ms,
                               double duration_ms);

/* Counters since creation, unless a comment says "now". */
struct hb_predictor_stats {
    uint64_t lookups;                /* calls of predict */
    uint64_t outcomes[HB_N_REASONS]; /* by reason; they add up to lookups */
    uint64_t parent_fallbacks;       /* answers taken from the parent (outcome `predicted`) */
    uint64_t observations;           /* accepted durations */
    uint64_t rejected;               /* refused durations and marks */
    uint64_t saturated;              /* durations above max_ms */
    uint64_t censored;               /* accepted censored marks */
    uint64_t publications;           /* new sets of boundaries */
    uint64_t degenerate;             /* sets discarded because they did not rise strictly */
    uint64_t evictions;              /* keys given up for newcomers, stale ones included */
    uint64_t stale_freed;            /* stale keys among them, or freed while there was room */
    uint64_t overflow;               /* newcomers that found no room */
    uint64_t no_memory;              /* newcomers among them that found no memory */
    uint64_t scored;                 /* calls of score */
    uint64_t matches;                /* ... whose level was right */
    uint64_t drift_alerts;           /* times the rolling agreement fell below 0.5 */
    bool drift_alert;                /* now: below 0.5 and not yet above 0.6 again */
    uint32_t window;       /* now: scored messages in the rolling window, up to HB_DRIFT_WINDOW */
    double agreement;      /* now: share of matches in the window; 0 when it is empty */
    double abs_log2_error; /* now: running average (gain 0.01) of |log2(estimate / duration)| */
    uint32_t keys;         /* now */
    uint32_t max_keys;
    uint64_t pooled_samples; /* durations in the pooled histogram, those of a restored snapshot
                                included */
    uint64_t boundary_seq;   /* now */
    uint64_t memory_bytes;   /* now: everything the predictor has allocated */
};

HB_API void hb_predictor_stats(const struct hb_predictor *p, struct hb_predictor_stats *out);

/* The boundaries in ms, rising; *n is levels - 1, or 0 while none are published. Valid until the
 * next call that learns. */
HB_API const double *hb_predictor_boundaries(const struct hb_predictor *p, size_t *n);

/* All that decides about one key, in the order in which it is asked: what `why` prints and `keys`
 * lists. */
struct hb_key_info {
    struct hb_key key;     /* valid during the visit or, from explain, the caller's own */
    bool known;            /* false: only `key`, `reason` and `level` mean anything */
    enum hb_reason reason; /* what a prediction now would say (the key's own, no parent) */
    unsigned level;        /* ... and the level it would give */
    double estimate_ms;    /* of the summary in use, whatever the reason; 0 without durations */
    uint64_t n;            /* durations learned since the key was created or last went stale */
    int64_t age_ns;        /* since its last activity */
    double censored_share; /* 0..1, decayed */
    double median_ms, p75_ms, mean_ms;
    double tail_ms;       /* at spread_quantile */
    double spread_ratio;  /* tail / max(median, min_ms) */
    int remembered_level; /* -1 = none */
};

/* Fills *out for one key and changes nothing, not even its age. False when the key is unknown (or
 * invalid). */
HB_API bool hb_predictor_explain(const struct hb_predictor *p, struct hb_key key, int64_t now,
                                 struct hb_key_info *out);

/* Calls `visit` for every key, the most recently active first, until it returns false. `visit` must
 * not change the predictor. Changes nothing. */
HB_API void hb_predictor_each_key(const struct hb_predictor *p, int64_t now,
                                  bool (*visit)(void *ctx, const struct hb_key_info *info),
                                  void *ctx);

/* The last part of a size-binned key: "s" and floor(log2(size)), at most 63, sizes below 1 (and
 * anything that is not a number) count as 1. Writes at most 4 bytes with the NUL; returns the
 * length. */
#define HB_SIZE_LABEL_MAX 4
HB_API size_t hb_size_label(double size, char out[HB_SIZE_LABEL_MAX]);

/* Walks every structure. NULL when all is well, else words for the first broken invariant. For
 * tests and simulators. */
HB_API const char *hb_predictor_check(const struct hb_predictor *p);

#endif
