/*
 * The inside of the gRPC server: a server has connections, a connection has calls. conn.c moves
 * bytes and frames, call.c knows what gRPC makes of a stream, the services know what is asked.
 */
#ifndef HARBINGER_RPC_INTERNAL_H
#define HARBINGER_RPC_INTERNAL_H

#include "base/buf.h"
#include "base/list.h"
#include "rpc/ids.h"
#include "rpc/server.h"
#include "rpc/wire.h"

#include <event2/event.h>
#include <event2/listener.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct rpc_call;

/* ---- methods ---- */

struct rpc_method {
    const char *path; /* "/harbinger_rpc.Broker/Submit" */
    bool is_stream;   /* messages are handed over as they come; else the one, at its end */
    bool is_open;     /* needs no token */
    const ProtobufCMessageDescriptor *request;

    /* One message; valid during the call. `raw` takes it undecoded: then `request` is not used. */
    void (*message)(struct rpc_call *c, const ProtobufCMessage *m);
    void (*raw)(struct rpc_call *c, struct text body);
    /* Streams: the client has ended its side. NULL: that ends the call with OK. */
    void (*client_ended)(struct rpc_call *c);
    /* The call is over, answered or not: drop what waits for it. NULL: nothing does. */
    void (*gone)(struct rpc_call *c);
};

/* NULL when there is no such method. */
const struct rpc_method *rpc_method_find(struct text path);

/* ---- calls ---- */

/* A delivery that was written into a call's answer and is not settled. */
struct rpc_held {
    uint64_t id, token;
    uint64_t end; /* of its bytes, as rpc_call.queued counts */
};

struct rpc_call {
    struct list node; /* the connection's */
    struct rpc_conn *conn;
    int32_t stream_id;
    const struct rpc_method *method;

    struct grpc_reader in;
    size_t header_bytes;
    struct buf out; /* framed messages, sent up to out_at */
    size_t out_at;
    size_t last;     /* where the latest message begins in `out` */
    uint64_t queued; /* bytes that ever were in `out` */
    struct {
        bool post, grpc, compressed, authorized, bad_timeout;
    } head;            /* what the request's headers said */
    bool started;      /* our headers are out */
    bool finished;     /* `status` is decided */
    bool client_ended; /* the request is complete */
    int status;
    struct buf text;
    mono_t deadline;     /* MONO_NEVER: none */
    struct event *timer; /* NULL: none */

    /* Pull and Work: */
    struct list wait; /* among the server's parked pulls or work streams */
    uint64_t consumer;
    mono_t waits_until;
    struct rpc_held delivered; /* Pull: what its answer carries */
    /* Work: */
    bool opened;
    uint32_t credit;
    struct rpc_held *held;
    size_t n_held, room_held;
};

/* Queues one message; the first one sends the headers. Out of memory ends the call. */
void rpc_call_send(struct rpc_call *c, const ProtobufCMessage *m);

/* Adds to the message that is still unsent, if there is one and both stay small: for messages that
 * only have repeated fields, one after the other is the same as both in one, and costs the client
 * one message less. */
void rpc_call_send_more(struct rpc_call *c, const ProtobufCMessage *m);
uint8_t *rpc_call_extend_more(struct rpc_call *c, size_t n);

/* Room for one message of n bytes, framed, to be written by the caller; NULL as above. */
uint8_t *rpc_call_extend(struct rpc_call *c, size_t n);

