#include "client/peer.h"
#include "client/unary.h"
#include "rpc/harbinger.pb-c.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WINDOW 1000
#define UNSENT_BYTES   (1 << 20)  /* of a stream: more is sent first */
#define TOGETHER_BYTES (16 << 10) /* go in one piece */

typedef HarbingerRpc__SubmitRequest__HeadersEntry submit_header;

struct producer_stream {
    struct call call;
    bool open;
    struct hb_submit_results results;
    size_t n_unanswered;
};

struct hb_producer {
    struct peer *peer;
    char *id; /* NULL: not registered */
    struct producer_stream stream;
};

const char *hb_rpc_status_name(int status)
{
    return grpc_status_name((unsigned)status);
}

struct hb_producer *hb_producer_new(const struct hb_client_options *o)
{
    struct hb_producer *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->peer = peer_new(o);
    if (p->peer != NULL)
        return p;
    free(p);
    return NULL;
}

void hb_producer_free(struct hb_producer *p)
{
    if (p == NULL)
        return;
    call_fini(&p->stream.call);
    peer_free(p->peer);
    free(p->id);
    free(p);
}

static int no_memory(const char *method, struct hb_rpc_error *e)
{
    if (e != NULL) {
        e->status = HB_RPC_RESOURCE_EXHAUSTED;
        snprintf(e->text, sizeof e->text, "%s: out of memory", method);
    }
    return HB_RPC_RESOURCE_EXHAUSTED;
}

/* A server that has started anew does not know the producer any more: so each new connection
 * registers. */
static void forget(struct hb_producer *p)
{
    free(p->id);
    p->id = NULL;
}

static int enroll(struct hb_producer *p, struct hb_rpc_error *e)
{
    if (p->id != NULL && peer_connected(p->peer))
        return HB_RPC_OK;
    forget(p);
    HarbingerRpc__RegisterProducerRequest request = HARBINGER_RPC__REGISTER_PRODUCER_REQUEST__INIT;
    ProtobufCMessage *answer;
    int status = unary_call(p->peer, "RegisterProducer", &request.base,
                            &harbinger_rpc__register_producer_response__descriptor,
                            peer_now() + peer_timeout(p->peer), &answer, e);
    if (status != HB_RPC_OK)
        return status;
    p->id = strdup(((HarbingerRpc__RegisterProducerResponse *)answer)->producer_id);
    protobuf_c_message_free_unpacked(answer, NULL);
    return p->id != NULL ? HB_RPC_OK : no_memory("RegisterProducer", e);
}

/* A request that borrows everything from `m` but the array of headers. */
struct request {
    HarbingerRpc__SubmitRequest pb;
    submit_header **headers;
};

/* The generated structs do not know const; packing reads only. */
static void *mutable(const void *p)
{
    union {
        const void *from;
        void *to;
    } u = {.from = p};
    return u.to;
}

static bool request_init(struct request *r, const struct hb_producer *p,
                         const struct hb_outgoing *m)
{
    *r = (struct request){.pb = HARBINGER_RPC__SUBMIT_REQUEST__INIT};
    r->pb.producer_id = p->id;
    r->pb.payload = (ProtobufCBinaryData){m->n_payload, mutable(m->payload)};
    if (m->ttl_ms != HB_RPC_NO_TTL) {
        r->pb.ttl_case = HARBINGER_RPC__SUBMIT_REQUEST__TTL_TTL_MS;
        r->pb.ttl_ms = m->ttl_ms;
    }
    if (m->n_headers == 0)
        return true;
    r->headers = malloc(m->n_headers * (sizeof *r->headers + sizeof(submit_header)));
    if (r->headers == NULL)
        return false;
    submit_header *entries = (submit_header *)(void *)(r->headers + m->n_headers);
    for (size_t i = 0; i < m->n_headers; i++) {
        entries[i] = (submit_header)HARBINGER_RPC__SUBMIT_REQUEST__HEADERS_ENTRY__INIT;
        entries[i].key = mutable(m->headers[i].name);
        entries[i].value = mutable(m->headers[i].value);
        r->headers[i] = &entries[i];
    }
    r->pb.n_headers = m->n_headers;
    r->pb.headers = r->headers;
    return true;
}

int hb_producer_submit(struct hb_producer *p, const struct hb_outgoing *m, char id[HB_RPC_ID_MAX],
                       struct hb_rpc_error *error)
{
    int status = enroll(p, error);
    if (status != HB_RPC_OK)
        return status;
    struct request r;
    if (!request_init(&r, p, m))
        return no_memory("Submit", error);
    ProtobufCMessage *answer;
    status = unary_call(p->peer, "Submit", &r.pb.base, &harbinger_rpc__submit_response__descriptor,
                        peer_now() + peer_timeout(p->peer), &answer, error);
    free(r.headers);
    if (status == HB_RPC_PERMISSION_DENIED)
        forget(p);
    if (status != HB_RPC_OK)
        return status;
    if (id != NULL)
        snprintf(id, HB_RPC_ID_MAX, "%s", ((HarbingerRpc__SubmitResponse *)answer)->message_id);
    protobuf_c_message_free_unpacked(answer, NULL);
    return HB_RPC_OK;
}

