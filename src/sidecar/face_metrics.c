#include "http/metrics.h"
#include "sidecar/daemon_internal.h"
#include "sidecar/face_broker.h"
#include "sidecar/face_metric.h"
#include "sidecar/face_text.h"
#include "sidecar/loop.h"

#include <stdio.h>
#include <sys/resource.h>

static void write_links(struct metrics *m, const struct daemon *d)
{
    struct link *const links[] = {d->consume, d->publish};
    metrics_family(m, METRICS_GAUGE, "harbinger_link_up",
                   "1 while the connection to RabbitMQ is up.");
    for (size_t i = 0; i < ARRAY_SIZE(links); i++)
        face_labelled(m, "link", link_name(links[i]), link_is_up(links[i]));
    metrics_family(m, METRICS_GAUGE, "harbinger_link_blocked",
                   "1 while RabbitMQ blocks the connection.");
    for (size_t i = 0; i < ARRAY_SIZE(links); i++)
        face_labelled(m, "link", link_name(links[i]), link_is_blocked(links[i]));
    metrics_family(m, METRICS_COUNTER, "harbinger_link_losses_total",
                   "Times the connection was lost.");
    for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
        struct link_stats s;
        link_stats(links[i], &s);
        face_labelled(m, "link", link_name(links[i]), s.n_losses);
    }
}

static void write_intake(struct metrics *m, const struct daemon *d)
{
    static const struct intake_stats none;
    const struct intake_stats *s = d->intake != NULL ? intake_stats(d->intake) : &none;
    face_counter(m, "harbinger_intake_received_total", "Deliveries from the intake queue.",
                 s->received);
    face_counter(m, "harbinger_intake_redelivered_total",
                 "Deliveries that RabbitMQ had delivered before.", s->redelivered);
    metrics_family(m, METRICS_COUNTER, "harbinger_intake_settled_total",
                   "Deliveries settled, by how.");
    face_labelled(m, "how", "ack", s->acked);
    face_labelled(m, "how", "discard", s->discarded);
    face_labelled(m, "how", "requeue", s->requeued);
    face_labelled(m, "how", "stale", s->stale);
    face_counter(m, "harbinger_intake_overflow_total",
                 "Deliveries requeued because window_bytes were held.", s->overflow);
    face_counter(m, "harbinger_intake_expired_total",
                 "Messages whose own expiration passed while they waited here.", s->expired);
    face_counter(m, "harbinger_intake_renewed_total",
                 "Deliveries given back before the delivery timeout, to be taken again.",
                 s->renewed);
    face_counter(m, "harbinger_intake_recognised_total",
                 "Deliveries that came again and were still held here.", s->recognised);
    face_counter(m, "harbinger_intake_withdrawn_total",
                 "Messages given up since they did not come again.", s->withdrawn);
    face_gauge(m, "harbinger_intake_unbacked",
               "Messages that RabbitMQ is to deliver again, those settled meanwhile included.",
               (double)s->unbacked);
    face_gauge(m, "harbinger_intake_channels", "Channels that the intake is to consume on.",
               conf_intake_channels(&d->conf));
    face_gauge(m, "harbinger_intake_channels_up", "Channels that consume now.",
               d->intake != NULL ? intake_channels_up(d->intake) : 0);
    face_gauge(m, "harbinger_intake_prefetch",
               "Prefetch now: lowered while large messages fill window_bytes.", s->prefetch);
    face_gauge(m, "harbinger_intake_limit",
               "Bound of harbinger_intake_prefetch by what the workers can have; 0: it sleeps.",
               d->intake != NULL ? intake_limit_now(d->intake) : 0);
    face_gauge(m, "harbinger_intake_held", "Messages held and not yet settled.", (double)s->held);
    face_gauge(m, "harbinger_intake_held_bytes", "Bytes of these messages.", (double)s->held_bytes);
    face_gauge(m, "harbinger_intake_window", "Bound of harbinger_intake_held.",
               conf_intake_window(&d->conf));
    face_gauge(m, "harbinger_intake_window_bytes", "Bound of harbinger_intake_held_bytes.",
               (double)d->conf.intake.window_bytes);
}

