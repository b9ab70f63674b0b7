/*
 * The connection of a client object, and the gRPC calls on it: HTTP/2 by nghttp2, over a socket
 * that never blocks and a poll() with a deadline. It is opened by the first call and again by the
 * first one after it was lost.
 */
#ifndef HARBINGER_CLIENT_PEER_H
#define HARBINGER_CLIENT_PEER_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/mono.h"
#include "rpc/grpc.h"

#include <harbinger/client.h>

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

struct peer;

/* One call. Zeroed it is none; a call that was started must be finished with call_fini. */
struct call {
    struct list node;
    struct peer *peer;
    const char *method; /* "Submit" */
    int32_t stream_id;
    struct buf out; /* framed messages that are not sent yet, from out_at on */
    size_t out_at;
    bool out_ends; /* nothing follows */
    struct grpc_reader in;
    bool ended; /* `status` is known */
    int status; /* one of gRPC's */
    struct buf text;
};

/* NULL when memory is short. The options are borrowed. */
struct peer *peer_new(const struct hb_client_options *o);
void peer_free(struct peer *p);

/* The default time of a call. */
mono_t peer_timeout(const struct peer *p);

/* While it is >= 0, call_wait also returns when this descriptor becomes readable. */
void peer_set_wake(struct peer *p, int fd);

/* Whether the connection of the latest call still stands. What the server knew of us ends with it.
 */
bool peer_connected(struct peer *p);

/* How often it has connected. Another number than before: the server may be another one, too. */
uint64_t peer_connections(const struct peer *p);

/* The monotonic clock. */
mono_t peer_now(void);

/* Sleeps, or until the wake descriptor is readable. */
void peer_sleep(const struct peer *p, mono_t for_ns);

/*
 * Starts a call of harbinger_rpc.Broker, or of any service when `method` is a path ("/...", which
 * must outlive the call). `until` is its deadline, which the server is told;
 * MONO_NEVER for streams (connecting then takes at most the default time). HB_RPC_OK or
 * UNAVAILABLE, DEADLINE_EXCEEDED, INTERNAL, with *e set.
 */
int call_start(struct call *c, struct peer *p, const char *method, mono_t until,
               struct hb_rpc_error *e) MUST_CHECK;

/* Queues one message. Without memory the call is over. */
void call_send(struct call *c, const ProtobufCMessage *m);
/* Nothing follows. */
void call_send_end(struct call *c);

enum call_event {
    CALL_MESSAGE, /* *message is one, valid until the next call_wait */
    CALL_ENDED,   /* `status` and `text` tell how */
    CALL_LATE,    /* `until` has passed */
    CALL_WOKEN,   /* the wake descriptor is readable */
};

/* Moves bytes both ways until something is there. All calls of the peer go on meanwhile. */
enum call_event call_wait(struct call *c, mono_t until, struct text *message) MUST_CHECK;

/* What it has to send stands before what calls have that start later, and leaves with the next that
 * does. */
void call_queue(struct call *c);

/* Sends what can be sent without waiting. */
void call_flush(struct call *c);

/* Bytes of this call's messages that wait to be sent. */
size_t call_unsent(const struct call *c);

/* Ends it, with a reset when the server still works on it, and frees what it holds. */
void call_fini(struct call *c);

/* The words for an ended call, or for `status` in its stead when it is not 0. Returns the status. */
int call_error(const struct call *c, int status, struct hb_rpc_error *e);

#endif
