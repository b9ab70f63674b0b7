/*
 * The delivery core once more, as plainly as its rules can be written: one array of messages, every
 * question answered by looking at all of them. For tests that compare.
 *
 * It knows levels without aging and weights by itself. For any other order of service it is told
 * which message was selected, and says whether that could be.
 */
#ifndef HARBINGER_TESTS_BROKER_MODEL_H
#define HARBINGER_TESTS_BROKER_MODEL_H

#include "harbinger/broker.h"

enum { MODEL_EVENTS_MAX = 1024 };

/* What the broker tells, in order. `what`: l learn, c censor, d done, j rejected, t and r dead (time
 * to live, retries). `who`: the key's number for l and c, else the owner's. */
struct model_event {
    char what;
    uint64_t who;
    double ms;
};

struct model_events {
    struct model_event at[MODEL_EVENTS_MAX];
    unsigned n;
};

struct broker_model;

struct model_submission {
    uint64_t bytes, owner; /* owner 0: none */
    unsigned key, level;   /* key 0: none */
    int64_t ttl_ns;
};

struct model_dead {
    uint64_t id;
    enum hb_dead_reason reason;
    uint32_t failures;
    int64_t died_at;
};

/* max_dead_bytes is not modelled. */
struct broker_model *broker_model_new(const struct hb_broker_options *o);
void broker_model_free(struct broker_model *m);

/* What was told since the last call of this. */
const struct model_events *broker_model_events(struct broker_model *m);

int broker_model_submit(struct broker_model *m, const struct model_submission *s, int64_t now);
int broker_model_withdraw(struct broker_model *m, uint64_t id);
int broker_model_hold(struct broker_model *m, uint64_t id);
void broker_model_release(struct broker_model *m, uint64_t id);

struct model_pull {
    uint64_t consumer;
    bool unleased;

    /* Written. */
    uint32_t attempt;
    bool redelivered;
};

/* `chosen` is the message that was selected, 0 for none. False when it could not have been. */
bool broker_model_pull(struct broker_model *m, struct model_pull *p, int64_t now, uint64_t chosen);

enum model_settle { MODEL_ACK, MODEL_NACK, MODEL_REJECT, MODEL_RETURN, MODEL_EXTEND };
int broker_model_settle(struct broker_model *m, enum model_settle how,
                        const struct hb_settlement *s, int64_t now);

/* INT64_MAX for never, INT64_MIN for at once. The order of service's own time is not in it. */
int64_t broker_model_tick(struct broker_model *m, int64_t now);

int broker_model_redrive(struct broker_model *m, uint64_t id, int64_t now);
int broker_model_purge(struct broker_model *m, uint64_t id);
/* The i-th dead letter, the oldest first; false when there are fewer. */
bool broker_model_dead(const struct broker_model *m, size_t i, struct model_dead *out);

/* waiting .. censored; history and dead_bytes stay 0. */
void broker_model_stats(const struct broker_model *m, struct hb_broker_stats *out);

#endif
