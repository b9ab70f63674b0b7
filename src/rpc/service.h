/*
 * What the gRPC face needs from the rest of the daemon: a broker to pull from and settle at, and
 * someone who decides about submissions. All functions run on the loop and must not free the server
 * nor call it, rpc_server_pump excepted.
 */
#ifndef HARBINGER_RPC_SERVICE_H
#define HARBINGER_RPC_SERVICE_H

#include "base/compiler.h"
#include "base/mono.h"
#include "base/text.h"

#include <harbinger/broker.h>

#include <stdbool.h>
#include <stdint.h>

struct rpc_submission {
    struct text producer; /* its id, "producer-7" */
    struct hb_bytes payload;
    struct hb_bytes headers; /* as rpc_view's; `__producer_id` is among them */
    int64_t ttl_ns;          /* HB_TTL_DEFAULT, 0 = for ever, or > 0 */
};

/* A header of a submission by name, the last one as in a map; {NULL, 0} when there is none. */
struct text rpc_submission_header(const struct rpc_submission *s, const char *name);

/* What a delivery carries to its consumer. */
struct rpc_view {
    struct hb_bytes payload;
    struct hb_bytes headers; /* written by rpc_put_header, one after another */
};

/* A client of the daemon's AMQP face, for Stats. Texts may be any bytes. */
struct rpc_amqp_client {
    const char *peer, *user, *product, *state;
    unsigned channels, consumers;
    uint32_t window; /* 0: no limit */
    uint32_t in_flight;
    uint64_t delivered;
    size_t held_bytes;
};

struct rpc_station {
    void *ctx;
    struct hb_broker *broker;
    uint64_t instance; /* in message ids and tokens; another one at each start */
    mono_t (*now)(void *ctx);

    /* Decides about a message and puts it into the broker: HB_BROKER_OK with *id set, FULL or
     * NOMEM. All of `s` is valid during the call only. */
    int (*submit)(void *ctx, const struct rpc_submission *s, uint64_t *id);

    /* What a message with an owner carries; valid until the next call. Messages without one carry
     * what the broker holds for them. May be NULL when there are none. */
    void (*view)(void *ctx, void *owner, struct rpc_view *out);

    /* The broker was used: its next deadline may be another one. Once per turn of the loop. */
    void (*touched)(void *ctx);

    /* An operator asks that nothing new be taken in; and whether that is so. */
    void (*drain)(void *ctx);
    bool (*draining)(void *ctx);

    /* Tells of at most `limit` clients of the AMQP face; returns how many there are. May be NULL. */
    size_t (*amqp_clients)(void *ctx, size_t limit,
                           void (*each)(void *each_ctx, const struct rpc_amqp_client *c),
                           void *each_ctx);
};

struct buf;

/* Appends one header in the form that submissions and views carry. Both texts must be UTF-8. 0 or
 * ERR_NOMEM. */
int rpc_put_header(struct buf *out, struct text name, struct text value) MUST_CHECK;

/* Whether a text is valid UTF-8, as protobuf strings must be. */
bool rpc_is_utf8(struct text t);

#endif
