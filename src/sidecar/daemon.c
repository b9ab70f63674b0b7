#include "sidecar/daemon.h"

#include "sidecar/daemon_internal.h"
#include "sidecar/face.h"
#include "sidecar/loop.h"
#include "sidecar/rules.h"
#include "sidecar/sd.h"

#include <harbinger/version.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TICK       (1 * MONO_S)
#define HEAL_EVERY (5 * MONO_S)

/* Some senders signal a process and its group in one go: that is one order to stop, not two. */
#define SAME_SIGNAL (100 * MONO_MS)

static const struct sm_state states[] = {
    [DAEMON_STARTING] = {"starting", SM_TO(DAEMON_RUNNING) | SM_TO(DAEMON_CLOSING)},
    [DAEMON_RUNNING] = {"running", SM_TO(DAEMON_DRAINING)},
    [DAEMON_DRAINING] = {"draining", SM_TO(DAEMON_CLOSING) | SM_TO(DAEMON_STOPPED)},
    [DAEMON_CLOSING] = {"closing", SM_TO(DAEMON_STOPPED)},
    [DAEMON_STOPPED] = {"stopped", 0},
};

static const struct log_sink *log_of(struct daemon *d)
{
    return &d->log.sink;
}

/* ---- stopping ---- */

static void start_closing(struct daemon *d)
{
    sm_move(&d->sm, DAEMON_CLOSING);
    if (d->workers != NULL)
        workers_shut(d->workers);
    if (d->amqp_workers != NULL)
        amqp_workers_shut(d->amqp_workers);
    snapshots_save(d->snapshots);
    link_stop(d->publish);
    link_stop(d->consume);
}

void daemon_link_stopped(struct daemon *d)
{
    if (d->sm.state == DAEMON_CLOSING && link_is_stopped(d->consume) &&
        link_is_stopped(d->publish)) {
        sm_move(&d->sm, DAEMON_STOPPED);
        event_base_loopbreak(d->base);
    }
}

static void start_draining(struct daemon *d, const char *why)
{
    sd_notify_state("STOPPING=1");
    log_event(log_of(d), LOG_INFO, "stopping", "reason=%s held=%zu", why,
              d->intake != NULL ? intake_stats(d->intake)->held : 0);
    struct timeval limit = loop_timeval(d->conf.shutdown.timeout);
    event_add(d->deadline, &limit);
    if (d->sm.state == DAEMON_STARTING) {
        start_closing(d);
        return;
    }
    sm_move(&d->sm, DAEMON_DRAINING);
    if (d->amqp_workers != NULL)
        amqp_workers_shut(d->amqp_workers);
    if (d->harbinger != NULL)
        backend_harbinger_drain(d->harbinger);
    else
        backend_rabbitmq_drain(d->rabbitmq);
    intake_drain(d->intake);
}

/* Idle is told from deep inside a settlement: closing waits for the end of the turn, when the acks
 * are written. */
static void on_idle(void *ctx)
{
    struct daemon *d = ctx;
    event_active(d->idle, EV_TIMEOUT, 0);
}

static void on_idle_turn(evutil_socket_t fd, short what, void *ctx)
{
    struct daemon *d = ctx;
    if (d->sm.state == DAEMON_DRAINING)
        start_closing(d);
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    struct daemon *d = ctx;
    log_event(log_of(d), LOG_WARN, "stopping.late", "held=%zu reason=" LOG_Q,
              d->intake != NULL ? intake_stats(d->intake)->held : 0,
              "shutdown.timeout passed; RabbitMQ delivers these again");
    if (d->sm.state == DAEMON_DRAINING)
        snapshots_save(d->snapshots);
    sm_move(&d->sm, DAEMON_STOPPED);
    event_base_loopbreak(d->base);
}

