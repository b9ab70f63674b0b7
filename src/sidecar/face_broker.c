#include "sidecar/face_broker.h"

#include "sidecar/daemon_internal.h"
#include "sidecar/face_metric.h"
#include "sidecar/face_proxy.h"
#include "sidecar/loop.h"

#include <stdio.h>

/* Everything that is shown about one level. */
struct level {
    char number[12];
    struct hb_level_stats s;
};

static unsigned read_levels(const struct daemon *d, struct level out[CONF_MAX_LEVELS])
{
    const struct hb_broker *b = station_broker(backend_harbinger_station(d->harbinger));
    mono_t now = loop_now();
    for (unsigned i = 0; i < d->conf.levels; i++) {
        snprintf(out[i].number, sizeof out[i].number, "%u", i);
        hb_broker_level_stats(b, i, now, &out[i].s);
    }
    return d->conf.levels;
}

/* ---- /status ---- */

static json_t *level_status(const struct hb_level_stats *s)
{
    return json_pack("{s:I, s:I, s:f, s:I, s:I, s:f, s:f, s:f}", "waiting", (json_int_t)s->waiting,
                     "promoted", (json_int_t)s->promoted, "oldest_wait_s",
                     (double)s->oldest_wait_ns / (double)MONO_S, "pulls", (json_int_t)s->pulls,
                     "promotions", (json_int_t)s->promotions, "clock_ms", s->clock_ms, "charged_ms",
                     s->charged_ms, "average_ms", s->average_ms);
}

static json_t *levels_status(const struct daemon *d)
{
    struct level levels[CONF_MAX_LEVELS];
    unsigned n = read_levels(d, levels);
    json_t *a = json_array();
    for (unsigned i = 0; i < n; i++)
        if (json_array_append_new(a, level_status(&levels[i].s)) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *parking_status(const struct daemon *d)
{
    struct backend_harbinger_stats s;
    backend_harbinger_stats(d->harbinger, &s);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "queue", d->conf.parked.queue, "parked",
                     (json_int_t)s.parking.parked, "parking_failed", (json_int_t)s.parking.failed,
                     "waiting", (json_int_t)s.parking.n_waiting, "stuck",
                     (json_int_t)s.parking.n_stuck, "expired", (json_int_t)s.expired);
}

static json_t *workers_status(const struct daemon *d)
{
    if (d->workers == NULL)
        return json_null();
    struct rpc_stats s = workers_stats(d->workers);
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I}", "address", workers_address(d->workers),
                     "connections", (int)s.connections, "streams", (int)s.streams, "waiting_pulls",
                     (int)s.parked_pulls, "work_streams", (int)s.work_streams, "calls_ok",
                     (json_int_t)s.calls[GRPC_OK], "paused", (json_int_t)s.paused);
}

json_t *face_broker_status(const struct daemon *d)
{
    struct hb_broker_stats s;
    if (d->harbinger == NULL)
        return json_null();
    hb_broker_stats(station_broker(backend_harbinger_station(d->harbinger)), &s);
    json_t *o =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
                  "waiting", (json_int_t)s.waiting, "held", (json_int_t)s.held, "in_flight",
                  (json_int_t)s.in_flight, "dead", (json_int_t)s.dead, "bytes", (json_int_t)s.bytes,
                  "dead_bytes", (json_int_t)s.dead_bytes, "submitted", (json_int_t)s.submitted,
                  "refused", (json_int_t)s.refused, "pulled", (json_int_t)s.pulled, "returned",
                  (json_int_t)s.returned, "levels", levels_status(d), "parking", parking_status(d),
                  "rpc", workers_status(d), "proxy", face_proxy_status(d));
    json_t *more = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "acked", (json_int_t)s.acked,
        "nacked", (json_int_t)s.nacked, "rejected", (json_int_t)s.rejected, "repeated",
        (json_int_t)s.repeated, "leases_expired", (json_int_t)s.leases_expired, "ttl_expired",
        (json_int_t)s.ttl_expired, "retried", (json_int_t)s.retried, "max_retries",
        (json_int_t)s.died[HB_DEAD_MAX_RETRIES], "dropped_dead", (json_int_t)s.dropped_dead,
        "learned", (json_int_t)s.learned, "censored", (json_int_t)s.censored);
    if (json_object_update(o, more) < 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(more);
    return o;
}

