/*
 * Work: one stream per consumer. Streams with credit stand in a ring and get one message each in
 * turn. What a stream has and has not settled is remembered here, to go back when it ends: as it
 * was when the consumer ended its side in order, as failed attempts when the stream broke.
 */
#include "rpc/harbinger.pb-c.h"
#include "rpc/methods.h"
#include "rpc/pb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREDIT_MAX 1000 /* of one stream, what it has included */

static void set_credit(struct rpc_call *c, uint32_t credit)
{
    struct rpc_stats *stats = &c->conn->server->stats;
    stats->credit = stats->credit - c->credit + credit;
    c->credit = credit;
}

static void leave_ring(struct rpc_call *c)
{
    list_remove(&c->wait);
}

static void join_ring(struct rpc_call *c)
{
    struct rpc_server *s = c->conn->server;
    if (c->credit > 0 && !c->client_ended && !c->finished && list_empty(&c->wait)) {
        list_push_back(&s->workers, &c->wait);
        rpc_server_pump(s);
    }
}

/* ---- what the stream has ---- */

static bool has_room(struct rpc_call *c)
{
    if (c->n_held < c->room_held)
        return true;
    size_t room = c->room_held > 0 ? 2 * c->room_held : 4;
    struct rpc_held *more = realloc(c->held, room * sizeof *more);
    if (more == NULL)
        return false;
    c->held = more;
    c->room_held = room;
    return true;
}

/* Mostly the oldest one is settled first. */
static void forget(struct rpc_call *c, uint64_t token)
{
    for (size_t i = 0; i < c->n_held; i++)
        if (c->held[i].token == token) {
            c->n_held--;
            memmove(c->held + i, c->held + i + 1, (c->n_held - i) * sizeof *c->held);
            return;
        }
}

/* All that is left, the newest first, which is cheapest to give back. What was not even sent has
 * never failed. */
static void give_back(struct rpc_call *c, bool failed)
{
    static const char reason[] = "the consumer's stream broke";
    struct rpc_server *s = c->conn->server;
    while (c->n_held > 0) {
        struct rpc_held *h = &c->held[--c->n_held];
        struct hb_settlement settled = {.consumer = c->consumer,
                                        .id = h->id,
                                        .token = h->token,
                                        .duration_ms = -1,
                                        .reason = {reason, sizeof reason - 1}};
        (void)(failed && rpc_call_has_sent(c, h)
                   ? hb_broker_nack(s->station.broker, &settled, rpc_now(s))
                   : hb_broker_return(s->station.broker, &settled, rpc_now(s)));
    }
    rpc_server_pump(s);
}

/* ---- down ---- */

/* WorkResponse with one delivery = 1. */
static void deliver(struct rpc_call *c, const struct hb_delivery *d)
{
    struct rpc_pulled pulled;
    rpc_pulled_of(c->conn->server, d, &pulled);
    struct rpc_held *held = &c->held[c->n_held++];
    *held = (struct rpc_held){d->id, d->token, UINT64_MAX};
    set_credit(c, c->credit - 1);
    size_t n = rpc_pulled_bytes(&pulled);
    uint8_t *at = rpc_call_extend_more(c, 1 + pb_varint_bytes(n) + n);
    if (at == NULL)
        return;
    held->end = c->queued;
    *at++ = PB_BYTES(1);
    at = pb_put_varint(at, n);
    rpc_pulled_put(at, &pulled);
}

bool rpc_work_serve(struct rpc_server *s)
{
    struct hb_delivery d;
    struct rpc_call *c = rpc_pull_next(&s->workers);
    if (c == NULL || !has_room(c) ||
        hb_broker_pull(s->station.broker, c->consumer, rpc_now(s), &d) != HB_BROKER_OK)
        return false;
    leave_ring(c);
    deliver(c, &d);
    join_ring(c);
    return true;
}

/* ---- up ---- */