static void on_stop_signal(evutil_socket_t signal, short what, void *ctx)
{
    struct daemon *d = ctx;
    if (d->sm.state == DAEMON_STARTING || d->sm.state == DAEMON_RUNNING) {
        d->stop_told_at = loop_now();
        start_draining(d, signal == SIGTERM ? "SIGTERM" : "SIGINT");
        return;
    }
    if (loop_now() - d->stop_told_at < SAME_SIGNAL)
        return;
    log_event(log_of(d), LOG_WARN, "stopped.at_once", "reason=" LOG_Q, "second signal");
    _exit(EXIT_FAILURE);
}

static void on_hangup_signal(evutil_socket_t signal, short what, void *ctx)
{
    daemon_reload(ctx);
}

void daemon_fail(struct daemon *d, int code)
{
    d->result = code;
    event_base_loopbreak(d->base);
}

/* ---- starting ---- */

static void on_room(void *ctx)
{
    struct daemon *d = ctx;
    if (d->intake != NULL)
        intake_pump(d->intake);
}

static void on_intake_lost(void *ctx)
{
    struct daemon *d = ctx;
    backend_rabbitmq_drop_stale(d->rabbitmq);
}

static int submit(void *ctx, struct held *h, const struct job *job, mono_t now)
{
    struct daemon *d = ctx;
    return flow_submit(d->flow, backend_rabbitmq_port(d->rabbitmq), h, job, now);
}

static int start_intake(struct daemon *d)
{
    struct intake_sink rabbitmq = {.submit = submit, .ctx = d};
    struct intake_options o = {
        .queue = d->conf.intake.queue,
        .channels = conf_intake_channels(&d->conf),
        .window = (uint16_t)d->conf.intake.window,
        .window_bytes = d->conf.intake.window_bytes,
        .sink = d->harbinger != NULL ? backend_harbinger_sink(d->harbinger) : rabbitmq,
        .on_lost = on_intake_lost,
        .on_idle = on_idle,
        .ctx = d,
    };
    return intake_new(d->consume, &o, &d->intake);
}

/* RabbitMQ's limit holds for classic and quorum queues, and a quorum queue counts what is given back
 * against its delivery limit. Where the type is not known the safe side is to renew nothing: then the
 * channel is closed, and everything comes again and is recognised. */
void daemon_intake_is(struct daemon *d, enum topology_queue_type type)
{
    bool renewed = d->harbinger != NULL && type == TOPOLOGY_CLASSIC;
    mono_t age = renewed ? d->conf.intake.delivery_timeout / 3 : 0;
    if (d->intake == NULL || d->harbinger == NULL || age == d->renew_after)
        return;
    d->renew_after = age;
    intake_renew_after(d->intake, age);
    log_event(log_of(d), LOG_INFO, "intake.renewal", "queue=" LOG_Q " after_s=%.1f",
              d->conf.intake.queue, (double)age / (double)MONO_S);
}

/* Messages at workers, and those that they would take now. */
/* What is at workers, and what they would take now. A worker between two messages shows as neither, and
 * counts as long as no other does. */
static uint64_t slots_of(const struct daemon *d)
{
    struct hb_broker_stats s;
    hb_broker_stats(station_broker(backend_harbinger_station(d->harbinger)), &s);
    uint64_t slots = s.in_flight;
    bool asked = false;
    if (d->workers != NULL)
        slots += workers_slots(d->workers, &asked);
    if (d->amqp_workers != NULL)
        slots += amqp_workers_slots(d->amqp_workers, &asked);
    return slots > 0 ? slots : asked;
}

