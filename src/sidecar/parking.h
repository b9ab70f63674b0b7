/*
 * Messages that go to the parked queue, for people to look at: published with confirms, one at a
 * time, with the reason in a header. Each stays with its owner until RabbitMQ has confirmed it.
 *
 * What cannot be parked (queue missing or full, message refused there too) is told in the log and
 * tried again every 30 s. A lost link is waited for.
 */
#ifndef HARBINGER_SIDECAR_PARKING_H
#define HARBINGER_SIDECAR_PARKING_H

#include "amqp/link.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "conf/conf.h"
#include "sidecar/held.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct parking;

/* One message on its way; the owner embeds it. Zeroed, with `lane` made by list_init, it is nowhere.
 */
struct parking_job {
    struct list lane; /* the rest is read when it is sent */
    const struct held *held;
    struct text id, key; /* for its headers; empty: none */
    const char *level_reason;
    unsigned level;
    char *why;         /* parking's; freed by parking_forget */
    unsigned n_blamed; /* times that the connection broke while it was under way */
};

struct parking_options {
    const struct conf *conf; /* parked, intake.window_bytes, amqp.confirm_timeout; borrowed */
    /* RabbitMQ has it. */
    void (*done)(void *ctx, struct parking_job *job);
    /* Before each try: true when the owner has settled it otherwise, and the job is gone. */
    bool (*useless)(void *ctx, struct parking_job *job);
    void *ctx;
};

struct parking_stats {
    uint64_t parked, failed;
    uint64_t without_headers; /* parked without our headers: no room in a frame */
    size_t n_waiting;         /* now: with those under way */
    size_t n_stuck;           /* now: could not be parked */
};

/* 0, ERR_INVALID or ERR_NOMEM. Link and log are borrowed. */
int parking_new(struct link *l, const struct log_sink *log, const struct parking_options *o,
                struct parking **out) MUST_CHECK;
/* Without callbacks; the jobs are their owners'. NULL does nothing. */
void parking_free(struct parking *p);

/* Parks the message for that reason (copied). */
void parking_put(struct parking *p, struct parking_job *job, const char *why);
/* The owner frees a job that is not under way. */
void parking_forget(struct parking_job *job);

/* Asks about each job that is not under way whether it is useless by now. */
void parking_drop_useless(struct parking *p);

void parking_stats(const struct parking *p, struct parking_stats *out);

#endif
