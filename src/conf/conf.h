/*
 * The configuration: one struct that mirrors the sections of the YAML file.
 *
 * A `struct conf` is either all zero (conf_fini does nothing) or whole: every option has a value
 * inside its range and the options agree with each other (conf_check). Durations are nanoseconds,
 * sizes are bytes, texts are owned and never NULL. Nothing here is shared: a reload loads a fresh
 * struct and takes over from it.
 *
 * Start:   conf_load_file(path, sets, n_sets, &running, &errors)
 * SIGHUP:  conf_load_file(path, sets, n_sets, &fresh, &errors), conf_diff for the log,
 * conf_reload(&running, &fresh, &errors), conf_fini(&fresh)
 *
 * The rows that describe the options are in conf_table.h.
 */
#ifndef HARBINGER_CONF_CONF_H
#define HARBINGER_CONF_CONF_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/mono.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONF_MAX_LEVELS \
    10 /* RabbitMQ pays for each priority: docs/amqp.md, "What RabbitMQ does", 3 */
#define CONF_MAX_SOURCES 8
#define CONF_MAX_OPTIONS 128
#define CONF_MAX_LABELS  10000
#define CONF_MAX_WINDOW  200000u /* messages held on all channels of the intake */
#define CONF_MAX_BYTES   (1u << 20)

#define CONF_LEVEL_AUTO (-1)
#define CONF_PATH_AUTO  "auto"

enum conf_mode { CONF_MODE_STATIC, CONF_MODE_SHADOW, CONF_MODE_PREDICTIVE };
enum conf_backend { CONF_BACKEND_RABBITMQ, CONF_BACKEND_HARBINGER };
enum conf_order { CONF_ORDER_PAPER, CONF_ORDER_FIFO };
enum conf_pause { CONF_PAUSE_AUTO, CONF_PAUSE_ALWAYS, CONF_PAUSE_NEVER };
enum conf_dead { CONF_DEAD_DROP_OLDEST, CONF_DEAD_REFUSE };
enum conf_topology { CONF_TOPOLOGY_DECLARE, CONF_TOPOLOGY_CHECK, CONF_TOPOLOGY_OFF };
enum conf_respect { CONF_RESPECT_NEVER, CONF_RESPECT_NONZERO, CONF_RESPECT_ALWAYS };
enum conf_summary { CONF_SUMMARY_MEDIAN, CONF_SUMMARY_P75, CONF_SUMMARY_MEAN };
enum conf_source_kind {
    CONF_SOURCE_NONE,
    CONF_SOURCE_USER_ID,
    CONF_SOURCE_APP_ID,
    CONF_SOURCE_TYPE,
    CONF_SOURCE_BODY,
    CONF_SOURCE_HEADER,
};

struct hb_broker_options;
struct hb_predictor_options;

struct conf_texts {
    char **v;
    size_t n;
};

struct conf_numbers {
    unsigned v[CONF_MAX_LEVELS];
    size_t n;
};

/* Where a part of the key comes from. */
struct conf_source {
    enum conf_source_kind kind;
    char *header; /* CONF_SOURCE_HEADER: the header's name; else NULL */
};

struct conf_sources {
    struct conf_source v[CONF_MAX_SOURCES];
    size_t n;
};

struct conf_label {
    char *label;
    unsigned level;
};

/* Sorted by label (strcmp). */
struct conf_labels {
    struct conf_label *v;
    size_t n;
};

/* Where an option was set; line 0 = it has its default. */
struct conf_place {
    unsigned line, column;
    bool by_set; /* by --set: no line */
};

struct conf {
    char *instance; /* "" = the host name */
    enum conf_backend backend;
    enum conf_mode mode;
    unsigned levels;   /* 1..CONF_MAX_LEVELS */
    int default_level; /* CONF_LEVEL_AUTO or 0..levels-1; conf_default_level resolves it */

