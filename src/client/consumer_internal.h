/* What the two ways of a consumer share. */
#ifndef HARBINGER_CLIENT_CONSUMER_INTERNAL_H
#define HARBINGER_CLIENT_CONSUMER_INTERNAL_H

#include "client/peer.h"
#include "rpc/harbinger.pb-c.h"

#include <stdatomic.h>

struct hb_consumer {
    struct hb_consumer_options options;
    struct peer *peer;
    atomic_bool stop;
    int stop_fd; /* readable when `stop` is set, for whoever polls */
    char *id;    /* NULL: not registered */
    struct hb_header *headers;
    size_t n_headers; /* room */
    struct hb_consumer_stats stats;
    const HarbingerRpc__PulledMessage *current; /* NULL: no handler runs */
};

/* What a handler made of a message; borrows from it. */
struct handled {
    char *message_id, *token;
    bool ok;
    double duration_ms;
    char reason[256];
};

void consumer_handle(struct hb_consumer *c, const HarbingerRpc__PulledMessage *m,
                     struct handled *out);

/* Registers, unless the server of this connection knows the consumer. */
int consumer_enroll(struct hb_consumer *c, struct hb_rpc_error *e) MUST_CHECK;
/* The next consumer_enroll registers. */
void consumer_forget(struct hb_consumer *c);

/* Whether hb_consumer_stop was called. */
bool consumer_should_stop(const struct hb_consumer *c);

/* Whether a status is one of those that pass: UNAVAILABLE, DEADLINE_EXCEEDED. */
bool consumer_passes(int status);

/* Pulls until a stop (HB_RPC_OK, or CANCELLED when it waited), or until an error; *settling tells
 * that it is a settlement's. */
int pull_run(struct hb_consumer *c, struct hb_rpc_error *e, bool *settling) MUST_CHECK;

/* A Work stream until a stop (HB_RPC_OK) or until it ends otherwise. */
int work_run(struct hb_consumer *c, struct hb_rpc_error *e) MUST_CHECK;

#endif
