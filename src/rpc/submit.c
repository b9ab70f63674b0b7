/* Producers: RegisterProducer, Submit, SubmitStream. */
#include "rpc/harbinger.pb-c.h"
#include "rpc/methods.h"
#include "rpc/submission.h"

#include <stdio.h>

#define PRODUCER "producer-"

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

static int64_t ttl_ns(const struct submission *in)
{
    if (!in->has_ttl)
        return HB_TTL_DEFAULT;
    return in->ttl_ms > INT64_MAX / MONO_MS ? INT64_MAX : in->ttl_ms * MONO_MS;
}

static struct submit_result outcome(int status, const char *text)
{
    return (struct submit_result){status, text, 0};
}

static struct submit_result hand_over(struct rpc_server *s, const struct submission *in)
{
    struct rpc_submission submission = {
        .producer = in->producer,
        .payload = {in->payload.p, in->payload.n},
        .headers = {s->headers.p, s->headers.n},
        .ttl_ns = ttl_ns(in),
    };
    uint64_t id = 0;
    int r = s->station.submit(s->station.ctx, &submission, &id);
    rpc_server_pump(s);
    if (r == HB_BROKER_OK)
        return (struct submit_result){GRPC_OK, "", id};
    return outcome(GRPC_RESOURCE_EXHAUSTED,
                   r == HB_BROKER_FULL ? "the broker is full" : "the broker is out of memory");
}

static struct submit_result submit(struct rpc_server *s, struct text body,
                                   const struct submission *in)
{
    uint64_t producer;
    if (!ids_client(in->producer, PRODUCER, s->n_producers, &producer))
        return outcome(GRPC_PERMISSION_DENIED, "unknown producer");
    if (in->ttl_ms < 0)
        return outcome(GRPC_INVALID_ARGUMENT, "ttl_ms is negative");
    if (s->shut || s->station.draining(s->station.ctx))
        return outcome(GRPC_UNAVAILABLE, "the broker is draining");
    buf_reset(&s->headers);
    switch (submission_headers(body, in->producer, &s->headers)) {
    case 0: return hand_over(s, in);
    case ERR_INVALID: return outcome(GRPC_INVALID_ARGUMENT, "a header is not valid UTF-8");
    default: return outcome(GRPC_RESOURCE_EXHAUSTED, "the server is out of memory");
    }
}

void rpc_submit_one(struct rpc_call *c, struct text body)
{
    struct rpc_server *s = c->conn->server;
    struct submission in;
    if (!submission_read(body, &in)) {
        rpc_call_undecoded(c);
        return;
    }
    struct submit_result result = submit(s, body, &in);
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

/* One answer per submission; what comes in one turn goes out in one message. */
void rpc_submit_stream(struct rpc_call *c, struct text body)
{
    struct rpc_server *s = c->conn->server;
    struct submission in;
    if (!submission_read(body, &in)) {
        rpc_call_undecoded(c);
        return;
    }
    struct submit_result result = submit(s, body, &in);
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
    rpc_call_send_more(c, &r.base);
}