/* ---- the stream ---- */

int hb_producer_stream(struct hb_producer *p, const struct hb_submit_results *results,
                       struct hb_rpc_error *error)
{
    struct producer_stream *s = &p->stream;
    int status = enroll(p, error);
    if (status != HB_RPC_OK)
        return status;
    call_fini(&s->call);
    status = call_start(&s->call, p->peer, "SubmitStream", MONO_NEVER, error);
    s->results = *results;
    if (s->results.window == 0)
        s->results.window = DEFAULT_WINDOW;
    s->n_unanswered = 0;
    s->open = status == HB_RPC_OK;
    return status;
}

static void tell(struct producer_stream *s, int status, const char *id)
{
    s->n_unanswered--;
    if (s->results.result != NULL)
        s->results.result(s->results.ctx, status, id);
}

static int not_open(struct hb_rpc_error *e)
{
    if (e != NULL)
        *e = (struct hb_rpc_error){HB_RPC_FAILED_PRECONDITION, "SubmitStream: no stream is open"};
    return HB_RPC_FAILED_PRECONDITION;
}

/* The stream is over: so is everything that it has not answered. */
static int fail_stream(struct hb_producer *p, int status, struct hb_rpc_error *error)
{
    struct producer_stream *s = &p->stream;
    s->open = false;
    status = call_error(&s->call, status, error);
    while (s->n_unanswered > 0)
        tell(s, status, "");
    return status;
}

static void take_results(struct producer_stream *s, struct text message)
{
    HarbingerRpc__SubmitResults *r =
        harbinger_rpc__submit_results__unpack(NULL, message.n, (const uint8_t *)message.p);
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n_results && s->n_unanswered > 0; i++)
        tell(s, (int)r->results[i]->status, r->results[i]->message_id);
    harbinger_rpc__submit_results__free_unpacked(r, NULL);
}

/* Waits until at most `n` submissions are unanswered and few bytes unsent; each answer may take the
 * default time. */
static int await_answers(struct hb_producer *p, size_t n, size_t n_bytes,
                         struct hb_rpc_error *error)
{
    struct producer_stream *s = &p->stream;
    mono_t until = peer_now() + peer_timeout(p->peer);
    while (s->n_unanswered > n || call_unsent(&s->call) > n_bytes) {
        struct text message;
        switch (call_wait(&s->call, until, &message)) {
        case CALL_MESSAGE:
            take_results(s, message);
            until = peer_now() + peer_timeout(p->peer);
            break;
        case CALL_ENDED:
            return fail_stream(p, s->call.status == GRPC_OK ? GRPC_UNAVAILABLE : 0, error);
        case CALL_LATE:
        case CALL_WOKEN: return fail_stream(p, GRPC_DEADLINE_EXCEEDED, error);
        }
    }
    return HB_RPC_OK;
}

int hb_producer_stream_submit(struct hb_producer *p, const struct hb_outgoing *m,
                              struct hb_rpc_error *error)
{
    struct producer_stream *s = &p->stream;
    struct request r;
    if (!s->open)
        return not_open(error);
    if (!request_init(&r, p, m))
        return no_memory("SubmitStream", error);
    call_send(&s->call, &r.pb.base);
    free(r.headers);
    s->n_unanswered++;
    if (call_unsent(&s->call) >= TOGETHER_BYTES)
        call_flush(&s->call);
    return await_answers(p, s->results.window - 1, UNSENT_BYTES, error);
}

int hb_producer_stream_push(struct hb_producer *p, struct hb_rpc_error *error)
{
    struct producer_stream *s = &p->stream;
    struct text message;
    if (!s->open)
        return not_open(error);
    for (;;) {
        switch (call_wait(&s->call, peer_now(), &message)) {
        case CALL_MESSAGE: take_results(s, message); break;
        case CALL_ENDED:
            return fail_stream(p, s->call.status == GRPC_OK ? GRPC_UNAVAILABLE : 0, error);
        case CALL_LATE:
        case CALL_WOKEN: return HB_RPC_OK;
        }
    }
}

int hb_producer_stream_flush(struct hb_producer *p, struct hb_rpc_error *error)
{
    return p->stream.open ? await_answers(p, 0, 0, error) : not_open(error);
}