    struct {
        struct conf_texts uri; /* at least one; tried in order */
        char *password_file;   /* "" = none */
        mono_t heartbeat;      /* 0 = what RabbitMQ proposes */
        uint64_t frame_max;
        mono_t connect_timeout;
        mono_t confirm_timeout;
        mono_t reconnect_min, reconnect_max;
        enum conf_topology topology;
    } amqp;

    struct {
        char *queue;
        unsigned channels; /* 0 = as the backend wants; conf_intake_channels resolves it */
        unsigned window;   /* messages held unacked, each channel */
        uint64_t window_bytes;
        unsigned per_worker;     /* held for each message that the workers can have */
        mono_t idle_after;       /* without workers; 0 = never */
        mono_t delivery_timeout; /* RabbitMQ's; 0 = none */
    } intake;

    struct {
        enum conf_order order;
        mono_t aging_threshold; /* 0 = no aging */
        mono_t aging_interval;
        struct conf_numbers weights; /* empty: strict; else one per level */
        enum conf_pause pause_when_behind;
        mono_t ttl; /* 0 = for ever */
        uint64_t max_attempts;
        mono_t lease; /* 0 = no limit */
        bool extendable_leases;
        mono_t history;
        uint64_t history_entries;
        uint64_t batch;
        uint64_t max_messages, max_bytes; /* 0 = no bound */
        uint64_t max_dead, max_dead_bytes;
        enum conf_dead dead_overflow;
    } broker; /* with the harbinger backend */

    struct {
        char *listen;            /* "" = off; ADDRESS:PORT, port 0 = any */
        char *certificate, *key; /* "" = in the clear */
        char *token_file;        /* "" = no token */
        unsigned max_connections, max_streams;
        uint64_t max_message, max_connection_bytes;
        mono_t max_pull_wait;
    } rpc; /* with the harbinger backend */

    struct {
        char *listen;            /* "" = off; ADDRESS:PORT, port 0 = any */
        char *certificate, *key; /* "" = in the clear */
        char *upstream;          /* HOST:PORT; "" = those of amqp.uri */
        bool upstream_tls;
        char *upstream_ca; /* "" = the system's */
        unsigned max_connections;
        uint64_t max_connection_bytes;
        unsigned max_window; /* 0 = as the worker asks */
        bool barrier, allow_guest;
    } proxy; /* with the harbinger backend */

    struct {
        char *queue;
        char *exchange;                 /* "" = the default exchange with the queue's name */
        struct conf_numbers priorities; /* empty, or one per level; conf_priority resolves it */
        enum conf_respect respect_priority;
        bool impersonate;
    } work;

    struct {
        char *queue;
    } parked;

    struct {
        char *exchange;
        char *queue;
        mono_t max_duration;
        uint64_t remembered_ids;
    } reports;

    struct {
        struct conf_sources producer;
        struct conf_sources label;
        struct conf_source size;
    } key;

    struct conf_labels static_levels; /* section `static` */

    struct {
        enum conf_summary summary;
        uint64_t min_samples;
        uint64_t boundary_refresh_every;
        uint64_t global_min_samples;
        double spread_quantile;
        double max_spread_ratio;
        double max_censored_fraction;
        double decay;
        double global_decay;
        mono_t time_half_life;      /* 0 = off */
        mono_t stale_after;         /* 0 = never */
        mono_t idle_eviction;       /* 0 = never */
        mono_t cold_eviction_grace; /* 0 = never */
        unsigned histogram_bins;
        mono_t min, max;
        uint64_t max_keys;
        double hysteresis;
    } predictor;

    struct {
        char *path; /* "" = off; CONF_PATH_AUTO = in $STATE_DIRECTORY, off where that is unset */
        mono_t interval;
    } snapshot;

    struct {
        char *path; /* "" = off */
    } journal;

    struct {
        char *listen; /* "" = off; ADDRESS:PORT, port 0 = any */
    } http;

    struct {
        enum log_level level;
    } log;

    struct {
        mono_t timeout;
    } shutdown;

