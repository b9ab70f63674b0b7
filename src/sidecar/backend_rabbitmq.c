#include "sidecar/backend_rabbitmq.h"

#include "amqp/backoff.h"
#include "amqp/publisher.h"
#include "base/rng.h"
#include "base/sm.h"
#include "port/backend_impl.h"
#include "sidecar/dispatch.h"
#include "sidecar/loop.h"
#include "sidecar/outgoing.h"
#include "sidecar/parking.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Delays of 1..2 s at first, 15..30 s in the end. */
#define RETRY_MIN (2 * MONO_S)
#define RETRY_MAX (30 * MONO_S)

/* An error that ends the whole connection may be anybody's, or RabbitMQ's own: parked is who was
 * alone with it so often. */
#define MAX_BLAMES 3

enum { FLOWING, PAUSED, TRIAL };

static const struct sm_state states[] = {
    [FLOWING] = {"flowing", SM_TO(PAUSED)},
    [PAUSED] = {"paused", SM_TO(TRIAL)},
    [TRIAL] = {"trial", SM_TO(FLOWING) | SM_TO(PAUSED)},
};

struct backend_rabbitmq {
    struct backend port;
    const struct log_sink *log;
    struct backend_rabbitmq_options options;
    struct publisher *main;   /* the window */
    struct publisher *single; /* suspects, one at a time */
    struct parking *parking;
    struct event *retry;
    struct sm sm;
    struct rng rng;
    struct backoff backoff; /* of the destination */
    char why[448];          /* of the pause */
    bool draining;
    struct list all;
    struct list resend;   /* for `main`, oldest first */
    struct list later;    /* returned by a named exchange; to `resend` when the retry timer fires */
    struct list suspects; /* for `single` */
    struct buf props;
    struct backend_rabbitmq_stats stats;
};

static void pump(struct backend_rabbitmq *b);

/* Not at RabbitMQ, and no use trying: true when it is gone. */
static bool drop_if_useless(struct backend_rabbitmq *b, struct dispatch *d, mono_t now)
{
    if (held_is_stale(d->held) || b->draining) {
        dispatch_settle(d, HELD_REQUEUE);
        return true;
    }
    if (held_is_expired(d->held, now)) {
        b->stats.expired++;
        dispatch_settle(d, HELD_DISCARD);
        return true;
    }
    return false;
}

/* It is not at RabbitMQ and waits for its next try; or goes back to the intake where there will be
 * none. */
static void wait_in(struct backend_rabbitmq *b, struct list *lane, struct dispatch *d)
{
    lane_put(lane, d);
    drop_if_useless(b, d, loop_now());
}

static void lane_drop_useless(struct backend_rabbitmq *b, struct list *lane, mono_t now)
{
    for (struct list *node = lane->next, *next; node != lane; node = next) {
        next = node->next;
        drop_if_useless(b, LIST_ENTRY(node, struct dispatch, lane), now);
    }
}

/* ---- publishing one ---- */

static bool has_exchange(const struct backend_rabbitmq *b)
{
    return b->options.conf->work.exchange[0] != '\0';
}

/* 0, or PUBLISHER_FULL, PUBLISHER_DOWN, PUBLISHER_TOO_BIG, ERR_NOMEM, ERR_INVALID. */
static int publish(struct backend_rabbitmq *b, struct publisher *p, struct dispatch *d)
{
    const struct conf *conf = b->options.conf;
    enum outgoing_form form;
    struct outgoing o = {
        .message = d->held->message,
        .id = dispatch_id(d),
        .key = dispatch_key(d),
        .reason = d->reason,
        .level = d->level,
        .priority = d->keep_priority ? -1 : (int)conf_priority(conf, d->level),
        .impersonate = conf->work.impersonate,
        .add_address = !has_exchange(b),
    };
    struct outgoing_target to = {
        .exchange = text_of(conf->work.exchange),
        .routing_key = has_exchange(b) ? d->held->message->routing_key : text_of(conf->work.queue),
        .cookie = d,
    };
    int r = outgoing_publish(p, &o, &to, &b->props, &form);
    if (r == 0) {
        list_remove(&d->lane);
        b->stats.published++;
        b->stats.without_headers += form > OUTGOING_WHOLE;
    }
    return r;
}

/* ---- failures ---- */

static void arm(struct event *timer, mono_t for_ns)
{
    struct timeval tv = loop_timeval(for_ns);
    if (!event_pending(timer, EV_TIMEOUT, NULL))
        event_add(timer, &tv);
}