static void size_intake(struct daemon *d)
{
    if (d->harbinger == NULL || d->intake == NULL || d->sm.state != DAEMON_RUNNING)
        return;
    uint32_t before = intake_limit_now(d->intake);
    struct demand demand = {
        .slots = slots_of(d),
        .window = conf_intake_window(&d->conf),
        .limit = before,
        .awaiting = intake_stats(d->intake)->unbacked > 0,
        .worked_at = d->worked_at,
        .per_worker = d->conf.intake.per_worker,
        .idle_after = d->conf.intake.idle_after,
    };
    uint32_t limit = demand_limit(&demand, loop_now());
    d->worked_at = demand.worked_at;
    intake_limit(d->intake, limit);
    if (before > 0 && limit == 0) {
        backend_harbinger_give_back(d->harbinger);
        log_event(log_of(d), LOG_INFO, "intake.sleeps", "queue=" LOG_Q " reason=" LOG_Q,
                  d->conf.intake.queue, "no workers");
    } else if (before == 0 && limit > 0) {
        log_event(log_of(d), LOG_INFO, "intake.wakes", "queue=" LOG_Q " limit=%u",
                  d->conf.intake.queue, intake_limit_now(d->intake));
    }
}

static void on_used(void *ctx)
{
    struct daemon *d = ctx;
    if (d->intake != NULL && intake_limit_now(d->intake) == 0)
        size_intake(d);
}

int daemon_start_running(struct daemon *d)
{
    int r = start_intake(d);
    if (r == 0)
        r = reports_new(d->consume, log_of(d), d->conf.reports.queue, d->flow, &d->reports);
    if (r < 0)
        return r;
    sm_move(&d->sm, DAEMON_RUNNING);
    size_intake(d);
    if (d->held_off)
        intake_drain(d->intake);
    log_event(log_of(d), LOG_INFO, "ready", "instance=" LOG_Q " intake=" LOG_Q " work=" LOG_Q,
              d->instance, d->conf.intake.queue, d->harbinger != NULL ? "" : d->conf.work.queue);
    sd_notify_state("READY=1");
    return 0;
}

/* ---- once a second ---- */

/* Something is missing at RabbitMQ: under `declare` it is made again, but not in a race with
 * whoever deletes it. */
static bool backend_in_trouble(const struct daemon *d)
{
    if (d->harbinger != NULL) {
        struct backend_harbinger_stats s;
        backend_harbinger_stats(d->harbinger, &s);
        return s.parking.n_stuck > 0;
    }
    struct backend_rabbitmq_stats s;
    backend_rabbitmq_stats(d->rabbitmq, &s);
    return s.n_stuck > 0 || backend_rabbitmq_reason(d->rabbitmq)[0] != '\0';
}

static void heal(struct daemon *d)
{
    bool in_trouble =
        !intake_is_up(d->intake) || !reports_is_up(d->reports) || backend_in_trouble(d);
    if (in_trouble && link_is_up(d->consume) && d->topology == NULL &&
        loop_now() - d->asked_at >= HEAL_EVERY)
        daemon_ask_topology(d);
}

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
    struct daemon *d = ctx;
    if (d->sm.state == DAEMON_RUNNING) {
        intake_pump(d->intake);
        size_intake(d);
        heal(d);
    }
    if (sd_watchdog_for() > 0)
        sd_notify_state("WATCHDOG=1");
    if (!flow_advise(d->flow, loop_now(), &d->advice))
        return;
    if (d->advice.no_reports)
        log_event(
            log_of(d), LOG_WARN, "useless.no_reports", "exchange=" LOG_Q " fix=" LOG_Q,
            d->conf.reports.exchange,
            "messages flow but no worker reports durations: publish ack reports to this exchange");
    if (d->advice.one_key)
        log_event(log_of(d), LOG_WARN, "useless.one_key", "fix=" LOG_Q,
                  "all messages have the same key: set key.label to what tells job types apart");
}

/* ---- life ---- */

const char *daemon_obstacle(const struct daemon *d)
{
    for (int i = 0; i < N_LINKS; i++)
        if (d->lost[i][0] != '\0')
            return d->lost[i];
    if (d->sm.state != DAEMON_RUNNING)
        return sm_name(&d->sm);
    if (!link_is_up(d->publish))
        return "the publishing connection is not up yet";
    if (link_is_blocked(d->publish))
        return "RabbitMQ has blocked publishing (memory or disk alarm)";
    if (!intake_is_up(d->intake))
        return "the intake queue is not consumed";
    return d->rabbitmq != NULL ? backend_rabbitmq_reason(d->rabbitmq) : "";
}