    char *name;                                /* the file's name for messages; "" = no file */
    struct conf_place place[CONF_MAX_OPTIONS]; /* by row of conf_table */
};

/* All errors of one load, each a whole line without '\n': "harbinger.yaml:3:5: unknown key
 * 'intake.queu' ...". */
#define CONF_MAX_ERRORS 20

struct conf_errors {
    size_t n; /* found; the first CONF_MAX_ERRORS are kept */
    char line[CONF_MAX_ERRORS][640];
};

/*
 * Every function below that takes `errors` appends to it (start from a zeroed struct) and returns
 * 0, or ERR_CONFIG  something a person wrote is wrong; `errors` says what ERR_SYSTEM  the file
 * cannot be read; `errors` says why ERR_NOMEM   `errors` says so
 */

/* The built-in defaults into raw memory. Returns 0 or ERR_NOMEM with *c all zero. */
int conf_init_defaults(struct conf *c) MUST_CHECK;

/* Frees what *c owns and zeroes it. */
void conf_fini(struct conf *c);

/* Defaults, then the file (`path` NULL: none), then each KEY=VALUE of `sets`, then conf_check, into
 * raw memory. All errors of the file and the sets are reported. On error *c is all zero. */
int conf_load_file(const char *path, const char *const *sets, size_t n_sets, struct conf *c,
                   struct conf_errors *errors) MUST_CHECK;

/* The same from memory; `name` is how messages call the text. */
int conf_load_text(const char *name, const char *text, size_t n, struct conf *c,
                   struct conf_errors *errors) MUST_CHECK;

/* Sets one option, as --set does: "intake.window=100", "key.label=[header:job_type, type]",
 * "static.resize=0". On error *c is unchanged. Does not run conf_check. */
int conf_set(struct conf *c, const char *assignment, struct conf_errors *errors) MUST_CHECK;

/* Do the options agree with each other? */
int conf_check(const struct conf *c, struct conf_errors *errors) MUST_CHECK;

/* Adds what is wrong with an option's value in the eyes of whoever uses it, after the place where
 * it was set: "harbinger.yaml:3:5: TEXT". Returns ERR_CONFIG. */
int conf_refuse(const struct conf *c, const char *key, const char *text,
                struct conf_errors *errors);

struct conf_change {
    const char *key; /* static */
    bool reloadable;
};

/* Which options differ, in the file's order; returns their number. */
size_t conf_diff(const struct conf *a, const struct conf *b,
                 struct conf_change out[CONF_MAX_OPTIONS]);

/* Moves the reloadable options of `fresh` into `running`; the others of `running` stay. ERR_CONFIG
 * when the mix does not agree (a static level beyond the running `levels`): then both are
 * unchanged. */
int conf_reload(struct conf *running, struct conf *fresh, struct conf_errors *errors) MUST_CHECK;

/* The whole effective file with comments, passwords in URIs replaced; it reads back (passwords
 * apart) as the same configuration. Returns 0 or ERR_NOMEM. */
int conf_print(const struct conf *c, struct buf *out) MUST_CHECK;

/* The default level with `auto` resolved: levels/2, below `levels`. */
unsigned conf_default_level(const struct conf *c);

/* Section `predictor`, levels and default level as the predictor takes them; the seed stays 0. */
void conf_predictor_options(const struct conf *c, struct hb_predictor_options *out);

/* Section `broker` and levels as the broker takes them; the seed stays 0. */
void conf_broker_options(const struct conf *c, struct hb_broker_options *out);

/* Channels of the intake. */
unsigned conf_intake_channels(const struct conf *c);

/* Messages held unacked, all channels together. */
unsigned conf_intake_window(const struct conf *c);

/* The AMQP priority of a level (0 = shortest work): `work.priorities`, or levels-1-level. */
unsigned conf_priority(const struct conf *c, unsigned level);

/* The level that `static` gives to a label of n bytes, or -1. */
int conf_static_level(const struct conf *c, const char *label, size_t n);

#endif