/* Decides how the call ends, after what was queued; later decisions change nothing. */
void rpc_call_finish(struct rpc_call *c, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same with OK and no words. */
void rpc_call_finish_ok(struct rpc_call *c);

/* A request that is none. */
void rpc_call_undecoded(struct rpc_call *c);

/* The call with one message and OK. */
void rpc_call_answer(struct rpc_call *c, const ProtobufCMessage *m);

/* Runs `on_timer` of the call's method at `at`. */
void rpc_call_set_timer(struct rpc_call *c, mono_t at, event_callback_fn on_timer);
void rpc_call_clear_timer(struct rpc_call *c);

/* For conn.c: what happens to the stream. */
struct rpc_call *rpc_call_new(struct rpc_conn *conn, int32_t stream_id);
int rpc_call_header(struct rpc_call *c, struct text name, struct text value);
void rpc_call_headers_done(struct rpc_call *c);
void rpc_call_data(struct rpc_call *c, const uint8_t *data, size_t n);
void rpc_call_client_ended(struct rpc_call *c);
void rpc_call_free(struct rpc_call *c);

static inline size_t rpc_call_unsent(const struct rpc_call *c)
{
    return c->out.n - c->out_at;
}

/* The delivery has left for its consumer. Only what has not can be put back as if never made. */
static inline bool rpc_call_has_sent(const struct rpc_call *c, const struct rpc_held *h)
{
    return h->end <= c->queued - rpc_call_unsent(c);
}

/* ---- connections ---- */

struct rpc_conn {
    struct list node; /* the server's */
    struct list dirty;
    struct rpc_server *server;
    struct wire wire;
    bool shaking; /* the TLS handshake goes on */
    nghttp2_session *session;
    struct list calls;
    struct list blocked;     /* rpc_call.wait of those who wait for room, not for a message */
    struct rpc_call *recent; /* whose frame was the latest; NULL */
    unsigned n_calls;
    struct event *read, *write;
    struct event *patience; /* looks at times whether the client is worth its place */
    bool heard;             /* it speaks HTTP/2 */
    bool was_used;          /* it has called since the last look */
    struct buf out;         /* for the wire, from out_at on */
    size_t out_at;
    size_t in_bytes;  /* of requests that are not complete */
    size_t out_bytes; /* of answers that the session has not taken */
    bool paused;      /* not read because of out_bytes */
    bool shut;        /* told to go away */
    bool in_session;  /* inside a function of nghttp2: not to be freed */
    bool broken;
};

/* Takes the descriptor. NULL when memory is short, and the descriptor is closed. */
struct rpc_conn *rpc_conn_new(struct rpc_server *s, int fd);
void rpc_conn_free(struct rpc_conn *c);
/* There is something to send: it goes out at the end of this turn. */
void rpc_conn_touch(struct rpc_conn *c);
/* Sends now what can be sent. The connection may be gone after it. */
void rpc_conn_flush(struct rpc_conn *c);
void rpc_conn_shut(struct rpc_conn *c);
/* So much is unsent that nothing more should be delivered to it. Who waits for a message then moves
 * to `blocked`; a flush that makes room moves all back and pumps. */
bool rpc_conn_is_full(const struct rpc_conn *c);
/* So much more than that is unsent that its requests are refused. */
bool rpc_conn_is_over(const struct rpc_conn *c);

/* ---- the server ---- */

#define RPC_TOKEN_BYTES 4096
#define RPC_SHUT_TEXT   "the server is shutting down"

struct rpc_server {
    struct event_base *base;
    struct rpc_options options; /* with the defaults filled in */
    struct rpc_station station;
    struct evconnlistener *listener;
    struct event *end_of_turn, *resume;
    struct list conns, dirty;
    struct list parked;   /* rpc_call.wait of Pulls, the longest-waiting first */
    struct list workers;  /* rpc_call.wait of Work streams with credit, next one first */
    struct list watchers; /* rpc_call.wait of health watches */
    uint64_t n_producers, n_consumers;
    SSL_CTX *tls;                /* NULL: in the clear */
    char token[RPC_TOKEN_BYTES]; /* "": none is asked for */
    bool pump, shut;
    struct rpc_stats stats;
    struct arena *arena;
    struct buf headers; /* of the submission at hand */
    char address[64];
};

mono_t rpc_now(const struct rpc_server *s);

/* Gives waiting messages to whoever waits for one. */
void rpc_pull_pump(struct rpc_server *s);
/* The first of those who wait for a message on a connection that has room; NULL. */
struct rpc_call *rpc_pull_next(struct list *waiting);
/* Those who waited for room wait for messages again, before all others. */
void rpc_pull_unblock(struct rpc_conn *conn);
/* One message to the next Work stream; false when none can take one, or none waits. */
bool rpc_work_serve(struct rpc_server *s);
/* Answers all parked pulls as timed out. */
void rpc_pull_release(struct rpc_server *s);
/* Tells watchers what is; when the server is shut, that ends them. */
void rpc_health_tell(struct rpc_server *s);
/* Ends the Work streams that have nothing to settle. */
void rpc_work_release(struct rpc_server *s);

/* ---- the services ---- */

/* The consumer's number; false when the call was finished because there is no such consumer. */
bool rpc_consumer(struct rpc_call *c, const char *id, uint64_t *out);

/* The words of a settlement's outcome, and the status for it. */
int rpc_outcome_status(int outcome);
const char *rpc_outcome_text(int outcome);

/* PulledMessage: its size and its bytes. */
struct rpc_pulled {
    char id[IDS_BYTES], token[IDS_BYTES];
    size_t n_id, n_token;
    struct rpc_view view;
    uint64_t lease_ms;
};
void rpc_pulled_of(struct rpc_server *s, const struct hb_delivery *d, struct rpc_pulled *out);
size_t rpc_pulled_bytes(const struct rpc_pulled *p);
uint8_t *rpc_pulled_put(uint8_t *at, const struct rpc_pulled *p);

#endif