static void arm_retry(struct backend_rabbitmq *b)
{
    if (!event_pending(b->retry, EV_TIMEOUT, NULL))
        arm(b->retry, backoff_down(&b->backoff, loop_now(), rng_unit(&b->rng)));
}

/* For people: what fails, and how. */
static void say_why(struct backend_rabbitmq *b, const char *why)
{
    const struct conf *c = b->options.conf;
    snprintf(b->why, sizeof b->why, "%s '%.100s': %.300s", has_exchange(b) ? "exchange" : "queue",
             has_exchange(b) ? c->work.exchange : c->work.queue, why);
}

static void destination_failed(struct backend_rabbitmq *b, const char *why)
{
    if (b->sm.state == PAUSED)
        return;
    sm_move(&b->sm, PAUSED);
    say_why(b, why);
    b->stats.pauses++;
    arm_retry(b);
    log_event(b->log, LOG_WARN, "work.paused", "queue=" LOG_Q " exchange=" LOG_Q " reason=" LOG_Q,
              b->options.conf->work.queue, b->options.conf->work.exchange, why);
}

/* A message got through. What comes back from a named exchange from now on is that message's own
 * fault. */
static void destination_works(struct backend_rabbitmq *b)
{
    if (b->backoff.up_at == MONO_NEVER)
        backoff_up(&b->backoff, loop_now());
    if (b->sm.state == PAUSED)
        return;
    b->why[0] = '\0';
    if (b->sm.state != TRIAL)
        return;
    sm_move(&b->sm, FLOWING);
    log_event(b->log, LOG_INFO, "work.resumed", "queue=" LOG_Q, b->options.conf->work.queue);
}

static void park(struct backend_rabbitmq *b, struct dispatch *d, const char *reason)
{
    if (!drop_if_useless(b, d, loop_now())) {
        list_remove(&d->lane);
        parking_put(b->parking, &d->parking, reason);
    }
}

/* Behind a named exchange one message's routing key may be what leads nowhere, or what we may not
 * write to. It is told from the exchange's own failure by what happens to the others: refused again
 * while they get through, it is parked. */
static void blame_or_wait(struct backend_rabbitmq *b, struct dispatch *d, const char *why)
{
    if (d->refused_at != 0 && b->stats.confirmed + 1 > d->refused_at) {
        park(b, d, why);
        return;
    }
    d->refused_at = b->stats.confirmed + 1;
    say_why(b, why);
    arm_retry(b);
    wait_in(b, &b->later, d);
}

static bool is_access_refused(const struct loss *why)
{
    return why->kind == LOSS_CHANNEL && why->code == 403;
}

/* No such exchange, or no right to it. */
static bool is_destination_failure(const struct backend_rabbitmq *b, const struct loss *why)
{
    return (why->kind == LOSS_CHANNEL && why->code == 404) ||
           (is_access_refused(why) && !has_exchange(b));
}

/* Every other refusal is about something that one message brought along. */
static bool is_message_failure(const struct backend_rabbitmq *b, const struct loss *why)
{
    if (why->kind == LOSS_CHANNEL)
        return !is_destination_failure(b, why);
    return why->kind == LOSS_CONNECTION && why->code >= 501 && why->code != 530;
}

/* ---- the publishers' events ---- */

static void on_confirmed(void *ctx, void *cookie)
{
    struct backend_rabbitmq *b = ctx;
    struct dispatch *d = cookie;
    b->stats.confirmed++;
    destination_works(b);
    dispatch_settle(d, HELD_ACK);
}

/* With the default exchange a return means that the queue is missing; with a named one it may be
 * this message alone. */
static void on_returned(void *ctx, void *cookie, uint16_t code, struct text why)
{
    struct backend_rabbitmq *b = ctx;
    struct dispatch *d = cookie;
    char text[200];
    b->stats.returned++;
    snprintf(text, sizeof text, "returned (%u): %.*s", code, (int)why.n, why.p);
    if (!has_exchange(b)) {
        destination_failed(b, text);
        wait_in(b, &b->resend, d);
    } else {
        blame_or_wait(b, d, text);
    }
}

static void on_nacked(void *ctx, void *cookie)
{
    struct backend_rabbitmq *b = ctx;
    struct dispatch *d = cookie;
    b->stats.nacked++;
    destination_failed(b, "nacked: the queue is full or failed");
    wait_in(b, &b->resend, d);
}

