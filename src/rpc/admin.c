/* What operators ask: dead letters, numbers, draining. */
#include "rpc/harbinger.pb-c.h"
#include "rpc/methods.h"
#include "rpc/pb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_DEFAULT 10 /* the reference's */
#define LIST_MAX     100

/* ---- InspectDlq ---- */

/* The answer as it grows: entries = 1, written by hand since their headers are spliced. */
struct listing {
    struct rpc_server *server;
    struct buf out;
    size_t max_bytes;
    bool full;
};

static int32_t reason_of(enum hb_dead_reason reason)
{
    switch (reason) {
    case HB_DEAD_MAX_RETRIES: return HARBINGER_RPC__DLQ_REASON__DLQ_MAX_RETRIES_EXCEEDED;
    case HB_DEAD_TTL_EXPIRED: return HARBINGER_RPC__DLQ_REASON__DLQ_TTL_EXPIRED;
    case HB_DEAD_PROCESSING_ERROR: return HARBINGER_RPC__DLQ_REASON__DLQ_PROCESSING_ERROR;
    default: return HARBINGER_RPC__DLQ_REASON__DLQ_UNKNOWN;
    }
}

static uint8_t *put_number(uint8_t *at, unsigned field, uint64_t v)
{
    *at++ = PB_VARINT(field);
    return pb_put_varint(at, v);
}

static void list_one(void *ctx, const struct hb_dead *d)
{
    struct listing *l = ctx;
    char id[IDS_BYTES];
    size_t n_id = ids_print(l->server->station.instance, d->id, id), n_details = strlen(d->details);
    uint64_t reason = (uint64_t)reason_of(d->reason), age_ms = (uint64_t)(d->age_ns / MONO_MS);
    size_t n = pb_field_bytes(n_id) + pb_field_bytes(d->payload.n) + d->headers.n + 1 +
               pb_varint_bytes(reason) + pb_field_bytes(n_details) + 1 + pb_varint_bytes(age_ms) +
               1 + pb_varint_bytes(d->failures);
    size_t framed = 1 + pb_varint_bytes(n) + n;
    l->full = l->full || (l->out.n > 0 && l->out.n + framed > l->max_bytes);
    uint8_t *at = l->full ? NULL : (uint8_t *)buf_extend(&l->out, framed);
    if (at == NULL) {
        l->full = true;
        return;
    }
    *at++ = PB_BYTES(1);
    at = pb_put_varint(at, n);
    at = pb_put_field(at, PB_BYTES(1), id, n_id);
    at = pb_put_field(at, PB_BYTES(2), d->payload.p, d->payload.n);
    if (d->headers.n > 0)
        memcpy(at, d->headers.p, d->headers.n);
    at = put_number(at + d->headers.n, 4, reason);
    at = pb_put_field(at, PB_BYTES(5), d->details, n_details);
    pb_make_utf8((char *)at - n_details, n_details); /* a reason may be any bytes, and is cut off */
    at = put_number(at, 6, age_ms);
    put_number(at, 7, d->failures);
}

/* Entries that together exceed a message's size are cut off; the client asks again with an offset.
 */
void rpc_inspect_dlq(struct rpc_call *c, const ProtobufCMessage *m)
{
    const HarbingerRpc__InspectDlqRequest *r = (const HarbingerRpc__InspectDlqRequest *)m;
    struct rpc_server *s = c->conn->server;
    struct listing l = {.server = s, .max_bytes = s->options.max_message_bytes - 16};
    size_t limit = r->limit <= 0 ? LIST_DEFAULT : r->limit > LIST_MAX ? LIST_MAX : (size_t)r->limit;
    hb_broker_dead(s->station.broker, r->offset > 0 ? (size_t)r->offset : 0, limit, rpc_now(s),
                   list_one, &l);
    struct hb_broker_stats stats;
    hb_broker_stats(s->station.broker, &stats);
    uint8_t *at = rpc_call_extend(c, l.out.n + 1 + pb_varint_bytes(stats.dead));
    if (at != NULL) {
        if (l.out.n > 0)
            memcpy(at, l.out.p, l.out.n);
        put_number(at + l.out.n, 2, stats.dead);
        rpc_call_finish_ok(c);
    }
    buf_fini(&l.out);
}

/* ---- RedriveDlq, PurgeDlq ---- */

static uint64_t id_of(const struct rpc_call *c, const char *text)
{
    return ids_parse(c->conn->server->station.instance, text_of(text));
}

static void no_dead_letter(struct rpc_call *c, int outcome)
{
    if (outcome == HB_BROKER_FULL)
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED, "the broker is full");
    else if (outcome == HB_BROKER_UNKNOWN)
        rpc_call_finish(c, GRPC_NOT_FOUND, "there is no such dead letter");
    else
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED, "the broker is out of memory");
}

void rpc_redrive_dlq(struct rpc_call *c, const ProtobufCMessage *m)
{
    const HarbingerRpc__RedriveDlqRequest *r = (const HarbingerRpc__RedriveDlqRequest *)m;
    struct rpc_server *s = c->conn->server;
    HarbingerRpc__RedriveDlqResponse answer = HARBINGER_RPC__REDRIVE_DLQ_RESPONSE__INIT;
    rpc_server_pump(s);
    if (r->message_id[0] == '\0') {
        size_t limit = r->limit > 0 ? r->limit : SIZE_MAX;
        answer.redriven = hb_broker_redrive_oldest(s->station.broker, limit, rpc_now(s));
    } else {
        int outcome = hb_broker_redrive(s->station.broker, id_of(c, r->message_id), rpc_now(s));
        if (outcome != HB_BROKER_OK) {
            no_dead_letter(c, outcome);
            return;
        }
        answer.redriven = 1;
    }
    rpc_call_answer(c, &answer.base);
}

