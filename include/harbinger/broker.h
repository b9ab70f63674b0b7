/*
 * The delivery core: holds messages, hands each to one consumer at a time under a lease, takes the
 * settlement, retries what failed and keeps what died (paper 3.2, Figure 3).
 *
 *   submit ─► waiting ──pull──► in flight ──ack──► done
 *                ▲                  │
 *                └─ nack, lease ────┴─ rejected, no attempts left, time to live over ─► dead
 *
 * Which waiting message is next is decided by an order of service (paper 3.6, 3.7); level and
 * estimate are handed in by the caller, who also learns from the durations that come back.
 *
 * Rules that hold everywhere:
 *   - Nothing here reads a clock, blocks, logs or starts a thread. `now` is monotonic nanoseconds
 *     from any start, 0 or more; one that lies below 0 or before the latest seen counts as that.
 *   - hb_broker_tick does what is due and returns when it must be called next. Every call that
 *     could act on something overdue looks at the deadlines itself: a late tick changes no outcome.
 *   - Delivery is at-least-once while the broker lives. A failed allocation loses nothing: the call
 *     that needed the memory says HB_BROKER_NOMEM and has changed nothing.
 *   - Ids and tokens are numbers that a broker never uses twice. A token names one attempt: the
 *     settlement of an old one cannot touch a newer one.
 *   - Callbacks run before the call that caused them returns, and must not call the broker.
 *   - One broker belongs to one thread at a time; two brokers share nothing.
 */
#ifndef HARBINGER_BROKER_H
#define HARBINGER_BROKER_H

#include <harbinger/predictor.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hb_broker;

/* ---- options ---- */

/* Which waiting message is served next. */
#define HB_ORDER_MAP(X)                                                                \
    X(HB_ORDER_PAPER, "paper") /* levels, with aging and weights as the options say */ \
    X(HB_ORDER_FIFO, "fifo")   /* in the order of arrival, whatever the levels say */

enum hb_order {
#define HB_ORDER_ENUM(name, word) name,
    HB_ORDER_MAP(HB_ORDER_ENUM)
#undef HB_ORDER_ENUM
        HB_N_ORDERS
};

HB_API const char *hb_order_name(enum hb_order order);

/* Whether a level's promotions wait while the level above is behind (paper 3.7). */
enum hb_pause { HB_PAUSE_WITH_WEIGHTS, HB_PAUSE_ALWAYS, HB_PAUSE_NEVER };

/* What happens when the dead letters reach a bound. */
enum hb_dead_overflow {
    HB_DEAD_DROP_OLDEST, /* the oldest is dropped and counted; one larger than the bound itself */
    HB_DEAD_REFUSE_SUBMITS, /* submit says HB_BROKER_FULL until there is room; nothing is dropped */
};

/* Defaults in brackets; those of the paper's reference where it has them. */
struct hb_broker_options {
    unsigned levels;     /* [3] 1..HB_LEVELS_MAX */
    enum hb_order order; /* [paper] */

    int64_t aging_threshold_ns; /* [0] a message that waited so long since its placement moves to
                                   the tail of the level above; 0 = no aging */
    int64_t aging_interval_ns;  /* [500 ms] time between two looks; > 0 */
    bool weighted;              /* [false] the levels share worker time by `weights` */
    uint16_t weights[HB_LEVELS_MAX]; /* one per level, 1..1000 */
    enum hb_pause pause;             /* [with weights] */

    int64_t ttl_ns;        /* [0] default time to live, from arrival; 0 = for ever */
    uint32_t max_attempts; /* [3] 1..10^6: the failure with this number is the last */

    int64_t lease_ns;       /* [30 s] time a consumer has for a delivery that was pulled with a
                               lease; 0 = no limit */
    bool extendable_leases; /* [false] whether hb_broker_extend may be used */

    int64_t history_ns;       /* [60 s] how long a settlement is remembered for its repetition */
    uint32_t history_entries; /* [10000] 1..2^24: how many are */

    uint32_t batch; /* [256] 1..2^20: the most that one tick does of each kind of work */

    uint64_t max_messages; /* [0] waiting and in flight together; 0 = no bound */
    uint64_t max_bytes;    /* [0] their payloads and headers; 0 = no bound */