/* ---- /metrics ---- */

static void write_now(struct metrics *m, const struct hb_broker_stats *s, const struct daemon *d)
{
    face_gauge(m, "harbinger_broker_held",
               "Messages that wait and are held back: RabbitMQ has them, to deliver them again.",
               (double)s->held);
    face_gauge(m, "harbinger_broker_in_flight", "Messages at workers.", (double)s->in_flight);
    face_gauge(m, "harbinger_broker_dead", "Dead letters kept.", (double)s->dead);
    face_gauge(m, "harbinger_broker_max_dead", "Bound of harbinger_broker_dead.",
               (double)d->conf.broker.max_dead);
    face_gauge(m, "harbinger_broker_bytes",
               "Bytes of messages that clients have submitted, waiting and at workers.",
               (double)s->bytes);
    face_gauge(m, "harbinger_broker_max_bytes", "Bound of harbinger_broker_bytes, 0: none.",
               (double)d->conf.broker.max_bytes);
    face_gauge(m, "harbinger_broker_dead_bytes", "Bytes of the dead letters.",
               (double)s->dead_bytes);
    face_gauge(m, "harbinger_broker_max_messages", "Bound of the messages in the broker, 0: none.",
               (double)d->conf.broker.max_messages);
    face_gauge(m, "harbinger_broker_history", "Settlements remembered for their repetition.",
               (double)s->history);
}

static void write_counters(struct metrics *m, const struct hb_broker_stats *s)
{
    face_counter(m, "harbinger_broker_submitted_total", "Messages taken into the broker.",
                 s->submitted);
    face_counter(m, "harbinger_broker_refused_total", "Messages refused: a bound was reached.",
                 s->refused);
    face_counter(m, "harbinger_broker_pulled_total", "Deliveries to workers.", s->pulled);
    face_counter(m, "harbinger_broker_retried_total", "Messages that came to wait once more.",
                 s->retried);
    metrics_family(m, METRICS_COUNTER, "harbinger_broker_attempts_total",
                   "Attempts that have ended, by how.");
    face_labelled(m, "how", "ack", s->acked);
    face_labelled(m, "how", "nack", s->nacked);
    face_labelled(m, "how", "reject", s->rejected);
    face_labelled(m, "how", "lease_expired", s->leases_expired);
    face_labelled(m, "how", "returned", s->returned);
    face_counter(m, "harbinger_broker_repeated_total",
                 "Settlements that were told before and answered the same.", s->repeated);
    metrics_family(m, METRICS_COUNTER, "harbinger_broker_died_total",
                   "Messages that nobody handled, by why.");
    for (int r = 0; r < HB_N_DEAD_REASONS; r++)
        face_labelled(m, "reason", hb_dead_reason_name((enum hb_dead_reason)r), s->died[r]);
    metrics_family(m, METRICS_COUNTER, "harbinger_broker_dead_removed_total",
                   "Dead letters that are gone, by how.");
    face_labelled(m, "how", "dropped", s->dropped_dead);
    face_labelled(m, "how", "redriven", s->redriven);
    face_labelled(m, "how", "purged", s->purged);
}

