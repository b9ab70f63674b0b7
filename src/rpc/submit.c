/* Producers: RegisterProducer, Submit, SubmitStream. */
#include "rpc/harbinger.pb-c.h"
#include "rpc/methods.h"
#include "rpc/pb.h"

#include <stdio.h>

#define PRODUCER "producer-"

typedef HarbingerRpc__SubmitRequest submit_request;

/* What became of a submission: a status with words, or the message's number. */
struct submit_result {
    int status;
    const char *text;
    uint64_t id;
};

void rpc_register_producer(struct rpc_call *c, const ProtobufCMessage *m)
{
    HarbingerRpc__RegisterProducerResponse r = HARBINGER_RPC__REGISTER_PRODUCER_RESPONSE__INIT;
    char id[IDS_BYTES];
    snprintf(id, sizeof id, PRODUCER "%llu", (unsigned long long)c->conn->server->n_producers++);
    r.producer_id = id;
    rpc_call_answer(c, &r.base);
}

/* The request's headers in the form that is kept, with the registered producer's id in place of
 * whatever the client wrote there. NULL is ours, else words for what is wrong. */
static const char *take_headers(const submit_request *r, struct buf *out)
{
    static const char producer[] = "__producer_id";
    for (size_t i = 0; i < r->n_headers; i++) {
        struct text name = text_of(r->headers[i]->key), value = text_of(r->headers[i]->value);
        if (!rpc_is_utf8(name) || !rpc_is_utf8(value))
            return "a header is not valid UTF-8";
        if (!text_equal(name, text_of(producer)) && rpc_put_header(out, name, value) < 0)
            return "";
    }
    return rpc_put_header(out, text_of(producer), text_of(r->producer_id)) < 0 ? "" : NULL;
}

static int64_t ttl_of(const submit_request *r)
{
    if (r->ttl_case != HARBINGER_RPC__SUBMIT_REQUEST__TTL_TTL_MS)
        return HB_TTL_DEFAULT;
    return r->ttl_ms > INT64_MAX / MONO_MS ? INT64_MAX : r->ttl_ms * MONO_MS;
}

static struct submit_result hand_over(struct rpc_server *s, const submit_request *r,
                                      const struct buf *headers)
{
    struct submit_result out = {GRPC_RESOURCE_EXHAUSTED, "the broker is full", 0};
    struct rpc_submission submission = {
        .producer = text_of(r->producer_id),
        .payload = {r->payload.data, r->payload.len},
        .headers = {headers->p, headers->n},
        .ttl_ns = ttl_of(r),
    };
    int outcome = s->station.submit(s->station.ctx, &submission, &out.id);
    if (outcome == HB_BROKER_OK)
        out = (struct submit_result){GRPC_OK, "", out.id};
    else if (outcome == HB_BROKER_NOMEM)
        out.text = "the broker is out of memory";
    return out;
}

static struct submit_result submit(struct rpc_server *s, const submit_request *r)
{
    uint64_t producer;
    if (!ids_client(text_of(r->producer_id), PRODUCER, s->n_producers, &producer))
        return (struct submit_result){GRPC_PERMISSION_DENIED, "unknown producer", 0};
    if (r->ttl_case == HARBINGER_RPC__SUBMIT_REQUEST__TTL_TTL_MS && r->ttl_ms < 0)
        return (struct submit_result){GRPC_INVALID_ARGUMENT, "ttl_ms is negative", 0};
    if (s->shut || s->station.draining(s->station.ctx))
        return (struct submit_result){GRPC_UNAVAILABLE, "the broker is draining", 0};
    struct buf headers = {0};
    struct submit_result out;
    const char *wrong = take_headers(r, &headers);
    if (wrong == NULL)
        out = hand_over(s, r, &headers);
    else if (wrong[0] == '\0')
        out = (struct submit_result){GRPC_RESOURCE_EXHAUSTED, "the server is out of memory", 0};
    else
        out = (struct submit_result){GRPC_INVALID_ARGUMENT, wrong, 0};
    buf_fini(&headers);
    rpc_server_pump(s);
    return out;
}

void rpc_submit_one(struct rpc_call *c, const ProtobufCMessage *m)
{
    struct rpc_server *s = c->conn->server;
    struct submit_result result = submit(s, (const submit_request *)m);
    if (result.status != GRPC_OK) {
        rpc_call_finish(c, result.status, "%s", result.text);
        return;
    }
    HarbingerRpc__SubmitResponse r = HARBINGER_RPC__SUBMIT_RESPONSE__INIT;
    char id[IDS_BYTES];
    ids_print(s->station.instance, result.id, id);
    r.message_id = id;
    rpc_call_answer(c, &r.base);
}

/* One answer per submission; what comes in one turn goes out in one write. */
void rpc_submit_stream(struct rpc_call *c, const ProtobufCMessage *m)
{
    struct rpc_server *s = c->conn->server;
    struct submit_result result = submit(s, (const submit_request *)m);
    HarbingerRpc__SubmitResult one = HARBINGER_RPC__SUBMIT_RESULT__INIT;
    HarbingerRpc__SubmitResult *list[] = {&one};
    HarbingerRpc__SubmitResults r = HARBINGER_RPC__SUBMIT_RESULTS__INIT;
    char id[IDS_BYTES] = "", text[64];
    snprintf(text, sizeof text, "%s", result.text);
    if (result.status == GRPC_OK)
        ids_print(s->station.instance, result.id, id);
    one.status = (uint32_t)result.status;
    one.message_id = id;
    one.error = text;
    r.n_results = 1;
    r.results = list;
    rpc_call_send(c, &r.base);
}