    uint32_t max_dead;                   /* [10000] dead letters that are kept; 0 = none */
    uint64_t max_dead_bytes;             /* [64 MiB] their payloads, headers and details */
    enum hb_dead_overflow dead_overflow; /* [drop oldest]; refusing needs both bounds above 0 */

    uint64_t seed[2]; /* [0, 0] of the tables; draw it at random once per process */
};

HB_API void hb_broker_options_init(struct hb_broker_options *o);

/* True when a broker can be made of them; else false, and `why` (may be NULL when size is 0) names
 * the wrong option and its range. */
HB_API bool hb_broker_options_valid(const struct hb_broker_options *o, char *why, size_t size);

/* ---- what the broker tells ---- */

/* Why a message is dead. The numbers and words are those of the reference's interface. */
#define HB_DEAD_MAP(X)                    \
    X(HB_DEAD_UNKNOWN, "unknown")         \
    X(HB_DEAD_MAX_RETRIES, "max_retries") \
    X(HB_DEAD_TTL_EXPIRED, "ttl_expired") \
    X(HB_DEAD_PROCESSING_ERROR, "processing_error") /* rejected by its consumer */

enum hb_dead_reason {
#define HB_DEAD_ENUM(name, word) name,
    HB_DEAD_MAP(HB_DEAD_ENUM)
#undef HB_DEAD_ENUM
        HB_N_DEAD_REASONS
};

HB_API const char *hb_dead_reason_name(enum hb_dead_reason reason);

/* A duration that may be learned: the first acceptance of an attempt, inside its time to live and
 * its lease if it has one, of a message with a key. */
struct hb_lesson {
    struct hb_key key, parent;
    bool predicted; /* level and estimate are those of its ingress */
    unsigned level;
    double estimate_ms;
    double duration_ms; /* 0..lease, extensions included; without a lease, 0 or more */
};

enum hb_ending {
    HB_ENDED_ACKED,
    HB_ENDED_REJECTED, /* its consumer refuses it for good */
    HB_ENDED_DEAD,
};

/* How a message that has an owner ended. */
struct hb_end {
    uint64_t id;
    enum hb_ending how;
    enum hb_dead_reason reason; /* when dead */
    const char *details;        /* dead, rejected: a sentence for people, valid during the call */
    uint32_t failures;
};

/* All may be NULL. */
struct hb_broker_events {
    void (*learn)(void *ctx, const struct hb_lesson *lesson, int64_t now);
    /* A lease ran out: the duration is at least the lease. */
    void (*censor)(void *ctx, struct hb_key key, struct hb_key parent, int64_t now);
    /* An owned message has left the broker; the owner is responsible for it from here on. */
    void (*ended)(void *ctx, void *owner, const struct hb_end *end, int64_t now);
    /* At least one message came to wait, or is not held back any more. */
    void (*available)(void *ctx);
    void *ctx;
};

/* NULL when memory is short or the options are not valid. Copies both. Free with hb_broker_free. */
HB_API struct hb_broker *hb_broker_new(const struct hb_broker_options *o,
                                       const struct hb_broker_events *events);
/* Owned messages are not reported as ended. NULL does nothing. */
HB_API void hb_broker_free(struct hb_broker *b);

/* ---- in ---- */

/* Outcomes, below and everywhere. Negative: nothing was changed. */
enum {
    HB_BROKER_NOMEM = -1,
    HB_BROKER_OK = 0,
    HB_BROKER_FULL = 1,    /* a bound is reached: offer it again later; in vain if it is larger
                              than the bound by itself */
    HB_BROKER_EMPTY = 2,   /* nothing waits, or only what is held back */
    HB_BROKER_UNKNOWN = 3, /* no such message, or not in that state */
    HB_BROKER_FOREIGN = 4, /* the delivery belongs to another consumer */
    HB_BROKER_STALE = 5,   /* this attempt is over: settled otherwise, replaced, or out of lease */
};

#define HB_TTL_DEFAULT (-1)

struct hb_bytes {
    const void *p;
    size_t n;
};