static void write_backend(struct metrics *m, const struct daemon *d)
{
    struct backend_rabbitmq_stats s;
    backend_rabbitmq_stats(d->rabbitmq, &s);
    face_counter(m, "harbinger_work_published_total",
                 "Messages sent to the work queue or exchange, repeats included.", s.published);
    face_counter(m, "harbinger_work_confirmed_total", "Messages that RabbitMQ confirmed.",
                 s.confirmed);
    metrics_family(m, METRICS_COUNTER, "harbinger_work_failed_total",
                   "Publishes that failed, by how.");
    face_labelled(m, "how", "returned", s.returned);
    face_labelled(m, "how", "nacked", s.nacked);
    face_labelled(m, "how", "lost", s.lost);
    face_counter(m, "harbinger_work_pauses_total",
                 "Times forwarding was paused since the destination failed.", s.pauses);
    face_gauge(m, "harbinger_work_paused", "1 while forwarding is paused.",
               backend_rabbitmq_reason(d->rabbitmq)[0] != '\0');
    face_counter(m, "harbinger_parked_total", "Messages parked because RabbitMQ refuses them.",
                 s.parked);
    face_counter(m, "harbinger_parking_failed_total", "Times that a message could not be parked.",
                 s.parking_failed);
    face_gauge(m, "harbinger_stuck", "Messages that could not be parked and stay in the window.",
               (double)s.n_stuck);
    face_counter(m, "harbinger_without_headers_total",
                 "Messages sent without x-harbinger headers: no room.", s.without_headers);
    face_counter(m, "harbinger_work_expired_total",
                 "Messages whose own expiration passed while they waited to be sent again.",
                 s.expired);
    face_gauge(m, "harbinger_work_unconfirmed", "Messages sent and not yet confirmed.",
               s.unconfirmed);
    face_gauge(m, "harbinger_work_resend", "Messages that wait to be sent again.",
               (double)(s.n_resend + s.n_suspects));
}

static void write_flow(struct metrics *m, const struct daemon *d)
{
    const struct flow_stats *s = flow_stats(d->flow);
    metrics_family(m, METRICS_COUNTER, "harbinger_jobs_total", "Messages forwarded, by level.");
    for (unsigned level = 0; level < d->conf.levels; level++) {
        char text[12];
        snprintf(text, sizeof text, "%u", level);
        face_labelled(m, "level", text, s->by_level[level]);
    }
    face_counter(m, "harbinger_jobs_kept_priority_total",
                 "Messages whose producer's own priority stood.", s->kept_priority);
    metrics_family(m, METRICS_COUNTER, "harbinger_reports_total",
                   "Ack reports, by what became of them.");
    for (int r = 0; r < FLOW_N_RESULTS; r++)
        face_labelled(m, "result", flow_report_result_name((enum flow_report_result)r),
                      s->reports[r]);
    face_counter(m, "harbinger_reports_no_id_total", "Reports learned without an id.", s->no_id);
    face_gauge(m, "harbinger_remembered_ids", "Ids remembered to tell repeated reports.",
               (double)s->remembered_ids);
    face_gauge(m, "harbinger_topology_problem",
               "1 while RabbitMQ has something else than the configuration says.",
               d->topology_problem[0] != '\0');
    face_gauge(m, "harbinger_useless_no_reports", "1 when messages flow and no worker reports.",
               d->advice.no_reports);
    face_gauge(m, "harbinger_useless_one_key", "1 when all messages have the same key.",
               d->advice.one_key);
}