static void on_main_lost(void *ctx, void *cookie, const struct loss *why)
{
    struct backend_rabbitmq *b = ctx;
    b->stats.lost++;
    wait_in(b, is_message_failure(b, why) ? &b->suspects : &b->resend, cookie);
}

static void on_single_lost(void *ctx, void *cookie, const struct loss *why)
{
    struct backend_rabbitmq *b = ctx;
    struct dispatch *d = cookie;
    char text[320];
    loss_format(why, text, sizeof text);
    b->stats.lost++;
    bool of_message = is_message_failure(b, why), of_destination = is_destination_failure(b, why);
    bool blamed = of_message || of_destination;
    if (!blamed || (why->kind == LOSS_CONNECTION && ++d->n_blamed < MAX_BLAMES)) {
        wait_in(b, &b->suspects, d);
    } else if (of_destination) {
        destination_failed(b, text);
        wait_in(b, &b->resend, d);
    } else if (is_access_refused(why)) {
        blame_or_wait(b, d, text);
    } else {
        park(b, d, text);
    }
}

static void on_main_down(void *ctx, const struct loss *why)
{
    struct backend_rabbitmq *b = ctx;
    char text[320];
    loss_format(why, text, sizeof text);
    if (is_destination_failure(b, why))
        destination_failed(b, text);
}

static void on_up_or_room(void *ctx)
{
    pump(ctx);
}

/* ---- the lanes ---- */

/* Publishes the head of a lane. False: stop, nothing more can be done now. */
static bool publish_head(struct backend_rabbitmq *b, struct publisher *p, struct list *lane)
{
    struct dispatch *d = lane_first(lane);
    if (d == NULL)
        return false;
    if (drop_if_useless(b, d, loop_now()))
        return true;
    int r = publish(b, p, d);
    if (r == ERR_NOMEM)
        arm_retry(b);
    if (r == PUBLISHER_FULL || r == PUBLISHER_DOWN || r == ERR_NOMEM)
        return false;
    if (r == 0)
        return true;
    park(b, d, "its headers do not fit into a frame of amqp.frame_max");
    return true;
}

static void pump_main(struct backend_rabbitmq *b)
{
    if (b->sm.state == TRIAL) {
        while (publisher_pending(b->main) == 0 && publish_head(b, b->main, &b->resend))
            continue;
        if (list_empty(&b->resend) && publisher_pending(b->main) == 0 && publisher_is_up(b->main))
            destination_works(b);
    }
    if (b->sm.state == FLOWING)
        while (publish_head(b, b->main, &b->resend))
            continue;
}

static void pump_single(struct backend_rabbitmq *b)
{
    while (publish_head(b, b->single, &b->suspects))
        continue;
}

static void pump(struct backend_rabbitmq *b)
{
    pump_main(b);
    pump_single(b);
    if (b->sm.state == FLOWING && list_empty(&b->resend) && !b->draining &&
        b->options.on_room != NULL)
        b->options.on_room(b->options.ctx);
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
    struct backend_rabbitmq *b = ctx;
    lane_move_all(&b->later, &b->resend);
    if (b->sm.state == PAUSED)
        sm_move(&b->sm, TRIAL);
    pump(b);
}

static void on_parked(void *ctx, struct parking_job *job)
{
    dispatch_settle(LIST_ENTRY(job, struct dispatch, parking), HELD_ACK);
}

static bool parking_is_useless(void *ctx, struct parking_job *job)
{
    return drop_if_useless(ctx, LIST_ENTRY(job, struct dispatch, parking), loop_now());
}

static int submit(struct backend *port, void *message, const struct ticket *ticket)
{
    struct backend_rabbitmq *b = CONTAINER_OF(port, struct backend_rabbitmq, port);
    struct held *h = message;
    if (b->sm.state != FLOWING || !list_empty(&b->resend) || b->draining ||
        !publisher_is_up(b->main) || !publisher_has_room(b->main, message_bytes(h->message)))
        return BACKEND_FULL;
    struct dispatch *d = dispatch_new(&b->all, h, ticket);
    if (d == NULL)
        return ERR_NOMEM;
    int r = publish(b, b->main, d);
    if (r == 0)
        return 0;
    if (r == PUBLISHER_TOO_BIG || r == ERR_INVALID) {
        park(b, d, "its headers do not fit into a frame of amqp.frame_max");
        pump_single(b);
        return 0;
    }
    dispatch_free(d);
    return r < 0 ? r : BACKEND_FULL;
}