/* A new message. */
struct hb_submission {
    /* Copied; the broker looks into neither. 4 GiB and more are NOMEM. */
    struct hb_bytes payload, headers;
    void *owner;       /* NULL: the message is the broker's alone, and kept when it dies. Else it is
                    handed back by `ended` */
    struct hb_key key; /* copied; none, or longer than HB_KEY_MAX: nothing is learned from it */
    size_t n_parent;   /* key.p[0..n_parent) is the parent; 0 = it has none */
    unsigned level;    /* below options.levels */
    double estimate_ms; /* what the order of service may count with; negative: nothing */

    bool predicted; /* for the lesson: what was predicted at ingress, whatever `level` became */
    unsigned predicted_level;
    double predicted_ms;

    int64_t ttl_ns; /* HB_TTL_DEFAULT, 0 = for ever, or > 0 */
};

/* A message that has an owner, for as long as it is in the broker. */
struct hb_message;

/* HB_BROKER_OK, FULL or NOMEM. `id` (may be NULL) is never 0. `message` (may be NULL) is set to
 * NULL without an owner; else it is valid until `ended` or hb_broker_withdraw. */
HB_API int hb_broker_submit(struct hb_broker *b, const struct hb_submission *s, int64_t now,
                            uint64_t *id, struct hb_message **message);

/* Takes an owned message that waits away without a trace: `ended` is not called. HB_BROKER_OK, or
 * UNKNOWN when it is in flight. */
HB_API int hb_broker_withdraw(struct hb_broker *b, struct hb_message *message);

/* Whether it waits: no consumer has it now. */
HB_API bool hb_broker_waits(const struct hb_message *message);

/* Attempts at it that have failed. */
HB_API uint32_t hb_broker_failures(const struct hb_message *message);

/*
 * Holds an owned message that waits back from pulls, until its owner knows whether it is still the
 * one to hand it out; and lets it go again. It waits meanwhile as all do: it keeps its place, so that
 * afterwards it is as if it had never been held, and it is promoted, can be withdrawn, counts for the
 * bounds and dies when its time to live is over. Constant time; a pull may pass over those that are
 * held right behind the message it takes.
 *
 * HB_BROKER_OK, also when it was held already, or UNKNOWN when it is in flight. The release of one that
 * is not held does nothing.
 */
HB_API int hb_broker_hold(struct hb_broker *b, struct hb_message *message);
HB_API void hb_broker_release(struct hb_broker *b, struct hb_message *message);

/* ---- out ---- */

struct hb_delivery {
    uint64_t id, token;
    /* The broker's; valid until the message is settled, expires or is returned: copy before the next
     * call. */
    struct hb_bytes payload, headers;
    void *owner;
    uint32_t attempt;  /* 1 = the first delivery */
    bool redelivered;  /* it was pulled before, be it that it was returned or redriven since: some
                          consumer may have seen it */
    unsigned level;    /* it was taken from */
    int64_t lease_ns;  /* 0 = no limit */
    int64_t waited_ns; /* since its arrival */
    struct hb_lesson lesson; /* what its ack would teach, but for the duration, for who learns that
                                elsewhere and later; an empty key: nothing */
};

/* The next message to `consumer` (any number that the caller gives). HB_BROKER_OK, EMPTY or
 * NOMEM. */
HB_API int hb_broker_pull(struct hb_broker *b, uint64_t consumer, int64_t now,
                          struct hb_delivery *out);

/* The same without a lease, for a consumer whose loss the caller notices and tells: the delivery
 * lasts until it is settled. */
HB_API int hb_broker_pull_unleased(struct hb_broker *b, uint64_t consumer, int64_t now,
                                   struct hb_delivery *out);

struct hb_settlement {
    uint64_t consumer, id, token;
    double duration_ms;     /* of the handler; negative or NaN: not known. Learned from acks only */
    struct hb_bytes reason; /* nack, reject: a text for people; at most 1 KiB of it is kept */
};

/*
 * The consumer has handled the message, or has failed to. HB_BROKER_OK, also for the repetition of
 * a settlement that is remembered; UNKNOWN, FOREIGN or STALE, checked in the reference's order. An
 * ack inside the lease after the time to live is OK, and the message is dead. An attempt whose
 * lease has passed is ended first, and then STALE.
 */
HB_API int hb_broker_ack(struct hb_broker *b, const struct hb_settlement *s, int64_t now);
HB_API int hb_broker_nack(struct hb_broker *b, const struct hb_settlement *s, int64_t now);

