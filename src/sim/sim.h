/*
 * The simulator: a trace of jobs served by a number of workers, under a virtual clock. What decides
 * is the very flow, predictor, order of service and delivery core that the daemon runs (paper,
 * Section 4; the rules are those of the reference's simulator).
 *
 *   - A worker has one job at a time and finishes it. A job is run once: nothing fails.
 *   - Events come in the order of their times; at the same time completions first (those that began
 *     earlier first), then arrivals in their order, then the aging pass. After each event jobs are
 *     handed out until no worker is idle or nothing waits. The worker that is idle for longest gets
 *     the next job.
 *   - A completion teaches the predictor before anything is handed out. Aging passes come one interval
 *     after the one before; whenever nothing waits after an event, after that event.
 *   - The trace has two parts: a history, which only teaches (at its own times, before the clock
 *     starts), and the evaluation, which is simulated from time 0 = its first arrival.
 *   - With a load, arrivals are compressed by C = load x workers x span / work of the evaluation, so
 *     that the workers are busy for that share of the time; durations stay as they are.
 *
 * Pure: the trace comes from a callback, seeds are options; equal input gives equal results.
 */
#ifndef HARBINGER_SIM_SIM_H
#define HARBINGER_SIM_SIM_H

#include "base/compiler.h"
#include "base/err.h"
#include "base/mono.h"
#include "base/text.h"

#include <harbinger/broker.h>
#include <harbinger/predictor.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the trace ---- */

#define SIM_NO_SIZE     UINT64_MAX
#define SIM_NO_PRODUCER UINT32_MAX
#define SIM_MAX_US      INT64_C(3153600000000000) /* 100 years */

struct sim_job {
    int64_t arrival_us, duration_us; /* 0..SIM_MAX_US; arrivals never decrease */
    uint64_t size;                   /* SIM_NO_SIZE: not known */
    uint32_t key, producer;          /* producer: SIM_NO_PRODUCER for none */
};

/* A trace that can be read again. Keys and producers are numbered from 0 without large gaps. */
struct sim_source {
    void *ctx;
    /* 1 with *out, 0 at the end, or negative with *e set. */
    int (*next)(void *ctx, struct sim_job *out, struct err *e);
    int (*rewind)(void *ctx, struct err *e); /* to the first job; 0 or negative */
    /* Texts of 1..128 bytes without control characters, of jobs that next has returned. `producer` may be
     * NULL when no job has one. */
    struct text (*key)(void *ctx, uint32_t i);
    struct text (*producer)(void *ctx, uint32_t i);
};

/* ---- what is known of it before a run ---- */

enum sim_by { SIM_BY_ROWS, SIM_BY_TIME };

enum { SIM_CLASSES = 3, SIM_WINDOWS_MAX = 1000 };

struct sim_split {
    double history;         /* 0..0.9: share of the trace that only teaches */
    enum sim_by by;         /* share of its rows, or of its span */
    unsigned windows;       /* 1..SIM_WINDOWS_MAX parts of the evaluation */
    enum sim_by windows_by; /* with equally many rows, or equally long */
};

struct sim_plan;

/*
 * Reads the source, which is at its first job, twice. NULL with `e` set: the source's own error, no job in the evaluation, jobs
 * not in order (the error names the row), a bad option, no memory. Needs 8 bytes per job while it
 * runs. Free with sim_plan_free. Many runs, also of several threads, can share one.
 *
 * The reference durations are those of the history; without a history, of the whole trace.
 */
struct sim_plan *sim_plan_new(const struct sim_source *s, const struct sim_split *split,
                              struct err *e) MUST_CHECK;
void sim_plan_free(struct sim_plan *p);

struct sim_plan_info {
    uint64_t n_history, n_evaluation;
    uint32_t n_keys;
    int64_t span_us;                   /* of the evaluation: last - first arrival */
    double work_us;                    /* ... sum of durations */
    int64_t class_us[SIM_CLASSES - 1]; /* terciles of the reference durations (nearest rank) */
};

void sim_plan_info(const struct sim_plan *p, struct sim_plan_info *out);

/* ---- one run ---- */

