/*
 * One Pull at a time. The settlement of a delivery and the next Pull leave together, which saves a
 * round trip, and the next delivery is handled even if the settlement's answer is not there; but
 * only one settlement is under way at a time. Our server takes the requests of a connection in their
 * order: so the consumer has no more than one delivery, and a settlement's answer comes before the
 * delivery, so that a repetition does not wait for a handler.
 */
#include "client/consumer_internal.h"
#include "client/unary.h"

#include <math.h>

#define PULL_GRACE     (500 * MONO_MS) /* beyond the pull's own timeout */
#define SETTLE_TRIES   3
#define SETTLE_BACKOFF (100 * MONO_MS) /* after the first try; twice that after the second */

/* A delivery that was handled. `answer` is the Pull's, which `h` borrows from; NULL: there is none. */
struct settling {
    ProtobufCMessage *answer;
    struct handled h;
    uint64_t connection; /* on which it came */
    struct call call;    /* the Ack or Nack under way */
    mono_t until;
    int started; /* HB_RPC_OK: `call` is one; else why it could not be */
};

struct pulls {
    struct hb_consumer *consumer;
    struct settling last;
    int settled; /* the first settlement that failed for good; HB_RPC_OK: none has */
    struct hb_rpc_error error;
};

/* ---- settlements ---- */

static int start_ack(struct hb_consumer *c, struct settling *s, struct hb_rpc_error *e)
{
    HarbingerRpc__AckRequest r = HARBINGER_RPC__ACK_REQUEST__INIT;
    r.consumer_id = c->id;
    r.message_id = s->h.message_id;
    r.attempt_token = s->h.token;
    r.processing_time_ms = (int64_t)floor(s->h.duration_ms);
    r.duration_case = HARBINGER_RPC__ACK_REQUEST__DURATION_DURATION_MS;
    r.duration_ms = s->h.duration_ms;
    return unary_start(&s->call, c->peer, "Ack", &r.base, s->until, e);
}

static int start_nack(struct hb_consumer *c, struct settling *s, struct hb_rpc_error *e)
{
    HarbingerRpc__NackRequest r = HARBINGER_RPC__NACK_REQUEST__INIT;
    r.consumer_id = c->id;
    r.message_id = s->h.message_id;
    r.attempt_token = s->h.token;
    r.processing_time_ms = (int64_t)floor(s->h.duration_ms);
    r.duration_case = HARBINGER_RPC__NACK_REQUEST__DURATION_DURATION_MS;
    r.duration_ms = s->h.duration_ms;
    r.reason = s->h.reason;
    return unary_start(&s->call, c->peer, "Nack", &r.base, s->until, e);
}

static void settle_start(struct hb_consumer *c, struct settling *s, struct hb_rpc_error *e)
{
    s->until = peer_now() + peer_timeout(c->peer);
    s->started = s->h.ok ? start_ack(c, s, e) : start_nack(c, s, e);
    if (s->started == HB_RPC_OK)
        call_queue(&s->call);
}

static int settle_wait(struct settling *s, struct hb_rpc_error *e)
{
    if (s->started != HB_RPC_OK)
        return s->started;
    const ProtobufCMessageDescriptor *type = s->h.ok ? &harbinger_rpc__ack_response__descriptor
                                                     : &harbinger_rpc__nack_response__descriptor;
    ProtobufCMessage *answer;
    int status = unary_end(&s->call, type, s->until, &answer, e);
    if (status == HB_RPC_OK)
        protobuf_c_message_free_unpacked(answer, NULL);
    return status;
}

/* What a server says that has started anew since the delivery, and with it lost the message. */
static bool knows_nothing(int status)
{
    return status == HB_RPC_PERMISSION_DENIED || status == HB_RPC_NOT_FOUND;
}

/* Hears how the settlement under way ends, and repeats it where that may help. Not to be
 * interrupted by a stop: what was done is to be told. */