/* The consumer refuses the message for good: no further attempt is made, whatever its time to live.
 * With an owner it has ended as rejected; else it is a dead letter (HB_DEAD_PROCESSING_ERROR). As
 * hb_broker_nack otherwise. */
HB_API int hb_broker_reject(struct hb_broker *b, const struct hb_settlement *s, int64_t now);

/* The delivery never reached its consumer: everything is as before the pull, the place in the
 * order and what was charged for it included. Only `consumer`, `id` and `token` count.
 * HB_BROKER_OK, UNKNOWN, FOREIGN or STALE. When several are returned, the newest first is cheapest.
 */
HB_API int hb_broker_return(struct hb_broker *b, const struct hb_settlement *s, int64_t now);

/* The lease starts anew at `now`; without a lease nothing happens. HB_BROKER_OK, UNKNOWN, FOREIGN or
 * STALE (also when leases are not extendable). */
HB_API int hb_broker_extend(struct hb_broker *b, const struct hb_settlement *s, int64_t now);

/* Does what is due. Returns the time at which it must be called next, INT64_MAX for none; `now` or
 * earlier when a batch was full and more is due. Promoted messages are visible at once. */
HB_API int64_t hb_broker_tick(struct hb_broker *b, int64_t now);

/* ---- dead letters ---- */

struct hb_dead {
    uint64_t id;
    struct hb_bytes payload, headers; /* valid during the call */
    enum hb_dead_reason reason;
    const char *details;
    uint32_t failures;
    int64_t age_ns; /* since its death */
};

/* Calls `each` for up to `limit` dead letters from `offset` on, the oldest first; returns how many.
 */
HB_API size_t hb_broker_dead(const struct hb_broker *b, size_t offset, size_t limit, int64_t now,
                             void (*each)(void *ctx, const struct hb_dead *dead), void *ctx);

/* A dead letter lives again: as if submitted at `now`, under its id, at its original level, with no
 * failures. HB_BROKER_OK, FULL, UNKNOWN or NOMEM. */
HB_API int hb_broker_redrive(struct hb_broker *b, uint64_t id, int64_t now);
/* The oldest ones, at most `limit`, until one does not fit; returns how many. */
HB_API size_t hb_broker_redrive_oldest(struct hb_broker *b, size_t limit, int64_t now);

/* Drops dead letters for good. HB_BROKER_OK or UNKNOWN; the number. One letter is looked for from the
 * oldest on, here and in hb_broker_redrive. */
HB_API int hb_broker_purge(struct hb_broker *b, uint64_t id);
HB_API size_t hb_broker_purge_all(struct hb_broker *b);

/* ---- what goes on ---- */

struct hb_level_stats {
    size_t waiting, promoted;    /* now; promoted: waiting above their original level */
    int64_t oldest_wait_ns;      /* since arrival, of the message in front of this level; 0 */
    uint64_t pulls, promotions;  /* out of this level */
    double clock_ms, charged_ms; /* worker-time weights: virtual clock, expected cost so far */
    double average_ms;           /* running average of its durations; 0 = none yet */
};

struct hb_broker_stats {
    size_t waiting, in_flight, dead;
    size_t held;                 /* back from pulls; they are among the waiting */
    uint64_t bytes, dead_bytes;  /* of waiting and in flight; of dead letters */
    uint64_t submitted, refused; /* refused: FULL */
    uint64_t pulled, returned;   /* a returned delivery counts in both */
    uint64_t acked, nacked; /* attempts; an ack after the time to live counts as ttl_expired only */
    uint64_t rejected;      /* attempts, which ended their messages */
    uint64_t repeated;      /* settlements answered from the history */
    uint64_t leases_expired, ttl_expired, retried;
    uint64_t died[HB_N_DEAD_REASONS];
    uint64_t dropped_dead, redriven, purged;
    uint64_t learned, censored;
    size_t history; /* settlements remembered now */
};

HB_API void hb_broker_stats(const struct hb_broker *b, struct hb_broker_stats *out);
/* `level` below options.levels. */
HB_API void hb_broker_level_stats(const struct hb_broker *b, unsigned level, int64_t now,
                                  struct hb_level_stats *out);
HB_API const struct hb_broker_options *hb_broker_options(const struct hb_broker *b);

#endif