static int make_events(struct daemon *d)
{
    static const int numbers[N_SIGNALS] = {
        [ON_TERM] = SIGTERM, [ON_INT] = SIGINT, [ON_HUP] = SIGHUP};
    for (int i = 0; i < N_SIGNALS; i++) {
        d->signals[i] =
            evsignal_new(d->base, numbers[i], i == ON_HUP ? on_hangup_signal : on_stop_signal, d);
        if (d->signals[i] == NULL || event_add(d->signals[i], NULL) < 0)
            return ERR_NOMEM;
    }
    struct timeval second = loop_timeval(TICK);
    d->tick = event_new(d->base, -1, EV_PERSIST, on_tick, d);
    d->idle = event_new(d->base, -1, 0, on_idle_turn, d);
    d->deadline = evtimer_new(d->base, on_deadline, d);
    if (d->tick == NULL || d->idle == NULL || d->deadline == NULL ||
        event_add(d->tick, &second) < 0)
        return ERR_NOMEM;
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

static void name_instance(struct daemon *d)
{
    if (d->conf.instance[0] != '\0')
        snprintf(d->instance, sizeof d->instance, "%s", d->conf.instance);
    else if (gethostname(d->instance, sizeof d->instance - 1) != 0 || d->instance[0] == '\0')
        snprintf(d->instance, sizeof d->instance, "harbinger");
}

static void on_available(void *ctx)
{
    struct daemon *d = ctx;
    if (d->workers != NULL)
        workers_pump(d->workers);
    if (d->amqp_workers != NULL)
        amqp_workers_pump(d->amqp_workers);
}

/* An operator's Drain: what is held is still delivered and settled. */
static void hold_off(void *ctx)
{
    struct daemon *d = ctx;
    if (d->held_off)
        return;
    d->held_off = true;
    log_event(log_of(d), LOG_INFO, "rpc.drain", "effect=" LOG_Q,
              "nothing new is taken in until the next start");
    if (d->intake != NULL)
        intake_drain(d->intake);
}

static bool takes_nothing(void *ctx)
{
    const struct daemon *d = ctx;
    return d->held_off || d->sm.state > DAEMON_RUNNING;
}

static size_t amqp_clients(void *ctx, size_t limit,
                           void (*each)(void *each_ctx, const struct rpc_amqp_client *c),
                           void *each_ctx)
{
    const struct daemon *d = ctx;
    return d->amqp_workers != NULL ? amqp_workers_tell(d->amqp_workers, limit, each, each_ctx) : 0;
}

static int make_workers(struct daemon *d, struct err *err)
{
    struct workers_options o = {
        .conf = &d->conf,
        .log = log_of(d),
        .backend = d->harbinger,
        .drain = hold_off,
        .draining = takes_nothing,
        .amqp_clients = amqp_clients,
        .ctx = d,
    };
    return workers_new(d->base, &o, &d->workers, err);
}

static bool is_stopping(void *ctx)
{
    const struct daemon *d = ctx;
    return d->sm.state > DAEMON_RUNNING;
}

static int make_amqp_workers(struct daemon *d, struct err *err)
{
    struct amqp_workers_options o = {
        .conf = &d->conf,
        .log = log_of(d),
        .backend = d->harbinger,
        .flow = d->flow,
        .stopping = is_stopping,
        .ctx = d,
    };
    return amqp_workers_new(d->base, &o, &d->amqp_workers, err);
}

static int make_backend(struct daemon *d, struct err *err)
{
    if (d->conf.backend == CONF_BACKEND_HARBINGER) {
        struct backend_harbinger_options o = {.conf = &d->conf,
                                              .flow = d->flow,
                                              .on_room = on_room,
                                              .available = on_available,
                                              .used = on_used,
                                              .ctx = d};
        int r = backend_harbinger_new(d->publish, log_of(d), &o, &d->harbinger, err);
        if (r == 0 && d->conf.rpc.listen[0] != '\0')
            r = make_workers(d, err);
        if (r == 0 && d->conf.proxy.listen[0] != '\0')
            r = make_amqp_workers(d, err);
        return r;
    }
    struct backend_rabbitmq_options o = {.conf = &d->conf, .on_room = on_room, .ctx = d};
    int r = backend_rabbitmq_new(d->publish, log_of(d), &o, &d->rabbitmq);
    return r < 0 ? err_set(err, r, "publisher: %s", err_name(r)) : 0;
}

static int make_parts(struct daemon *d, struct err *err)
{
    struct flow_options flow;
    rules_flow_options(&d->conf, &flow);
    if (d->conf.journal.path[0] != '\0' &&
        journal_new(d->base, d->conf.journal.path, log_of(d), &d->journal, err) < 0)
        return err->code;
    flow.witness = journal_witness(d->journal);
    d->flow = flow_new(&flow, err);
    if (d->flow == NULL)
        return err->code;
    int r = daemon_make_links(d, err);
    if (r < 0)
        return r;
    r = make_backend(d, err);
    if (r < 0)
        return r;
    r = snapshots_new(d->base, log_of(d), &d->conf, d->flow, &d->snapshots);
    if (r < 0)
        return err_set(err, r, "snapshots: %s", err_name(r));
    return d->conf.http.listen[0] != '\0' ? face_new(d, &d->face, err) : 0;
}

struct daemon *daemon_new(const struct daemon_options *o, struct conf *conf, struct err *err)
{
    struct daemon *d = calloc(1, sizeof *d);
    if (d == NULL) {
        conf_fini(conf);
        err_set(err, ERR_NOMEM, "%s", err_name(ERR_NOMEM));
        return NULL;
    }
    d->options = *o;
    d->conf = *conf;
    *conf = (struct conf){0};
    d->started_at = loop_now();
    logfile_init(&d->log, STDERR_FILENO, d->conf.log.level);
    sm_init(&d->sm, states, DAEMON_STARTING);
    name_instance(d);
    topology_of(&d->conf, &d->objects);
    d->base = event_base_new();
    int r = d->base != NULL ? make_events(d) : ERR_NOMEM;
    if (r < 0)
        err_set(err, r, "event loop: %s", err_name(r));
    else
        r = make_parts(d, err);
    if (r == 0)
        return d;
    daemon_free(d);
    return NULL;
}

int daemon_run(struct daemon *d)
{
    log_event(log_of(d), LOG_INFO, "starting", "instance=" LOG_Q " version=%s", d->instance,
              HARBINGER_VERSION);
    link_start(d->consume);
    link_start(d->publish);
    if (event_base_dispatch(d->base) < 0)
        d->result = ERR_SYSTEM;
    log_event(log_of(d), d->result == 0 ? LOG_INFO : LOG_ERROR, "stopped", "result=" LOG_Q,
              err_name(d->result));
    return d->result;
}

void daemon_free(struct daemon *d)
{
    if (d == NULL)
        return;
    face_free(d->face);
    topology_free(d->topology);
    workers_free(d->workers);
    amqp_workers_free(d->amqp_workers);
    backend_rabbitmq_free(d->rabbitmq);
    backend_harbinger_free(d->harbinger);
    reports_free(d->reports);
    intake_free(d->intake);
    link_free(d->publish);
    link_free(d->consume);
    snapshots_free(d->snapshots);
    flow_free(d->flow);
    journal_free(d->journal);
    struct event *const events[] = {
        d->tick, d->idle, d->deadline, d->signals[ON_TERM], d->signals[ON_INT], d->signals[ON_HUP]};
    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        if (events[i] != NULL)
            event_free(events[i]);
    if (d->base != NULL)
        event_base_free(d->base);
    buf_fini(&d->restart_keys);
    conf_fini(&d->conf);
    free(d);
}
