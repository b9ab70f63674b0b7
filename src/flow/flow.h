/*
 * The pipeline that daemon, simulator and tests share:
 *
 *   job ─► key ─► decision ─► backend          flow_submit
 *   report ─► learning ─► the next decision    flow_report, or flow_learn where the duration comes
 *                                              from a settlement
 *
 * Modes differ in the level alone, never in what is delivered or learned (paper 3.4, 3.9):
 *   static      the level that a hand-written map gives to the label, else the default level
 *   shadow      the default level; the prediction is made, recorded in the id, and scored
 *   predictive  the predicted level, else the default level
 *
 * Pure: no clock, socket, file or random number; `now` must be monotonic and the seeds are options.
 */
#ifndef HARBINGER_FLOW_FLOW_H
#define HARBINGER_FLOW_FLOW_H

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mono.h"
#include "flow/job.h"
#include "flow/key.h"
#include "flow/report.h"
#include "port/backend.h"

#include <harbinger/broker.h>
#include <harbinger/predictor.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flow_mode { FLOW_STATIC, FLOW_SHADOW, FLOW_PREDICTIVE };

/* Whether the priority that a producer set itself stands. `nonzero`: Celery sends 0 where its user
 * set none. */
enum flow_respect { FLOW_RESPECT_NEVER, FLOW_RESPECT_NONZERO, FLOW_RESPECT_ALWAYS };

/* What may change while running. Everything is borrowed and must outlive the flow, or its
 * replacement by flow_set_rules. */
struct flow_rules {
    enum flow_mode mode;
    enum flow_respect respect_priority;
    struct key_rules key;
    double max_duration_ms; /* longer reports are refused (they are the work of another clock) */

    /* The level for a label in static mode; negative: none. NULL: no map. */
    int (*static_level)(const void *ctx, struct text label);
    const void *static_ctx;
};

/* Told of all that decides: each message that the backend took, and each lesson of the predictor. All
 * or none of the functions are NULL. */
struct flow_witness {
    void (*decided)(void *ctx, const struct ticket *t, mono_t now);
    void (*learned)(void *ctx, struct hb_key key, struct hb_key parent, double ms, mono_t now);
    void (*timed_out)(void *ctx, struct hb_key key, struct hb_key parent, mono_t now);
    void *ctx;
};

struct flow_options {
    struct flow_rules rules;
    struct hb_predictor_options predictor; /* levels and default_level are the flow's too */
    size_t remembered_ids;                 /* 0..2^27 */
    uint64_t instance;                     /* random; differs between replicas and restarts */
    struct hash_seed seed;                 /* random */
    struct flow_witness witness;
};

/* What became of a report. All but the first teach no duration. */
#define FLOW_REPORT_MAP(X)                                                                        \
    X(FLOW_LEARNED, "learned")                                                                    \
    X(FLOW_ERROR, "error")         /* the job failed */                                           \
    X(FLOW_TIMEOUT, "timeout")     /* the job was given up: its key is marked censored */         \
    X(FLOW_DUPLICATE, "duplicate") /* this id was learned already */                              \
    X(FLOW_MALFORMED, "malformed") /* no JSON, wrong types, no duration, an id of another form */ \
    X(FLOW_NEGATIVE, "negative")   /* duration below zero */                                      \
    X(FLOW_TOO_LONG, "too_long")   /* duration above max_duration_ms */                           \
    X(FLOW_NO_KEY, "no_key")       /* no key, or one that is not in printed form */

enum flow_report_result {
#define FLOW_REPORT_ENUM(name, word) name,
    FLOW_REPORT_MAP(FLOW_REPORT_ENUM)
#undef FLOW_REPORT_ENUM
        FLOW_N_RESULTS
};

/* The word of the list above; never NULL. */
const char *flow_report_result_name(enum flow_report_result r);

/* Why a message has its level: the predictor's reasons, and three of the flow's own. */
#define FLOW_REASON_STATIC   "static"
#define FLOW_REASON_SHADOW   "shadow"
#define FLOW_REASON_PRODUCER "producer_priority"

struct flow_stats {
    uint64_t jobs;                    /* decided */
    uint64_t by_level[HB_LEVELS_MAX]; /* ... with this level */
    uint64_t kept_priority;           /* ... whose producer's priority stands (not in by_level) */
    uint64_t reports[FLOW_N_RESULTS]; /* elements of reports, by what became of them */
    uint64_t no_id;        /* learned without an id, so that a duplicate cannot be told */
    uint64_t settled;      /* learned by flow_learn */
    uint64_t overrun;      /* marked by flow_censor */
    size_t remembered_ids; /* now */
};

struct flow;

/* NULL with `err` set when memory is short or an option is out of range. Free with flow_free. */
struct flow *flow_new(const struct flow_options *o, struct err *err) MUST_CHECK;
void flow_free(struct flow *f);

/* New rules from now on; what was learned stays. */
void flow_set_rules(struct flow *f, const struct flow_rules *rules);

/* The predictor, for its stats, its keys and its snapshot. Belongs to the flow. */
struct hb_predictor *flow_predictor(struct flow *f);
const struct flow_stats *flow_stats(struct flow *f);

/*
 * Decides about one message and hands it to the backend, with the result of backend_submit. A
 * message that the backend did not take counts as not decided, so offering it again later counts
 * once.
 */
int flow_submit(struct flow *f, struct backend *b, void *message, const struct job *job,
                mono_t now) MUST_CHECK;

/* Learns from one report body (one object or a list), or from one report that came as fields (NULL:
 * it was none). */
void flow_report_body(struct flow *f, const char *body, size_t n, mono_t now);
void flow_report(struct flow *f, const struct report *report, mono_t now);

/* Learns the duration of a settled attempt, and scores what was predicted for it. One above
 * max_duration_ms counts as a report that is too long. */
void flow_learn(struct flow *f, const struct hb_lesson *lesson, mono_t now);

/* An attempt ran out of its lease: its key is marked. */
void flow_censor(struct flow *f, struct hb_key key, struct hb_key parent, mono_t now);

/* Signs that the sidecar is of no use as it is set up, looked at over the latest whole period of 60
 * s. */
struct flow_advice {
    bool no_reports; /* messages flow (at least 20) and not one report came */
    bool one_key;    /* all of at least 100 messages had the same key */
};

/* Call it at least once per second; fills *out and returns true when a period has just ended. */
bool flow_advise(struct flow *f, mono_t now, struct flow_advice *out);

#endif