static void write_levels(struct metrics *m, const struct daemon *d)
{
    struct level levels[CONF_MAX_LEVELS];
    unsigned n = read_levels(d, levels);
    metrics_family(m, METRICS_GAUGE, "harbinger_broker_waiting", "Messages that wait, by level.");
    for (unsigned i = 0; i < n; i++)
        face_labelled(m, "level", levels[i].number, levels[i].s.waiting);
    metrics_family(m, METRICS_GAUGE, "harbinger_broker_promoted",
                   "Messages that wait above their original level.");
    for (unsigned i = 0; i < n; i++)
        face_labelled(m, "level", levels[i].number, levels[i].s.promoted);
    metrics_family(m, METRICS_GAUGE, "harbinger_broker_oldest_wait_seconds",
                   "Since the arrival of the message that is next in its level.");
    for (unsigned i = 0; i < n; i++) {
        struct metrics_label l = {"level", levels[i].number};
        metrics_sample(m, &l, 1, (double)levels[i].s.oldest_wait_ns / (double)MONO_S);
    }
    metrics_family(m, METRICS_COUNTER, "harbinger_broker_level_pulls_total",
                   "Deliveries out of each level.");
    for (unsigned i = 0; i < n; i++)
        face_labelled(m, "level", levels[i].number, levels[i].s.pulls);
    metrics_family(m, METRICS_COUNTER, "harbinger_broker_promotions_total",
                   "Messages moved up out of each level.");
    for (unsigned i = 0; i < n; i++)
        face_labelled(m, "level", levels[i].number, levels[i].s.promotions);
    metrics_family(m, METRICS_GAUGE, "harbinger_broker_clock_seconds",
                   "Virtual clock of each level, with weights.");
    for (unsigned i = 0; i < n; i++) {
        struct metrics_label l = {"level", levels[i].number};
        metrics_sample(m, &l, 1, levels[i].s.clock_ms / 1000);
    }
}

static void write_workers(struct metrics *m, const struct daemon *d)
{
    struct rpc_stats s = workers_stats(d->workers);
    face_counter(m, "harbinger_rpc_accepted_total", "Connections accepted.", s.accepted);
    face_gauge(m, "harbinger_rpc_connections", "Connections now.", s.connections);
    face_gauge(m, "harbinger_rpc_max_connections", "Bound of harbinger_rpc_connections.",
               d->conf.rpc.max_connections);
    face_gauge(m, "harbinger_rpc_streams", "Calls under way.", s.streams);
    face_gauge(m, "harbinger_rpc_waiting_pulls", "Pulls that wait for a message.", s.parked_pulls);
    face_gauge(m, "harbinger_rpc_work_streams", "Workers that get messages over a stream.",
               s.work_streams);
    face_counter(m, "harbinger_rpc_paused_total",
                 "Times that a connection was not read because of its bytes.", s.paused);
    metrics_family(m, METRICS_COUNTER, "harbinger_rpc_calls_total",
                   "Calls that have ended, by gRPC status.");
    for (unsigned status = 0; status < ARRAY_SIZE(s.calls); status++)
        face_labelled(m, "status", grpc_status_name(status), s.calls[status]);
}

static void write_parking(struct metrics *m, const struct daemon *d)
{
    struct backend_harbinger_stats s;
    backend_harbinger_stats(d->harbinger, &s);
    face_counter(m, "harbinger_parked_total", "Messages parked because nobody could handle them.",
                 s.parking.parked);
    face_counter(m, "harbinger_parking_failed_total", "Times that a message could not be parked.",
                 s.parking.failed);
    face_gauge(m, "harbinger_stuck", "Messages that could not be parked and stay in the window.",
               (double)s.parking.n_stuck);
    face_gauge(m, "harbinger_parking_waiting", "Messages on their way to the parked queue.",
               (double)s.parking.n_waiting);
    face_counter(m, "harbinger_broker_expired_total",
                 "Messages whose own expiration passed while they waited or were handled.",
                 s.expired);
}

void face_broker_metrics(struct metrics *m, const struct daemon *d)
{
    struct hb_broker_stats s;
    hb_broker_stats(station_broker(backend_harbinger_station(d->harbinger)), &s);
    write_levels(m, d);
    write_now(m, &s, d);
    write_counters(m, &s);
    write_parking(m, d);
    if (d->workers != NULL)
        write_workers(m, d);
    if (d->amqp_workers != NULL)
        face_proxy_metrics(m, d);
}
