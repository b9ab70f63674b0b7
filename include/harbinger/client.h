/*
 * A client of Harbinger's gRPC face (src/rpc/harbinger.proto): submit messages, consume them, look
 * at dead letters. Blocking, without threads or global state.
 *
 *   - An object belongs to one thread at a time, and has one connection of its own, which is opened
 *     by the first call and again after it was lost. Only hb_consumer_stop may be called from
 *     elsewhere.
 *   - Every call has a deadline: nothing waits for ever.
 *   - A call returns HB_RPC_OK or another of gRPC's status codes, and then *error (may be NULL)
 *     says in words what was asked of whom and what it answered.
 *   - Between its calls, and while a handler runs, an object does not listen: a server that checks
 *     its connections must give them longer than a handler takes.
 *   - With TLS the process should ignore SIGPIPE.
 *   - What was sent when a connection breaks may have been done: a lost answer to Submit is
 *     ambiguous, and nothing here repeats it. Settlements are repeated, which is harmless.
 */
#ifndef HARBINGER_CLIENT_H
#define HARBINGER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef HB_API
#define HB_API __attribute__((visibility("default")))
#endif

/* gRPC's status codes as they are met here. */
enum {
    HB_RPC_OK = 0,
    HB_RPC_CANCELLED = 1,
    HB_RPC_UNKNOWN = 2,
    HB_RPC_INVALID_ARGUMENT = 3,
    HB_RPC_DEADLINE_EXCEEDED = 4,
    HB_RPC_NOT_FOUND = 5,
    HB_RPC_PERMISSION_DENIED = 7,
    HB_RPC_RESOURCE_EXHAUSTED = 8,
    HB_RPC_FAILED_PRECONDITION = 9,
    HB_RPC_UNIMPLEMENTED = 12,
    HB_RPC_INTERNAL = 13,
    HB_RPC_UNAVAILABLE = 14,
    HB_RPC_UNAUTHENTICATED = 16,
};

HB_API const char *hb_rpc_status_name(int status);

struct hb_rpc_error {
    int status;
    char text[256]; /* "Submit at 127.0.0.1:50051: UNAVAILABLE: connection refused" */
};

/* Borrowed until the object is freed. Zeroed, it means the default address in the clear. */
struct hb_client_options {
    const char *address;     /* HOST:PORT; NULL = "127.0.0.1:50051" */
    const char *ca_file;     /* not NULL: TLS, and the server's certificate must be signed by it */
    const char *server_name; /* in the certificate; NULL = the host of `address` */
    const char *token_file;  /* its first line is sent as a bearer token; NULL = none */
    int64_t timeout_ms;      /* of a call; 0 = 5000 */
};

struct hb_header {
    const char *name, *value; /* UTF-8 */
};

/* ---- producers ---- */

#define HB_RPC_ID_MAX 128 /* with the terminating NUL */
#define HB_RPC_NO_TTL (-1)

struct hb_outgoing {
    const void *payload;
    size_t n_payload;
    const struct hb_header *headers;
    size_t n_headers;
    int64_t ttl_ms; /* HB_RPC_NO_TTL = the broker's default; 0 = for ever */
};

struct hb_producer;

/* NULL when memory is short. Does not connect yet. */
HB_API struct hb_producer *hb_producer_new(const struct hb_client_options *o);
HB_API void hb_producer_free(struct hb_producer *p);

/* Registers with the first call. Writes the message's id (may be NULL). Not repeated by itself. */
HB_API int hb_producer_submit(struct hb_producer *p, const struct hb_outgoing *m,
                              char id[HB_RPC_ID_MAX], struct hb_rpc_error *error);

/* Many over one stream. `result` is called once per submission, in their order, from within the
 * calls below; `id` is valid during the call, and empty unless `status` is HB_RPC_OK. */
struct hb_submit_results {
    void (*result)(void *ctx, int status, const char *id);
    void *ctx;
    size_t window; /* unanswered submissions; the next one waits for an answer; 0 = 1000 */
};

HB_API int hb_producer_stream(struct hb_producer *p, const struct hb_submit_results *results,
                              struct hb_rpc_error *error);
/* After hb_producer_stream. Sent together with others: when there are 16 KiB, when the window is
 * full, or by the next two functions. Not HB_RPC_OK: the stream is over, and `result` has been
 * called with that status for all that was unanswered; start another one. `result` must not call
 * the producer. */
HB_API int hb_producer_stream_submit(struct hb_producer *p, const struct hb_outgoing *m,
                                     struct hb_rpc_error *error);
/* Sends what there is and takes the answers that are there, without waiting. */
HB_API int hb_producer_stream_push(struct hb_producer *p, struct hb_rpc_error *error);
/* Sends what there is and waits for all answers. */
HB_API int hb_producer_stream_flush(struct hb_producer *p, struct hb_rpc_error *error);

/* ---- consumers ---- */

struct hb_incoming {
    const char *id;
    const void *payload;
    size_t n_payload;
    const struct hb_header *headers;
    size_t n_headers;
    int64_t lease_ms; /* 0 = no limit */
};

struct hb_consumer_options {
    struct hb_client_options client;
    /* Handles one message; all of it is valid during the call. True: handled. False: failed, and
     * `reason` (at least 256 bytes, empty at first) may say why. Its duration is measured here. */
    bool (*handle)(void *ctx, const struct hb_incoming *m, char *reason);
    void *ctx;
    int64_t pull_timeout_ms; /* 0 = 1000 */
    unsigned credit; /* 0 = one Pull at a time; else a Work stream with so many deliveries at once,
                        handled one after the other */
};

struct hb_consumer_stats {
    uint64_t handled, failed;
    uint64_t lease_lost;  /* settlements that came too late */
    uint64_t retried;     /* settlements that were sent again */
    uint64_t pull_errors; /* after which it waited and went on */
};

struct hb_consumer;

/* NULL when memory or descriptors are short. Does not connect yet. */
HB_API struct hb_consumer *hb_consumer_new(const struct hb_consumer_options *o);
HB_API void hb_consumer_free(struct hb_consumer *c);

/*
 * Pulls, handles and settles until hb_consumer_stop, then HB_RPC_OK; or until an error that will
 * not pass. UNAVAILABLE and DEADLINE_EXCEEDED of a pull are waited out (200 ms each). A settlement
 * is sent up to three times, 100 and 200 ms apart, after these two; FAILED_PRECONDITION means that
 * the lease is lost, and is counted, as does NOT_FOUND or PERMISSION_DENIED after a new connection:
 * the server was another one. `error` may be NULL.
 *
 * Without credit, a settlement and the next pull leave together, and the next message does not wait
 * for the settlement's answer: it may be handled while the one before is not yet known to be
 * settled. When that settlement fails for good, the run ends with its error after the message that
 * came meanwhile was handled and settled.
 */
HB_API int hb_consumer_run(struct hb_consumer *c, struct hb_rpc_error *error);

/* Ends hb_consumer_run, from any thread, a signal handler or the handler itself: a waiting pull is
 * cancelled, a running handler and its settlement are waited for. */
HB_API void hb_consumer_stop(struct hb_consumer *c);

/* Inside the handler: the lease of its message starts anew, where the broker allows it. *lease_ms
 * (may be NULL) is how long it is. */
HB_API int hb_consumer_extend(struct hb_consumer *c, int64_t *lease_ms, struct hb_rpc_error *error);

HB_API void hb_consumer_stats(const struct hb_consumer *c, struct hb_consumer_stats *out);

#endif