static const struct backend_ops ops = {.name = "rabbitmq", .submit = submit};

/* ---- life ---- */

static int open_publishers(struct backend_rabbitmq *b, struct link *l)
{
    const struct conf *conf = b->options.conf;
    struct publisher_options o = {
        .name = "work",
        .window_messages = conf_intake_window(conf),
        .window_bytes = conf->intake.window_bytes,
        .confirm_timeout_for = conf->amqp.confirm_timeout,
        .seed = rng_next(&b->rng),
        .on_confirmed = on_confirmed,
        .on_returned = on_returned,
        .on_nacked = on_nacked,
        .on_lost = on_main_lost,
        .on_up = on_up_or_room,
        .on_down = on_main_down,
        .on_room = on_up_or_room,
        .ctx = b,
    };
    int r = publisher_new(l, &o, &b->main);
    if (r < 0)
        return r;
    o.name = "single";
    o.window_messages = 1;
    o.on_lost = on_single_lost;
    o.on_down = NULL;
    r = publisher_new(l, &o, &b->single);
    if (r < 0)
        return r;
    struct parking_options parking = {
        .conf = conf, .done = on_parked, .useless = parking_is_useless, .ctx = b};
    return parking_new(l, b->log, &parking, &b->parking);
}

int backend_rabbitmq_new(struct link *l, const struct log_sink *log,
                         const struct backend_rabbitmq_options *o, struct backend_rabbitmq **out)
{
    struct backend_rabbitmq *b = calloc(1, sizeof *b);
    if (b == NULL)
        return ERR_NOMEM;
    b->port.ops = &ops;
    b->log = log;
    b->options = *o;
    b->rng.state = loop_random();
    backoff_init(&b->backoff, RETRY_MIN, RETRY_MAX);
    sm_init(&b->sm, states, FLOWING);
    list_init(&b->all);
    list_init(&b->resend);
    list_init(&b->later);
    list_init(&b->suspects);
    b->retry = evtimer_new(link_base(l), on_retry, b);
    int r = b->retry == NULL ? ERR_NOMEM : open_publishers(b, l);
    if (r < 0) {
        backend_rabbitmq_free(b);
        return r;
    }
    *out = b;
    return 0;
}

void backend_rabbitmq_free(struct backend_rabbitmq *b)
{
    if (b == NULL)
        return;
    publisher_free(b->main);
    publisher_free(b->single);
    parking_free(b->parking);
    b->draining = true;
    while (!list_empty(&b->all))
        dispatch_settle(LIST_ENTRY(list_first(&b->all), struct dispatch, all), HELD_REQUEUE);
    if (b->retry != NULL)
        event_free(b->retry);
    buf_fini(&b->props);
    free(b);
}

struct backend *backend_rabbitmq_port(struct backend_rabbitmq *b)
{
    return &b->port;
}

void backend_rabbitmq_drop_stale(struct backend_rabbitmq *b)
{
    struct list *const lanes[] = {&b->resend, &b->later, &b->suspects};
    for (size_t i = 0; i < ARRAY_SIZE(lanes); i++)
        lane_drop_useless(b, lanes[i], loop_now());
    parking_drop_useless(b->parking);
}

void backend_rabbitmq_drain(struct backend_rabbitmq *b)
{
    b->draining = true;
    backend_rabbitmq_drop_stale(b);
}

const char *backend_rabbitmq_state(const struct backend_rabbitmq *b)
{
    return sm_name(&b->sm);
}

const char *backend_rabbitmq_reason(const struct backend_rabbitmq *b)
{
    return b->why;
}

void backend_rabbitmq_stats(const struct backend_rabbitmq *b, struct backend_rabbitmq_stats *out)
{
    struct parking_stats parking;
    parking_stats(b->parking, &parking);
    *out = b->stats;
    out->without_headers += parking.without_headers;
    out->parked = parking.parked;
    out->parking_failed = parking.failed;
    out->n_resend = lane_count(&b->resend) + lane_count(&b->later);
    out->n_suspects = lane_count(&b->suspects) + parking.n_waiting;
    out->n_stuck = parking.n_stuck;
    out->unconfirmed = publisher_pending(b->main) + publisher_pending(b->single);
}