static void write_predictor(struct metrics *m, const struct daemon *d)
{
    struct hb_predictor_stats s;
    hb_predictor_stats(flow_predictor(d->flow), &s);
    metrics_family(m, METRICS_COUNTER, "harbinger_predictions_total", "Lookups, by outcome.");
    for (int r = 0; r < HB_N_REASONS; r++)
        face_labelled(m, "reason", hb_reason_name((enum hb_reason)r), s.outcomes[r]);
    face_counter(m, "harbinger_parent_fallbacks_total",
                 "Predictions taken from the key without its size.", s.parent_fallbacks);
    face_counter(m, "harbinger_learned_total", "Durations learned.", s.observations);
    face_counter(m, "harbinger_saturated_total", "Durations above predictor.max.", s.saturated);
    face_counter(m, "harbinger_censored_total", "Marks for jobs that gave no duration.",
                 s.censored);
    face_counter(m, "harbinger_boundary_publications_total", "Times the level boundaries moved.",
                 s.publications);
    face_counter(m, "harbinger_evictions_total", "Keys given up for newcomers.", s.evictions);
    face_counter(m, "harbinger_key_overflow_total", "Newcomers that found the key table full.",
                 s.overflow);
    face_counter(m, "harbinger_drift_alerts_total", "Times the rolling agreement fell below 0.5.",
                 s.drift_alerts);
    face_gauge(m, "harbinger_drift_alert", "1 while the predictions do not fit the durations.",
               s.drift_alert);
    face_gauge(m, "harbinger_agreement", "Share of right levels among the latest scored messages.",
               s.agreement);
    face_gauge(m, "harbinger_abs_log2_error", "Running average of |log2(estimate / duration)|.",
               s.abs_log2_error);
    face_gauge(m, "harbinger_keys", "Keys in the table.", s.keys);
    face_gauge(m, "harbinger_max_keys", "Bound of harbinger_keys.", s.max_keys);
    face_gauge(m, "harbinger_predictor_memory_bytes", "Memory of the predictor.",
               (double)s.memory_bytes);

    size_t n;
    const double *boundary = hb_predictor_boundaries(flow_predictor(d->flow), &n);
    metrics_family(m, METRICS_GAUGE, "harbinger_boundary_seconds",
                   "Where each level but the first begins.");
    for (size_t i = 0; i < n; i++) {
        char text[24];
        snprintf(text, sizeof text, "%zu", i + 1);
        struct metrics_label l = {"level", text};
        metrics_sample(m, &l, 1, boundary[i] / 1000);
    }
}

static void write_process(struct metrics *m, const struct daemon *d)
{
    struct rusage u;
    struct snapshots_stats snapshots;
    snapshots_stats(d->snapshots, &snapshots);
    face_counter(m, "harbinger_snapshot_saves_total", "Snapshots written.", snapshots.saves);
    face_counter(m, "harbinger_snapshot_failures_total", "Snapshots that could not be written.",
                 snapshots.failures);
    face_counter(m, "harbinger_journal_lost_total",
                 "Lines of the journal that could not be written.", journal_lost(d->journal));
    face_counter(m, "harbinger_reloads_total", "Configurations taken over by SIGHUP.", d->reloads);
    face_counter(m, "harbinger_failed_reloads_total", "Configurations refused.", d->failed_reloads);
    face_counter(m, "harbinger_log_dropped_total", "Log lines dropped: too many, or nobody read.",
                 d->log.n_dropped);
    face_gauge(m, "harbinger_uptime_seconds", "Since the start.",
               (double)(loop_now() - d->started_at) / (double)MONO_S);
    getrusage(RUSAGE_SELF, &u);
    metrics_family(m, METRICS_COUNTER, "process_cpu_seconds_total", "User and system CPU time.");
    metrics_sample(m, NULL, 0,
                   (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
}

int face_metrics(const struct daemon *d, struct buf *out)
{
    struct metrics m;
    metrics_init(&m, out);
    write_links(&m, d);
    write_intake(&m, d);
    if (d->rabbitmq != NULL)
        write_backend(&m, d);
    if (d->harbinger != NULL)
        face_broker_metrics(&m, d);
    write_flow(&m, d);
    write_predictor(&m, d);
    write_process(&m, d);
    return metrics_end(&m);
}
