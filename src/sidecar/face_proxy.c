#include "sidecar/face_proxy.h"

#include "rpc/pb.h"
#include "sidecar/face_metric.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 1000 };

static const char *const outcomes[PROXY_N_OUTCOMES] = {
    [PROXY_ACK] = "ack",
    [PROXY_FAIL] = "fail",
    [PROXY_DISCARD] = "discard",
    [PROXY_PUT_BACK] = "put_back",
};

/* ---- /status ---- */

/* Whatever a client has said. */
static json_t *said(const char *text)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", text);
    pb_make_utf8(copy, strlen(copy));
    return json_string(copy);
}

static void add_row(void *ctx, const struct proxy_client_row *r)
{
    json_t *row = json_pack(
        "{s:o, s:o, s:o, s:s, s:I, s:I, s:o, s:I, s:I, s:I, s:b, s:b}", "peer", said(r->peer),
        "user", said(r->user), "product", said(r->product), "state", r->state, "channels",
        (json_int_t)r->channels, "consumers", (json_int_t)r->consumers, "window",
        r->window == UINT32_MAX ? json_null() : json_integer((json_int_t)r->window), "in_flight",
        (json_int_t)r->in_flight, "delivered", (json_int_t)r->delivered, "held_bytes",
        (json_int_t)r->held_bytes, "paused_client", (int)r->paused_client, "paused_upstream",
        (int)r->paused_upstream);
    (void)json_array_append_new(ctx, row);
}

json_t *face_proxy_status(const struct daemon *d)
{
    if (d->amqp_workers == NULL)
        return json_null();
    struct proxy_stats s = amqp_workers_stats(d->amqp_workers);
    json_t *clients = json_array();
    if (clients == NULL)
        return NULL;
    amqp_workers_clients(d->amqp_workers, 0, ROWS, add_row, clients);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
                     "address", amqp_workers_address(d->amqp_workers), "connections",
                     (json_int_t)s.connections, "consumers", (json_int_t)s.consumers, "in_flight",
                     (json_int_t)s.in_flight, "delivered", (json_int_t)s.delivered, "acked",
                     (json_int_t)s.settled[PROXY_ACK], "failed", (json_int_t)s.settled[PROXY_FAIL],
                     "discarded", (json_int_t)s.settled[PROXY_DISCARD], "put_back",
                     (json_int_t)s.settled[PROXY_PUT_BACK], "timed", (json_int_t)s.timed,
                     "early_acks", (json_int_t)s.early_acks, "refused", (json_int_t)s.refused,
                     "upstream_failed", (json_int_t)s.upstream_failed, "clients", clients);
}

/* ---- /metrics ---- */

static void write_connections(struct metrics *m, const struct proxy_stats *s,
                              const struct daemon *d)
{
    face_counter(m, "harbinger_proxy_accepted_total", "Workers' connections accepted.",
                 s->accepted);
    face_gauge(m, "harbinger_proxy_connections", "Workers' connections now.", s->connections);
    face_gauge(m, "harbinger_proxy_max_connections", "Bound of harbinger_proxy_connections.",
               d->conf.proxy.max_connections);
    metrics_family(m, METRICS_COUNTER, "harbinger_proxy_refused_total",
                   "Workers' connections that did not come to be, by why.");
    face_labelled(m, "reason", "too_many", s->refused);
    face_labelled(m, "reason", "guest", s->refused_guest);
    face_labelled(m, "reason", "timed_out", s->timed_out);
    face_labelled(m, "reason", "no_rabbitmq", s->upstream_failed);
    face_counter(m, "harbinger_proxy_broken_clients_total", "Clients that sent what is not AMQP.",
                 s->broken_clients);
    face_counter(m, "harbinger_proxy_paused_total",
                 "Times that one side was not read because the other did not read.", s->paused);
    face_counter(m, "harbinger_proxy_client_bytes_in_total", "Bytes from workers.", s->bytes_in);
    face_counter(m, "harbinger_proxy_client_bytes_out_total", "Bytes to workers.", s->bytes_out);
}

static void write_deliveries(struct metrics *m, const struct proxy_stats *s)
{
    face_gauge(m, "harbinger_proxy_consumers", "Consumers of the work queue.", s->consumers);
    face_gauge(m, "harbinger_proxy_in_flight", "Messages at workers.", (double)s->in_flight);
    face_counter(m, "harbinger_proxy_delivered_total", "Messages delivered to workers.",
                 s->delivered);
    metrics_family(m, METRICS_COUNTER, "harbinger_proxy_settled_total",
                   "Deliveries that have ended, by how.");
    for (int i = 0; i < PROXY_N_OUTCOMES; i++)
        face_labelled(m, "how", outcomes[i], s->settled[i]);
    face_counter(m, "harbinger_proxy_stale_total",
                 "Of these: the broker had ended them otherwise meanwhile.", s->stale);
    metrics_family(m, METRICS_COUNTER, "harbinger_proxy_durations_total",
                   "Acks, by whether they tell a duration.");
    face_labelled(m, "known", "yes", s->timed);
    face_labelled(m, "known", "from_event", s->event_runtimes);
    face_labelled(m, "known", "no_too_early", s->early_acks);
    face_labelled(m, "known", "no_too_wide", s->wide_acks);
    face_labelled(m, "known", "no_ack", s->no_acks);
    face_counter(m, "harbinger_proxy_barriers_total",
                 "Acks that waited until RabbitMQ had what was published before.", s->barriers);
}

void face_proxy_metrics(struct metrics *m, const struct daemon *d)
{
    struct proxy_stats s = amqp_workers_stats(d->amqp_workers);
    write_connections(m, &s, d);
    write_deliveries(m, &s);
}
