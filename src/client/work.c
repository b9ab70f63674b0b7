/*
 * A Work stream: deliveries come as credit allows, are handled one after the other, and each
 * settlement carries the credit for the next. At a stop our side of the stream is ended: what came
 * and was not begun goes back as it was, and the server ends the stream after its last results.
 */
#include "client/consumer_internal.h"

static void send_settlement(struct call *call, struct handled *h)
{
    HarbingerRpc__Settlement settlement = HARBINGER_RPC__SETTLEMENT__INIT;
    settlement.message_id = h->message_id;
    settlement.attempt_token = h->token;
    settlement.failed = !h->ok;
    settlement.duration_ms = h->duration_ms;
    settlement.reason = h->reason;
    HarbingerRpc__Settlement *one[] = {&settlement};
    HarbingerRpc__WorkRequest request = HARBINGER_RPC__WORK_REQUEST__INIT;
    request.credit = 1;
    request.n_settlements = 1;
    request.settlements = one;
    call_send(call, &request.base);
}

/* A settlement that was refused: the lease is lost, or it is an error of ours. */
static int take_results(struct hb_consumer *c, struct call *call,
                        const HarbingerRpc__WorkResponse *r)
{
    int status = HB_RPC_OK;
    for (size_t i = 0; i < r->n_results && status == HB_RPC_OK; i++) {
        const HarbingerRpc__SettlementResult *result = r->results[i];
        if (result->status == HB_RPC_FAILED_PRECONDITION) {
            c->stats.lease_lost++;
            continue;
        }
        status = (int)result->status;
        buf_reset(&call->text);
        if (buf_printf(&call->text, "settlement of %s: %s", result->message_id, result->error) < 0)
            buf_reset(&call->text);
    }
    return status;
}

static int take_response(struct hb_consumer *c, struct call *call, struct text message,
                         bool *stopping)
{
    HarbingerRpc__WorkResponse *r =
        harbinger_rpc__work_response__unpack(NULL, message.n, (const uint8_t *)message.p);
    if (r == NULL)
        return HB_RPC_INTERNAL;
    int status = take_results(c, call, r);
    for (size_t i = 0; i < r->n_deliveries && status == HB_RPC_OK && !*stopping; i++) {
        struct handled h;
        consumer_handle(c, r->deliveries[i], &h);
        send_settlement(call, &h);
        if (i + 1 < r->n_deliveries) /* the next handler may take long */
            call_flush(call);
        *stopping = consumer_should_stop(c);
    }
    harbinger_rpc__work_response__free_unpacked(r, NULL);
    return status;
}

/* Until a stop (HB_RPC_OK, and the stream still stands), or until it ends. */
static int work_on(struct hb_consumer *c, struct call *call, struct hb_rpc_error *e)
{
    bool stopping = false;
    while (!stopping) {
        struct text message;
        int status;
        switch (call_wait(call, MONO_NEVER, &message)) {
        case CALL_MESSAGE:
            status = take_response(c, call, message, &stopping);
            if (status != HB_RPC_OK)
                return call_error(call, status, e);
            break;
        case CALL_ENDED: return call_error(call, call->status == GRPC_OK ? GRPC_UNAVAILABLE : 0, e);
        case CALL_LATE:
        case CALL_WOKEN: stopping = true; break;
        }
    }
    return HB_RPC_OK;
}

/* Ends our side and hears the last results. */
static int finish(struct hb_consumer *c, struct call *call, struct hb_rpc_error *e)
{
    mono_t until = peer_now() + peer_timeout(c->peer);
    bool stopping = true;
    struct text message;
    enum call_event event;
    peer_set_wake(c->peer, -1);
    call_send_end(call);
    int status = HB_RPC_OK;
    while ((event = call_wait(call, until, &message)) == CALL_MESSAGE && status == HB_RPC_OK)
        status = take_response(c, call, message, &stopping);
    peer_set_wake(c->peer, c->stop_fd);
    if (status == HB_RPC_OK && event == CALL_LATE)
        status = HB_RPC_DEADLINE_EXCEEDED;
    if (status == HB_RPC_OK)
        status = call->status;
    return status == HB_RPC_OK ? HB_RPC_OK : call_error(call, status, e);
}

int work_run(struct hb_consumer *c, struct hb_rpc_error *e)
{
    struct call call;
    int status = call_start(&call, c->peer, "Work", MONO_NEVER, e);
    if (status != HB_RPC_OK)
        return status;
    HarbingerRpc__WorkRequest request = HARBINGER_RPC__WORK_REQUEST__INIT;
    request.consumer_id = c->id;
    request.credit = c->options.credit;
    call_send(&call, &request.base);
    status = work_on(c, &call, e);
    if (status == HB_RPC_OK)
        status = finish(c, &call, e);
    call_fini(&call);
    return status;
}
