#include "sidecar/daemon_internal.h"
#include "sidecar/face_broker.h"
#include "sidecar/face_text.h"
#include "sidecar/loop.h"

#include <harbinger/version.h>

#include <jansson.h>
#include <stdlib.h>

/* jansson reports a failed allocation by NULL, which json_pack and json_object_set_new take and
 * fail on: so only the end result needs a look. */

static json_t *link_status(const struct link *l)
{
    struct link_stats s;
    link_stats(l, &s);
    return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I}", "state", link_state_name(l), "peer",
                     link_peer(l), "blocked", link_is_blocked(l), "losses", (json_int_t)s.n_losses,
                     "bytes_in", (json_int_t)s.bytes_in, "bytes_out", (json_int_t)s.bytes_out);
}

static json_t *intake_status(const struct daemon *d)
{
    if (d->intake == NULL)
        return json_pack("{s:s, s:s}", "queue", d->conf.intake.queue, "state", "not started");
    const struct intake_stats *s = intake_stats(d->intake);
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "queue",
        d->conf.intake.queue, "state", intake_state_name(d->intake), "limit",
        (json_int_t)intake_limit_now(d->intake), "channels",
        (json_int_t)conf_intake_channels(&d->conf), "channels_up",
        (json_int_t)intake_channels_up(d->intake), "received", (json_int_t)s->received,
        "redelivered", (json_int_t)s->redelivered, "acked", (json_int_t)s->acked, "stale",
        (json_int_t)s->stale, "held", (json_int_t)s->held, "held_bytes", (json_int_t)s->held_bytes,
        "waiting", (json_int_t)s->waiting, "unbacked", (json_int_t)s->unbacked, "renewed",
        (json_int_t)s->renewed, "recognised", (json_int_t)s->recognised, "withdrawn",
        (json_int_t)s->withdrawn);
}

static json_t *work_status(const struct daemon *d)
{
    if (d->rabbitmq == NULL)
        return json_null();
    struct backend_rabbitmq_stats s;
    backend_rabbitmq_stats(d->rabbitmq, &s);
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "queue", d->conf.work.queue, "state",
        backend_rabbitmq_state(d->rabbitmq), "reason", backend_rabbitmq_reason(d->rabbitmq),
        "published", (json_int_t)s.published, "confirmed", (json_int_t)s.confirmed, "returned",
        (json_int_t)s.returned, "nacked", (json_int_t)s.nacked, "lost", (json_int_t)s.lost);
    json_t *more =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "unconfirmed",
                  (json_int_t)s.unconfirmed, "resend", (json_int_t)s.n_resend, "suspects",
                  (json_int_t)s.n_suspects, "parked", (json_int_t)s.parked, "parking_failed",
                  (json_int_t)s.parking_failed, "stuck", (json_int_t)s.n_stuck, "without_headers",
                  (json_int_t)s.without_headers, "expired", (json_int_t)s.expired);
    if (json_object_update(o, more) < 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(more);
    return o;
}

static json_t *reports_status(const struct daemon *d)
{
    const struct flow_stats *s = flow_stats(d->flow);
    json_t *o =
        json_pack("{s:s, s:b, s:I, s:I, s:I}", "queue", d->conf.reports.queue, "consuming",
                  d->reports != NULL && reports_is_up(d->reports), "messages",
                  (json_int_t)(d->reports != NULL ? reports_received(d->reports) : 0), "no_id",
                  (json_int_t)s->no_id, "remembered_ids", (json_int_t)s->remembered_ids);
    for (int r = 0; r < FLOW_N_RESULTS; r++)
        if (json_object_set_new(o, flow_report_result_name((enum flow_report_result)r),
                                json_integer((json_int_t)s->reports[r])) < 0) {
            json_decref(o);
            return NULL;
        }
    return o;
}

static json_t *reasons(const struct hb_predictor_stats *s)
{
    json_t *o = json_object();
    for (int r = 0; r < HB_N_REASONS; r++)
        if (json_object_set_new(o, hb_reason_name((enum hb_reason)r),
                                json_integer((json_int_t)s->outcomes[r])) < 0) {
            json_decref(o);
            return NULL;
        }
    return o;
}

static json_t *numbers(const double *v, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(a, json_real(v[i])) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *levels(const struct daemon *d)
{
    json_t *a = json_array();
    for (unsigned level = 0; level < d->conf.levels; level++)
        if (json_array_append_new(
                a, json_integer((json_int_t)flow_stats(d->flow)->by_level[level])) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *predictor_status(const struct daemon *d)
{
    struct hb_predictor_stats s;
    struct snapshots_stats snapshots;
    size_t n;
    hb_predictor_stats(flow_predictor(d->flow), &s);
    snapshots_stats(d->snapshots, &snapshots);
    const double *boundary = hb_predictor_boundaries(flow_predictor(d->flow), &n);
    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:f, s:f, s:b, s:s, s:I, s:I}", "keys",
                     (json_int_t)s.keys, "max_keys", (json_int_t)s.max_keys, "learned",
                     (json_int_t)s.observations, "outcomes", reasons(&s), "boundaries_ms",
                     numbers(boundary, n), "agreement", s.agreement, "abs_log2_error",
                     s.abs_log2_error, "drift_alert", s.drift_alert, "snapshot",
                     snapshots_path(d->snapshots), "snapshot_saves", (json_int_t)snapshots.saves,
                     "snapshot_failures", (json_int_t)snapshots.failures);
}

static json_t *advice(const struct daemon *d)
{
    json_t *a = json_array();
    if (d->advice.no_reports)
        json_array_append_new(
            a, json_string(
                   "no worker reports durations: publish ack reports to the reports exchange"));
    if (d->topology_problem[0] != '\0')
        json_array_append_new(a, json_string(d->topology_problem));
    if (d->advice.one_key)
        json_array_append_new(
            a, json_string(
                   "all messages have the same key: set key.label to what tells job types apart"));
    return a;
}

static json_t *reload_status(const struct daemon *d)
{
    return json_pack("{s:I, s:I, s:s, s:s}", "taken", (json_int_t)d->reloads, "refused",
                     (json_int_t)d->failed_reloads, "error", d->reload_error, "waits_for_restart",
                     d->restart_keys.n > 0 ? d->restart_keys.p : "");
}

static const char *backend_name(const struct daemon *d)
{
    return d->harbinger != NULL ? "harbinger" : "rabbitmq";
}

static json_t *status(const struct daemon *d)
{
    static const char *const modes[] = {[CONF_MODE_STATIC] = "static",
                                        [CONF_MODE_SHADOW] = "shadow",
                                        [CONF_MODE_PREDICTIVE] = "predictive"};
    const char *obstacle = daemon_obstacle(d);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:f, s:{s:o, s:o}, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o}",
        "version", HARBINGER_VERSION, "instance", d->instance, "backend", backend_name(d), "mode",
        modes[d->conf.mode], "state", sm_name(&d->sm), "ready", obstacle[0] == '\0', "obstacle",
        obstacle, "uptime_s", (double)(loop_now() - d->started_at) / (double)MONO_S, "links",
        "consume", link_status(d->consume), "publish", link_status(d->publish), "intake",
        intake_status(d), "work", work_status(d), "broker", face_broker_status(d), "reports",
        reports_status(d), "predictor", predictor_status(d), "levels", levels(d), "advice",
        advice(d), "reload", reload_status(d));
}

int face_status(const struct daemon *d, struct buf *out)
{
    json_t *o = status(d);
    char *text = o != NULL ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    int r = text != NULL ? buf_printf(out, "%s\n", text) : ERR_NOMEM;
    free(text);
    json_decref(o);
    return r;
}
