/* Consumers' unary calls but Pull: RegisterConsumer, Ack, Nack, ExtendLease. */
#include "rpc/harbinger.pb-c.h"
#include "rpc/methods.h"

#include <math.h>
#include <stdio.h>

#define CONSUMER "consumer-"

void rpc_register_consumer(struct rpc_call *c, const ProtobufCMessage *m)
{
    HarbingerRpc__RegisterConsumerResponse r = HARBINGER_RPC__REGISTER_CONSUMER_RESPONSE__INIT;
    char id[IDS_BYTES];
    snprintf(id, sizeof id, CONSUMER "%llu", (unsigned long long)c->conn->server->n_consumers++);
    r.consumer_id = id;
    rpc_call_answer(c, &r.base);
}

bool rpc_consumer(struct rpc_call *c, const char *id, uint64_t *out)
{
    if (ids_client(text_of(id), CONSUMER, c->conn->server->n_consumers, out))
        return true;
    rpc_call_finish(c, GRPC_PERMISSION_DENIED, "unknown consumer");
    return false;
}

int rpc_outcome_status(int outcome)
{
    switch (outcome) {
    case HB_BROKER_OK: return GRPC_OK;
    case HB_BROKER_UNKNOWN: return GRPC_NOT_FOUND;
    case HB_BROKER_FOREIGN: return GRPC_PERMISSION_DENIED;
    case HB_BROKER_STALE: return GRPC_FAILED_PRECONDITION;
    default: return GRPC_INTERNAL;
    }
}

const char *rpc_outcome_text(int outcome)
{
    switch (outcome) {
    case HB_BROKER_OK: return "";
    case HB_BROKER_UNKNOWN: return "the message is not in flight";
    case HB_BROKER_FOREIGN: return "the delivery belongs to another consumer";
    case HB_BROKER_STALE:
        return "this attempt is over: settled otherwise, replaced, or out of lease";
    default: return "the broker failed";
    }
}

/* Who settles what, in the order in which the reference checks; false when the call is finished. */
static bool settlement(struct rpc_call *c, const char *consumer, const char *id, const char *token,
                       struct hb_settlement *out)
{
    uint64_t instance = c->conn->server->station.instance;
    *out = (struct hb_settlement){.duration_ms = -1};
    if (!rpc_consumer(c, consumer, &out->consumer))
        return false;
    if (!ids_token_is_well_formed(text_of(token))) {
        rpc_call_finish(c, GRPC_INVALID_ARGUMENT,
                        "attempt_token must be 1 to %d letters, digits and '-'", IDS_TOKEN_MAX);
        return false;
    }
    out->id = ids_parse(instance, text_of(id));
    out->token = ids_parse(instance, text_of(token));
    return true;
}

static void finish(struct rpc_call *c, int outcome, const ProtobufCMessage *answer)
{
    rpc_server_pump(c->conn->server);
    if (outcome == HB_BROKER_OK)
        rpc_call_answer(c, answer);
    else
        rpc_call_finish(c, rpc_outcome_status(outcome), "%s", rpc_outcome_text(outcome));
}

void rpc_ack(struct rpc_call *c, const ProtobufCMessage *m)
{
    const HarbingerRpc__AckRequest *r = (const HarbingerRpc__AckRequest *)m;
    HarbingerRpc__AckResponse answer = HARBINGER_RPC__ACK_RESPONSE__INIT;
    struct rpc_server *s = c->conn->server;
    struct hb_settlement settled;
    if (!settlement(c, r->consumer_id, r->message_id, r->attempt_token, &settled))
        return;
    settled.duration_ms = r->duration_case == HARBINGER_RPC__ACK_REQUEST__DURATION_DURATION_MS
                              ? r->duration_ms
                              : (double)r->processing_time_ms;
    finish(c, hb_broker_ack(s->station.broker, &settled, rpc_now(s)), &answer.base);
}

void rpc_nack(struct rpc_call *c, const ProtobufCMessage *m)
{
    const HarbingerRpc__NackRequest *r = (const HarbingerRpc__NackRequest *)m;
    HarbingerRpc__NackResponse answer = HARBINGER_RPC__NACK_RESPONSE__INIT;
    struct rpc_server *s = c->conn->server;
    struct hb_settlement settled;
    if (!settlement(c, r->consumer_id, r->message_id, r->attempt_token, &settled))
        return;
    settled.reason = (struct hb_bytes){r->reason, strlen(r->reason)};
    finish(c, hb_broker_nack(s->station.broker, &settled, rpc_now(s)), &answer.base);
}

void rpc_extend_lease(struct rpc_call *c, const ProtobufCMessage *m)
{
    const HarbingerRpc__ExtendLeaseRequest *r = (const HarbingerRpc__ExtendLeaseRequest *)m;
    HarbingerRpc__ExtendLeaseResponse answer = HARBINGER_RPC__EXTEND_LEASE_RESPONSE__INIT;
    struct rpc_server *s = c->conn->server;
    const struct hb_broker_options *o = hb_broker_options(s->station.broker);
    struct hb_settlement settled;
    if (!settlement(c, r->consumer_id, r->message_id, r->attempt_token, &settled))
        return;
    if (!o->extendable_leases) {
        rpc_call_finish(c, GRPC_FAILED_PRECONDITION,
                        "leases are not extendable (broker.extendable_leases)");
        return;
    }
    answer.lease_duration_ms = o->lease_ns / MONO_MS;
    finish(c, hb_broker_extend(s->station.broker, &settled, rpc_now(s)), &answer.base);
}