/* Only what was not OK is reported. */
static void report(struct rpc_call *c, const HarbingerRpc__Settlement *x, int status,
                   const char *text)
{
    char error[96];
    HarbingerRpc__SettlementResult one = HARBINGER_RPC__SETTLEMENT_RESULT__INIT;
    HarbingerRpc__SettlementResult *list[] = {&one};
    HarbingerRpc__WorkResponse r = HARBINGER_RPC__WORK_RESPONSE__INIT;
    snprintf(error, sizeof error, "%s", text);
    one.message_id = x->message_id;
    one.attempt_token = x->attempt_token;
    one.status = (uint32_t)status;
    one.error = error;
    r.n_results = 1;
    r.results = list;
    rpc_call_send_more(c, &r.base);
}

static void settle(struct rpc_call *c, const HarbingerRpc__Settlement *x)
{
    struct rpc_server *s = c->conn->server;
    if (!ids_token_is_well_formed(text_of(x->attempt_token))) {
        report(c, x, GRPC_INVALID_ARGUMENT, "attempt_token is not well-formed");
        return;
    }
    struct hb_settlement settled = {
        .consumer = c->consumer,
        .id = ids_parse(s->station.instance, text_of(x->message_id)),
        .token = ids_parse(s->station.instance, text_of(x->attempt_token)),
        .duration_ms = x->duration_ms,
        .reason = {x->reason, strlen(x->reason)},
    };
    int outcome = x->failed ? hb_broker_nack(s->station.broker, &settled, rpc_now(s))
                            : hb_broker_ack(s->station.broker, &settled, rpc_now(s));
    forget(c, settled.token);
    if (outcome != HB_BROKER_OK)
        report(c, x, rpc_outcome_status(outcome), rpc_outcome_text(outcome));
}

static bool open_stream(struct rpc_call *c, const char *consumer_id)
{
    if (!c->opened && rpc_consumer(c, consumer_id, &c->consumer)) {
        c->opened = true;
        c->conn->server->stats.work_streams++;
    }
    return c->opened;
}

/* The server goes: whoever has nothing left to settle can go elsewhere. */
static void end_when_shut(struct rpc_call *c)
{
    if (c->conn->server->shut && c->n_held == 0)
        rpc_call_finish(c, GRPC_UNAVAILABLE, RPC_SHUT_TEXT);
}

void rpc_work(struct rpc_call *c, const ProtobufCMessage *m)
{
    const HarbingerRpc__WorkRequest *r = (const HarbingerRpc__WorkRequest *)m;
    if (!open_stream(c, r->consumer_id))
        return;
    for (size_t i = 0; i < r->n_settlements && !c->finished; i++)
        settle(c, r->settlements[i]);
    if (r->n_settlements > 0)
        rpc_server_pump(c->conn->server);
    if (r->credit > CREDIT_MAX - c->n_held || c->credit > CREDIT_MAX - c->n_held - r->credit) {
        rpc_call_finish(c, GRPC_INVALID_ARGUMENT,
                        "credit and unsettled deliveries together exceed %d", CREDIT_MAX);
        return;
    }
    set_credit(c, c->credit + r->credit);
    join_ring(c);
    end_when_shut(c);
}

void rpc_work_release(struct rpc_server *s)
{
    for (struct list *conn = s->conns.next; conn != &s->conns; conn = conn->next) {
        struct list *calls = &LIST_ENTRY(conn, struct rpc_conn, node)->calls;
        for (struct list *node = calls->next; node != calls; node = node->next) {
            struct rpc_call *c = LIST_ENTRY(node, struct rpc_call, node);
            if (c->opened && c->method->message == rpc_work)
                end_when_shut(c);
        }
    }
}

/* The consumer is done: what it has not settled it has not begun. */
void rpc_work_client_ended(struct rpc_call *c)
{
    leave_ring(c);
    set_credit(c, 0);
    give_back(c, false);
    rpc_call_finish_ok(c);
}

void rpc_work_gone(struct rpc_call *c)
{
    if (c->opened)
        c->conn->server->stats.work_streams--;
    set_credit(c, 0);
    give_back(c, true);
}
