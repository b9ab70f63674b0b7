/*
 * The loop of a consumer: register, then deliveries one after the other, each handled, timed and
 * settled. Two ways to get them: one Pull at a time, or a Work stream with credit.
 */
#include "client/consumer_internal.h"
#include "client/unary.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEFAULT_PULL_MS 1000
#define PULL_BACKOFF    (200 * MONO_MS)

struct hb_consumer *hb_consumer_new(const struct hb_consumer_options *o)
{
    struct hb_consumer *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->options = *o;
    if (c->options.pull_timeout_ms <= 0)
        c->options.pull_timeout_ms = DEFAULT_PULL_MS;
    c->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    c->peer = peer_new(&c->options.client);
    if (c->stop_fd >= 0 && c->peer != NULL)
        return c;
    hb_consumer_free(c);
    return NULL;
}

void hb_consumer_free(struct hb_consumer *c)
{
    if (c == NULL)
        return;
    peer_free(c->peer);
    if (c->stop_fd >= 0)
        close(c->stop_fd);
    free(c->headers);
    free(c->id);
    free(c);
}

/* Safe in a signal handler: one write(), and errno as it was. */
void hb_consumer_stop(struct hb_consumer *c)
{
    int saved = errno;
    uint64_t one = 1;
    atomic_store(&c->stop, true);
    ssize_t r = write(c->stop_fd, &one, sizeof one);
    (void)r; /* it fails when the counter is full: it is set then */
    errno = saved;
}

static void drain_stop(struct hb_consumer *c)
{
    uint64_t count;
    atomic_store(&c->stop, false);
    ssize_t r = read(c->stop_fd, &count, sizeof count);
    (void)r;
}

void hb_consumer_stats(const struct hb_consumer *c, struct hb_consumer_stats *out)
{
    *out = c->stats;
}

bool consumer_passes(int status)
{
    return status == HB_RPC_UNAVAILABLE || status == HB_RPC_DEADLINE_EXCEEDED;
}

/* A server that starts anew knows no consumer any more: so each new connection registers. */
void consumer_forget(struct hb_consumer *c)
{
    free(c->id);
    c->id = NULL;
}

int consumer_enroll(struct hb_consumer *c, struct hb_rpc_error *e)
{
    if (c->id != NULL && peer_connected(c->peer))
        return HB_RPC_OK;
    consumer_forget(c);
    HarbingerRpc__RegisterConsumerRequest request = HARBINGER_RPC__REGISTER_CONSUMER_REQUEST__INIT;
    ProtobufCMessage *answer;
    int status = unary_call(c->peer, "RegisterConsumer", &request.base,
                            &harbinger_rpc__register_consumer_response__descriptor,
                            peer_now() + peer_timeout(c->peer), &answer, e);
    if (status != HB_RPC_OK)
        return status;
    c->id = strdup(((HarbingerRpc__RegisterConsumerResponse *)answer)->consumer_id);
    protobuf_c_message_free_unpacked(answer, NULL);
    if (c->id != NULL)
        return HB_RPC_OK;
    *e = (struct hb_rpc_error){HB_RPC_RESOURCE_EXHAUSTED, "RegisterConsumer: out of memory"};
    return HB_RPC_RESOURCE_EXHAUSTED;
}

/* ---- one message ---- */

static bool take_headers(struct hb_consumer *c, const HarbingerRpc__PulledMessage *m)
{
    if (m->n_headers > c->n_headers) {
        struct hb_header *more = realloc(c->headers, m->n_headers * sizeof *more);
        if (more == NULL)
            return false;
        c->headers = more;
        c->n_headers = m->n_headers;
    }
    for (size_t i = 0; i < m->n_headers; i++)
        c->headers[i] = (struct hb_header){m->headers[i]->key, m->headers[i]->value};
    return true;
}

void consumer_handle(struct hb_consumer *c, const HarbingerRpc__PulledMessage *m,
                     struct handled *out)
{
    *out = (struct handled){.message_id = m->message_id, .token = m->attempt_token};
    struct hb_incoming in = {.id = m->message_id,
                             .payload = m->payload.data,
                             .n_payload = m->payload.len,
                             .lease_ms = m->lease_duration_ms};
    mono_t started_at = peer_now();
    if (take_headers(c, m)) {
        in.headers = c->headers;
        in.n_headers = m->n_headers;
        c->current = m;
        out->ok = c->options.handle(c->options.ctx, &in, out->reason);
        c->current = NULL;
    } else {
        snprintf(out->reason, sizeof out->reason, "out of memory");
    }
    out->duration_ms = mono_to_ms(peer_now() - started_at);
    if (out->ok)
        c->stats.handled++;
    else
        c->stats.failed++;
}

int hb_consumer_extend(struct hb_consumer *c, int64_t *lease_ms, struct hb_rpc_error *error)
{
    HarbingerRpc__ExtendLeaseRequest request = HARBINGER_RPC__EXTEND_LEASE_REQUEST__INIT;
    ProtobufCMessage *answer;
    assert(c->current != NULL);
    request.consumer_id = c->id;
    request.message_id = c->current->message_id;
    request.attempt_token = c->current->attempt_token;
    peer_set_wake(c->peer, -1);
    int status = unary_call(c->peer, "ExtendLease", &request.base,
                            &harbinger_rpc__extend_lease_response__descriptor,
                            peer_now() + peer_timeout(c->peer), &answer, error);
    peer_set_wake(c->peer, c->stop_fd);
    if (status != HB_RPC_OK)
        return status;
    if (lease_ms != NULL)
        *lease_ms = ((HarbingerRpc__ExtendLeaseResponse *)answer)->lease_duration_ms;
    protobuf_c_message_free_unpacked(answer, NULL);
    return HB_RPC_OK;
}

/* ---- the loop ---- */

bool consumer_should_stop(const struct hb_consumer *c)
{
    return atomic_load_explicit(&c->stop, memory_order_relaxed);
}

int hb_consumer_run(struct hb_consumer *c, struct hb_rpc_error *error)
{
    struct hb_rpc_error own = {0}, *e = error != NULL ? error : &own;
    peer_set_wake(c->peer, c->stop_fd);
    int status = HB_RPC_OK;
    while (!consumer_should_stop(c)) {
        bool settling = false;
        status = consumer_enroll(c, e);
        if (status == HB_RPC_OK)
            status = c->options.credit > 0 ? work_run(c, e) : pull_run(c, e, &settling);
        if (status == HB_RPC_OK || (status == HB_RPC_CANCELLED && consumer_should_stop(c)))
            continue;
        if (settling || !consumer_passes(status))
            return status;
        c->stats.pull_errors++;
        consumer_forget(c);
        peer_sleep(c->peer, PULL_BACKOFF);
    }
    drain_stop(c);
    return HB_RPC_OK;
}
