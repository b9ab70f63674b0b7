/*
 * Pull: answered at once when a message waits, else parked until one does or the time is over. The
 * longest-parked one is served first.
 */
#include "rpc/harbinger.pb-c.h"
#include "rpc/methods.h"
#include "rpc/pb.h"

static void answer_timed_out(struct rpc_call *c)
{
    HarbingerRpc__PullResponse r = HARBINGER_RPC__PULL_RESPONSE__INIT;
    r.timed_out = true;
    c->conn->server->stats.parked_pulls -= !list_empty(&c->wait);
    rpc_call_answer(c, &r.base);
}

/* PullResponse with its message = 2. */
static void answer_delivery(struct rpc_call *c, const struct hb_delivery *d)
{
    struct rpc_pulled pulled;
    rpc_pulled_of(c->conn->server, d, &pulled);
    c->delivered = (struct rpc_held){d->id, d->token, UINT64_MAX};
    size_t n = rpc_pulled_bytes(&pulled);
    uint8_t *at = rpc_call_extend(c, 1 + pb_varint_bytes(n) + n);
    if (at == NULL)
        return;
    c->delivered.end = c->queued;
    *at++ = PB_BYTES(2);
    at = pb_put_varint(at, n);
    rpc_pulled_put(at, &pulled);
    rpc_call_finish_ok(c);
}

/* HB_BROKER_OK when the call is answered, EMPTY when nothing waits. */
static int serve(struct rpc_call *c)
{
    struct rpc_server *s = c->conn->server;
    struct hb_delivery d;
    int outcome = hb_broker_pull(s->station.broker, c->consumer, rpc_now(s), &d);
    if (outcome == HB_BROKER_OK)
        answer_delivery(c, &d);
    else if (outcome != HB_BROKER_EMPTY)
        rpc_call_finish(c, GRPC_INTERNAL, "the delivery could not be stored");
    return outcome == HB_BROKER_EMPTY ? HB_BROKER_EMPTY : HB_BROKER_OK;
}

static void on_time(evutil_socket_t fd, short what, void *ctx)
{
    struct rpc_call *c = ctx;
    if (c->deadline < c->waits_until) {
        c->conn->server->stats.parked_pulls--;
        rpc_call_finish(c, GRPC_DEADLINE_EXCEEDED, "the call's deadline has passed");
    } else {
        answer_timed_out(c);
    }
}

static mono_t wait_of(const struct rpc_server *s, int64_t timeout_ms)
{
    mono_t most = s->options.max_pull_wait;
    return timeout_ms <= 0 || timeout_ms > most / MONO_MS ? most : timeout_ms * MONO_MS;
}

void rpc_pull(struct rpc_call *c, const ProtobufCMessage *m)
{
    const HarbingerRpc__PullRequest *r = (const HarbingerRpc__PullRequest *)m;
    struct rpc_server *s = c->conn->server;
    if (!rpc_consumer(c, r->consumer_id, &c->consumer))
        return;
    if (s->shut) {
        answer_timed_out(c);
        return;
    }
    s->stats.pulls++;
    rpc_server_pump(s); /* the pull may have moved a deadline */
    if (list_empty(&s->parked) && !rpc_conn_is_full(c->conn) && serve(c) == HB_BROKER_OK)
        return;
    c->waits_until = mono_add(rpc_now(s), wait_of(s, r->timeout_ms));
    rpc_call_set_timer(c, mono_min(c->waits_until, c->deadline), on_time);
    if (c->finished)
        return;
    list_push_back(&s->parked, &c->wait);
    s->stats.parked_pulls++;
}

/* A delivery whose answer did not even reach the connection is as if it had never been made. */
void rpc_pull_gone(struct rpc_call *c)
{
    struct rpc_server *s = c->conn->server;
    if (!list_empty(&c->wait))
        s->stats.parked_pulls--;
    if (c->delivered.token == 0 || rpc_call_has_sent(c, &c->delivered))
        return;
    struct hb_settlement back = {
        .consumer = c->consumer, .id = c->delivered.id, .token = c->delivered.token};
    (void)hb_broker_return(s->station.broker, &back, rpc_now(s));
    rpc_server_pump(s);
}

void rpc_pull_release(struct rpc_server *s)
{
    for (struct list *node = s->conns.next; node != &s->conns; node = node->next)
        rpc_pull_unblock(LIST_ENTRY(node, struct rpc_conn, node));
    while (!list_empty(&s->parked))
        answer_timed_out(LIST_ENTRY(list_first(&s->parked), struct rpc_call, wait));
}

struct rpc_call *rpc_pull_next(struct list *waiting)
{
    struct list *node;
    while ((node = list_first(waiting)) != NULL) {
        struct rpc_call *c = LIST_ENTRY(node, struct rpc_call, wait);
        if (!rpc_conn_is_full(c->conn))
            return c;
        list_remove(node);
        list_push_back(&c->conn->blocked, node);
    }
    return NULL;
}

void rpc_pull_unblock(struct rpc_conn *conn)
{
    struct rpc_server *s = conn->server;
    while (!list_empty(&conn->blocked)) {
        struct list *last = conn->blocked.prev;
        struct rpc_call *c = LIST_ENTRY(last, struct rpc_call, wait);
        list_remove(last);
        list_push_front(c->method->is_stream ? &s->workers : &s->parked, last);
    }
    rpc_server_pump(s);
}

/* One message to the longest-parked pull; false when there is none, or no message. */
static bool serve_pull(struct rpc_server *s)
{
    struct rpc_call *c = rpc_pull_next(&s->parked);
    if (c == NULL || serve(c) == HB_BROKER_EMPTY)
        return false;
    s->stats.parked_pulls--;
    return true;
}

/* Pulls and streams take turns, so that neither kind starves the other. */
void rpc_pull_pump(struct rpc_server *s)
{
    bool pulls = true, streams = true;
    while (pulls || streams) {
        pulls = pulls && serve_pull(s);
        streams = streams && rpc_work_serve(s);
    }
}