/* Who says which level a job gets. All but the flow decide without an estimate. */
#define SIM_ROUTER_MAP(X)                                                                        \
    X(SIM_FLOW, "predictive") /* the flow with its predictor */                                  \
    X(SIM_SHADOW, "shadow")   /* the flow in shadow mode: all at the default level */            \
    X(SIM_FIFO, "fifo")       /* all at level 0, in the order of arrival */                      \
    X(SIM_MAP, "map")         /* the caller's map from keys; the default level if not in it */   \
    X(SIM_HISTORY, "history") /* the key's median reference duration, against their quantiles */ \
    X(SIM_RANDOM, "random")   /* a level per key, drawn from the seed and the key's text */      \
    X(SIM_ORACLE, "oracle")   /* the true duration, against the reference quantiles */           \
    X(SIM_QUEUES, "queues")   /* a level per key, equal shares of worker time, no aging */

enum sim_router {
#define SIM_ROUTER_ENUM(name, word) name,
    SIM_ROUTER_MAP(SIM_ROUTER_ENUM)
#undef SIM_ROUTER_ENUM
        SIM_N_ROUTERS
};

const char *sim_router_name(enum sim_router r);

/* What became of one job, told when it starts. */
struct sim_decision {
    mono_t decided_at;  /* its arrival, ns of simulated time */
    uint64_t job;       /* row of the evaluation, from 0 */
    unsigned level;     /* at ingress */
    double estimate_ms; /* negative: none */
    const char *reason; /* static text: the router's name or the predictor's reason */
    mono_t started_at;
    unsigned served_level; /* it was taken from */
    uint32_t worker;
};

enum { SIM_GROUPS = 16 };

struct sim_options {
    uint32_t workers; /* 1..1000000 */
    double load;      /* 0 = times as they are; else (0, 10] */
    enum sim_router router;
    bool warm;                             /* the history teaches the predictor */
    bool size_bins;                        /* keys of the flow carry the size's bin */
    uint64_t seed;                         /* of SIM_RANDOM */
    struct hb_predictor_options predictor; /* its levels and default level are everybody's */
    struct hb_broker_options broker;       /* levels: those of the predictor, whatever stands here;
                                        max_messages bounds what waits */

    /* Level for SIM_MAP; negative: none. */
    int (*map)(void *ctx, struct text key);
    /* A group, below SIM_GROUPS, that the key's jobs are also summed up in. NULL: all are in group 0. */
    unsigned (*group)(void *ctx, struct text key);
    /* Called in the order of starts. NULL: nobody asks. */
    void (*decided)(void *ctx, const struct sim_decision *d);
    /* Called now and then with the jobs completed so far; false stops the run. NULL: nobody asks. */
    bool (*progress)(void *ctx, uint64_t n_done);
    void *ctx;
};

/* The defaults: 64 workers, as it is, the flow's router and warm, the predictor's defaults, aging of
 * 5 s / 500 ms, no weights (8, 3, 1 if they are switched on), at most 5 million waiting. */
void sim_options_init(struct sim_options *o);

/* Of a set of jobs, in ms. Latency is completion - arrival, wait is start - arrival, slowdown is
 * latency / max(duration, 1 ms). Quantiles are nearest rank, of whole microseconds. */
struct sim_figures {
    uint64_t n; /* all others are 0 when this is */
    double mean_ms, p50_ms, p95_ms, p99_ms;
    double mean_wait_ms, max_wait_ms;
    double mean_slowdown;
};

struct sim_window {
    struct sim_figures all, by_class[SIM_CLASSES];
};

struct sim_result {
    struct sim_figures all;
    struct sim_figures by_class[SIM_CLASSES]; /* short, medium, long: the true duration against the
                                                 terciles of the reference durations */
    struct sim_figures by_group[SIM_GROUPS];
    struct sim_window *windows; /* plan's number of them; a job is in that of its arrival */
    unsigned n_windows;

    double compress;      /* C; 1 = times as they are */
    mono_t ended_at;      /* the last completion */
    double utilisation;   /* work / (workers x ended_at) */
    uint64_t max_waiting; /* the most that waited at once */
    uint64_t promotions;
    bool learns; /* the predictor had a part in it */
    struct hb_predictor_stats predictor;
};

/* 0 with *out, to be freed with sim_result_fini; SIM_STOPPED; or negative with `e` set: a bad option
 * (named), the source's error, more waiting than max_messages, no memory. `s` is rewound and read once. */
enum { SIM_STOPPED = 1 };
int sim_run(const struct sim_plan *plan, const struct sim_source *s, const struct sim_options *o,
            struct sim_result *out, struct err *e) MUST_CHECK;
void sim_result_fini(struct sim_result *r);

#endif