void rpc_purge_dlq(struct rpc_call *c, const ProtobufCMessage *m)
{
    const HarbingerRpc__PurgeDlqRequest *r = (const HarbingerRpc__PurgeDlqRequest *)m;
    struct rpc_server *s = c->conn->server;
    HarbingerRpc__PurgeDlqResponse answer = HARBINGER_RPC__PURGE_DLQ_RESPONSE__INIT;
    if (r->message_id[0] == '\0') {
        answer.purged = hb_broker_purge_all(s->station.broker);
    } else {
        int outcome = hb_broker_purge(s->station.broker, id_of(c, r->message_id));
        if (outcome != HB_BROKER_OK) {
            no_dead_letter(c, outcome);
            return;
        }
        answer.purged = 1;
    }
    rpc_call_answer(c, &answer.base);
}

/* ---- Stats, Drain ---- */

static void fill_level(HarbingerRpc__LevelStats *out, const struct hb_level_stats *l)
{
    *out = (HarbingerRpc__LevelStats)HARBINGER_RPC__LEVEL_STATS__INIT;
    out->waiting = l->waiting;
    out->promoted = l->promoted;
    out->oldest_wait_ms = l->oldest_wait_ns / MONO_MS;
    out->pulls = l->pulls;
    out->promotions = l->promotions;
    out->clock_ms = l->clock_ms;
    out->charged_ms = l->charged_ms;
    out->average_ms = l->average_ms;
}

static void fill_stats(HarbingerRpc__StatsResponse *out, const struct hb_broker_stats *b)
{
    out->waiting = b->waiting;
    out->in_flight = b->in_flight;
    out->dead = b->dead;
    out->submitted = b->submitted;
    out->refused = b->refused;
    out->acked = b->acked;
    out->nacked = b->nacked;
    out->leases_expired = b->leases_expired;
    out->ttl_expired = b->ttl_expired;
    out->retried = b->retried;
    out->dropped_dead = b->dropped_dead;
    out->learned = b->learned;
    out->censored = b->censored;
}

/* ---- Stats: the clients of the AMQP face ---- */

enum { AMQP_CLIENTS = 100, TEXT_BYTES = 96 };

struct amqp_rows {
    size_t n;
    HarbingerRpc__AmqpClient *pointers[AMQP_CLIENTS];
    struct amqp_row {
        HarbingerRpc__AmqpClient message;
        char peer[TEXT_BYTES], user[TEXT_BYTES], product[TEXT_BYTES];
    } rows[AMQP_CLIENTS];
};

static char *copy_text(char out[TEXT_BYTES], const char *text)
{
    snprintf(out, TEXT_BYTES, "%s", text);
    pb_make_utf8(out, strlen(out));
    return out;
}

static void add_amqp_client(void *ctx, const struct rpc_amqp_client *c)
{
    struct amqp_rows *all = ctx;
    if (all->n == AMQP_CLIENTS)
        return;
    struct amqp_row *row = &all->rows[all->n];
    harbinger_rpc__amqp_client__init(&row->message);
    row->message.peer = copy_text(row->peer, c->peer);
    row->message.user = copy_text(row->user, c->user);
    row->message.product = copy_text(row->product, c->product);
    row->message.state = (char *)(uintptr_t)c->state; /* only read */
    row->message.channels = c->channels;
    row->message.consumers = c->consumers;
    row->message.window = c->window;
    row->message.in_flight = c->in_flight;
    row->message.delivered = c->delivered;
    row->message.held_bytes = c->held_bytes;
    all->pointers[all->n++] = &row->message;
}

/* Short of memory there are no rows. NULL, or to be freed when the answer is made. */
static struct amqp_rows *fill_amqp_clients(const struct rpc_station *s,
                                           HarbingerRpc__StatsResponse *r)
{
    struct amqp_rows *all = s->amqp_clients != NULL ? calloc(1, sizeof *all) : NULL;
    if (all == NULL)
        return NULL;
    r->amqp_connections = s->amqp_clients(s->ctx, AMQP_CLIENTS, add_amqp_client, all);
    r->amqp_clients = all->pointers;
    r->n_amqp_clients = all->n;
    return all;
}

void rpc_stats_now(struct rpc_call *c, const ProtobufCMessage *m)
{
    struct rpc_server *s = c->conn->server;
    HarbingerRpc__StatsResponse r = HARBINGER_RPC__STATS_RESPONSE__INIT;
    HarbingerRpc__LevelStats levels[HB_LEVELS_MAX], *pointers[HB_LEVELS_MAX];
    struct hb_broker_stats stats;
    hb_broker_stats(s->station.broker, &stats);
    fill_stats(&r, &stats);
    r.draining = s->station.draining(s->station.ctx);
    r.n_levels = hb_broker_options(s->station.broker)->levels;
    r.levels = pointers;
    for (unsigned i = 0; i < r.n_levels; i++) {
        struct hb_level_stats level;
        hb_broker_level_stats(s->station.broker, i, rpc_now(s), &level);
        fill_level(&levels[i], &level);
        pointers[i] = &levels[i];
    }
    struct amqp_rows *clients = fill_amqp_clients(&s->station, &r);
    rpc_call_answer(c, &r.base);
    free(clients);
}

void rpc_drain(struct rpc_call *c, const ProtobufCMessage *m)
{
    struct rpc_server *s = c->conn->server;
    struct hb_broker_stats stats;
    HarbingerRpc__DrainResponse r = HARBINGER_RPC__DRAIN_RESPONSE__INIT;
    s->station.drain(s->station.ctx);
    rpc_health_tell(s);
    hb_broker_stats(s->station.broker, &stats);
    r.waiting = stats.waiting;
    r.in_flight = stats.in_flight;
    rpc_call_answer(c, &r.base);
}