static int settle_end(struct hb_consumer *c, struct settling *s, struct hb_rpc_error *e)
{
    int status;
    peer_set_wake(c->peer, -1);
    for (int i = 1; consumer_passes(status = settle_wait(s, e)) && i < SETTLE_TRIES; i++) {
        peer_sleep(c->peer, i * SETTLE_BACKOFF);
        c->stats.retried++;
        settle_start(c, s, e);
    }
    peer_set_wake(c->peer, c->stop_fd);
    bool elsewhere = peer_connections(c->peer) != s->connection;
    if (elsewhere)
        consumer_forget(c);
    protobuf_c_message_free_unpacked(s->answer, NULL);
    s->answer = NULL;
    if (status == HB_RPC_FAILED_PRECONDITION || (elsewhere && knows_nothing(status))) {
        c->stats.lease_lost++;
        status = HB_RPC_OK;
    }
    return status;
}

static void settle_last(struct pulls *p)
{
    struct hb_rpc_error e = {0};
    if (p->last.answer == NULL)
        return;
    int status = settle_end(p->consumer, &p->last, &e);
    if (status == HB_RPC_OK || p->settled != HB_RPC_OK)
        return;
    p->settled = status;
    p->error = e;
}

/* ---- pulls ---- */

/* HB_RPC_OK with out->answer NULL: nothing came in time. */
static int pull(struct hb_consumer *c, struct settling *out, struct hb_rpc_error *e)
{
    HarbingerRpc__PullRequest request = HARBINGER_RPC__PULL_REQUEST__INIT;
    request.consumer_id = c->id;
    request.timeout_ms = c->options.pull_timeout_ms;
    mono_t until = peer_now() + c->options.pull_timeout_ms * MONO_MS + PULL_GRACE;
    int status = unary_call(c->peer, "Pull", &request.base,
                            &harbinger_rpc__pull_response__descriptor, until, &out->answer, e);
    if (status != HB_RPC_OK)
        return status;
    out->connection = peer_connections(c->peer);
    const HarbingerRpc__PullResponse *r = (HarbingerRpc__PullResponse *)out->answer;
    if (r->timed_out || r->message == NULL) {
        protobuf_c_message_free_unpacked(out->answer, NULL);
        out->answer = NULL;
    }
    return HB_RPC_OK;
}

/* The settlement under way belongs to a connection that is not this one: it goes first, since it is
 * told under the name that the consumer had there. */
static void settle_elsewhere(struct pulls *p)
{
    struct peer *peer = p->consumer->peer;
    if (!peer_connected(peer) || peer_connections(peer) != p->last.connection)
        settle_last(p);
}

static int pull_once(struct pulls *p, struct hb_rpc_error *e)
{
    struct hb_consumer *c = p->consumer;
    struct settling next = {0};
    settle_elsewhere(p);
    if (p->settled != HB_RPC_OK)
        return HB_RPC_OK;
    int status = consumer_enroll(c, e);
    if (status == HB_RPC_OK)
        status = pull(c, &next, e);
    if (status != HB_RPC_OK)
        return status;
    if (next.answer == NULL || p->last.call.ended)
        settle_last(p);
    if (next.answer == NULL)
        return HB_RPC_OK;
    consumer_handle(c, ((HarbingerRpc__PullResponse *)next.answer)->message, &next.h);
    settle_last(p);
    p->last = next;
    settle_start(c, &p->last, e);
    return HB_RPC_OK;
}

int pull_run(struct hb_consumer *c, struct hb_rpc_error *e, bool *settling)
{
    struct pulls p = {.consumer = c, .settled = HB_RPC_OK};
    int status = HB_RPC_OK;
    while (status == HB_RPC_OK && p.settled == HB_RPC_OK && !consumer_should_stop(c))
        status = pull_once(&p, e);
    settle_last(&p);
    if (p.settled == HB_RPC_OK)
        return status;
    *settling = true;
    *e = p.error;
    return p.settled;
}
