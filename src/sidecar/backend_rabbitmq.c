#include "sidecar/backend_rabbitmq.h"

#include "amqp/backoff.h"
#include "amqp/publisher.h"
#include "base/rng.h"
#include "base/sm.h"
#include "port/backend_impl.h"
#include "sidecar/held.h"
#include "sidecar/loop.h"
#include "sidecar/outgoing.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Delays of 1..2 s at first, 15..30 s in the end. */
#define RETRY_MIN     (2 * MONO_S)
#define RETRY_MAX     (30 * MONO_S)
#define PARKING_RETRY (30 * MONO_S)

enum { FLOWING, PAUSED, TRIAL };

static const struct sm_state states[] = {
    [FLOWING] = {"flowing", SM_TO(PAUSED)},
    [PAUSED] = {"paused", SM_TO(TRIAL)},
    [TRIAL] = {"trial", SM_TO(FLOWING) | SM_TO(PAUSED)},
};

/* A message on its way to RabbitMQ, from submit until it is settled. */
struct dispatch {
    struct list all;  /* every dispatch of this backend */
    struct list lane; /* the lane it waits in; alone while a publisher has it */
    struct backend_rabbitmq *backend;
    struct held *held;
    const char *reason;
    unsigned level;
    bool keep_priority;
    uint64_t returned_at; /* count of confirms when it was last returned; 0: never */
    char *parked_reason;  /* NULL unless it is to be parked */
    size_t n_id, n_key;
    char text[]; /* id, then key */
};

struct backend_rabbitmq {
    struct backend port;
    const struct log_sink *log;
    struct backend_rabbitmq_options options;
    struct publisher *main;   /* the window */
    struct publisher *single; /* suspects and parking, one at a time */
    struct event *retry, *parking_retry;
    struct sm sm;
    struct rng rng;
    struct backoff backoff; /* of the destination */
    char why[256];          /* of the pause */
    bool draining;
    struct list all;
    struct list resend; /* for `main`, oldest first */
    struct list later;  /* returned by a named exchange; to `resend` when the retry timer fires */
    struct list
        suspects;      /* for `single`: to be published, or parked when they have a parked_reason */
    struct list stuck; /* could not be parked; to `suspects` when the parking timer fires */
    struct buf props;
    struct backend_rabbitmq_stats stats;
};

static void pump(struct backend_rabbitmq *b);

/* ---- dispatches ---- */

static struct dispatch *dispatch_new(struct backend_rabbitmq *b, struct held *h,
                                     const struct ticket *t)
{
    struct dispatch *d = malloc(sizeof *d + t->id.n + t->key.n);
    if (d == NULL)
        return NULL;
    *d = (struct dispatch){
        .backend = b,
        .held = h,
        .reason = t->reason,
        .level = t->level,
        .keep_priority = t->keep_priority,
        .n_id = t->id.n,
        .n_key = t->key.n,
    };
    memcpy(d->text, t->id.p, t->id.n);
    memcpy(d->text + t->id.n, t->key.p, t->key.n);
    list_init(&d->lane);
    list_push_back(&b->all, &d->all);
    return d;
}

static void dispatch_free(struct dispatch *d)
{
    list_remove(&d->lane);
    list_remove(&d->all);
    free(d->parked_reason);
    free(d);
}

static void settle(struct dispatch *d, enum held_settlement how)
{
    struct held *h = d->held;
    dispatch_free(d);
    held_settle(h, how);
}

/* Not at RabbitMQ, and no use trying: true when it is gone. */
static bool drop_if_useless(struct dispatch *d, mono_t now)
{
    struct backend_rabbitmq *b = d->backend;
    if (held_is_stale(d->held) || b->draining) {
        settle(d, HELD_REQUEUE);
        return true;
    }
    if (held_is_expired(d->held, now)) {
        b->stats.expired++;
        settle(d, HELD_DISCARD);
        return true;
    }
    return false;
}

static void lane_put(struct list *lane, struct dispatch *d)
{
    list_remove(&d->lane);
    list_push_back(lane, &d->lane);
}

static struct dispatch *lane_first(struct list *lane)
{
    struct list *node = list_first(lane);
    return node != NULL ? LIST_ENTRY(node, struct dispatch, lane) : NULL;
}

static void lane_move_all(struct list *from, struct list *to)
{
    struct dispatch *d;
    while ((d = lane_first(from)) != NULL)
        lane_put(to, d);
}

static void lane_drop_useless(struct list *lane, mono_t now)
{
    for (struct list *node = lane->next, *next; node != lane; node = next) {
        next = node->next;
        drop_if_useless(LIST_ENTRY(node, struct dispatch, lane), now);
    }
}

static size_t lane_count(const struct list *lane)
{
    size_t n = 0;
    for (const struct list *node = lane->next; node != lane; node = node->next)
        n++;
    return n;
}

/* ---- publishing one ---- */

static bool has_exchange(const struct backend_rabbitmq *b)
{
    return b->options.conf->work.exchange[0] != '\0';
}

static struct text destination_exchange(const struct backend_rabbitmq *b, const struct dispatch *d)
{
    return text_of(d->parked_reason != NULL ? "" : b->options.conf->work.exchange);
}

static struct text destination_key(const struct backend_rabbitmq *b, const struct dispatch *d)
{
    if (d->parked_reason != NULL)
        return text_of(b->options.conf->parked.queue);
    return has_exchange(b) ? d->held->message->routing_key : text_of(b->options.conf->work.queue);
}

static int publish_as(struct backend_rabbitmq *b, struct publisher *p, struct dispatch *d,
                      enum outgoing_form form)
{
    const struct conf *conf = b->options.conf;
    struct outgoing o = {
        .message = d->held->message,
        .id = {d->text, d->n_id},
        .key = {d->text + d->n_id, d->n_key},
        .reason = d->reason,
        .level = d->level,
        .priority =
            d->keep_priority || d->parked_reason != NULL ? -1 : (int)conf_priority(conf, d->level),
        /* Parked may be just what RabbitMQ refuses to take under that name. */
        .impersonate = conf->work.impersonate && d->parked_reason == NULL,
        .add_address = !has_exchange(b) || d->parked_reason != NULL,
        .parked_reason = d->parked_reason,
    };
    buf_reset(&b->props);
    int r = outgoing_props(&o, form, &b->props);
    if (r < 0)
        return r;
    bool has_id = form == OUTGOING_WHOLE && !o.message->props.opaque;
    struct publish what = {
        .exchange = destination_exchange(b, d),
        .routing_key = destination_key(b, d),
        .props = {b->props.p, b->props.n},
        .body = o.message->body,
        .token = has_id ? o.id : (struct text){NULL, 0},
        .cookie = d,
    };
    return publisher_publish(p, &what);
}

/* 0, or PUBLISHER_FULL, PUBLISHER_DOWN, PUBLISHER_TOO_BIG, ERR_NOMEM, ERR_INVALID. */
static int publish(struct backend_rabbitmq *b, struct publisher *p, struct dispatch *d)
{
    int r = PUBLISHER_TOO_BIG;
    int form;
    for (form = OUTGOING_WHOLE; form < OUTGOING_N_FORMS && r == PUBLISHER_TOO_BIG; form++)
        r = publish_as(b, p, d, (enum outgoing_form)form);
    if (r == 0) {
        list_remove(&d->lane);
        b->stats.published++;
        b->stats.without_headers += form > OUTGOING_WHOLE + 1;
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

static void destination_failed(struct backend_rabbitmq *b, const char *why)
{
    if (b->sm.state == PAUSED)
        return;
    sm_move(&b->sm, PAUSED);
    snprintf(b->why, sizeof b->why, "%s", why);
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

static void park(struct dispatch *d, const char *reason)
{
    struct backend_rabbitmq *b = d->backend;
    free(d->parked_reason);
    d->parked_reason = strdup(reason);
    if (d->parked_reason == NULL) {
        lane_put(&b->stuck, d);
        arm(b->parking_retry, PARKING_RETRY);
        return;
    }
    lane_put(&b->suspects, d);
}

static void parking_failed(struct dispatch *d, const char *why)
{
    struct backend_rabbitmq *b = d->backend;
    b->stats.parking_failed++;
    lane_put(&b->stuck, d);
    arm(b->parking_retry, PARKING_RETRY);
    log_event(b->log, LOG_ERROR, "parking.failed",
              "queue=" LOG_Q " id=%.*s reason=" LOG_Q " parked_for=" LOG_Q,
              b->options.conf->parked.queue, (int)d->n_id, d->text, why, d->parked_reason);
}

/* 404 and 403 are about the exchange; every other refusal is about something that one message
 * brought along. */
static bool is_destination_failure(const struct loss *why)
{
    return why->kind == LOSS_CHANNEL && (why->code == 404 || why->code == 403);
}

static bool is_message_failure(const struct loss *why)
{
    if (why->kind == LOSS_CHANNEL)
        return !is_destination_failure(why);
    return why->kind == LOSS_CONNECTION && why->code >= 501 && why->code != 530;
}

/* ---- the publishers' events ---- */

static void on_confirmed(void *ctx, void *cookie)
{
    struct backend_rabbitmq *b = ctx;
    struct dispatch *d = cookie;
    if (d->parked_reason != NULL) {
        b->stats.parked++;
        log_event(b->log, LOG_WARN, "parked", "queue=" LOG_Q " id=%.*s key=" LOG_Q " reason=" LOG_Q,
                  b->options.conf->parked.queue, (int)d->n_id, d->text,
                  d->n_key > 0 ? "see header " OUTGOING_KEY : "", d->parked_reason);
    } else {
        b->stats.confirmed++;
        destination_works(b);
    }
    settle(d, HELD_ACK);
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
    if (d->parked_reason != NULL) {
        parking_failed(d, text);
    } else if (!has_exchange(b)) {
        lane_put(&b->resend, d);
        destination_failed(b, text);
    } else if (d->returned_at != 0 && b->stats.confirmed + 1 > d->returned_at) {
        park(d, text);
    } else {
        d->returned_at = b->stats.confirmed + 1;
        lane_put(&b->later, d);
        snprintf(b->why, sizeof b->why, "%s", text);
        arm_retry(b);
    }
}

static void on_nacked(void *ctx, void *cookie)
{
    struct backend_rabbitmq *b = ctx;
    struct dispatch *d = cookie;
    b->stats.nacked++;
    if (d->parked_reason != NULL) {
        parking_failed(d, "nacked: the queue is full or failed");
        return;
    }
    lane_put(&b->resend, d);
    destination_failed(b, "nacked: the queue is full or failed");
}

static void on_main_lost(void *ctx, void *cookie, const struct loss *why)
{
    struct backend_rabbitmq *b = ctx;
    b->stats.lost++;
    lane_put(is_message_failure(why) ? &b->suspects : &b->resend, cookie);
}

static void on_single_lost(void *ctx, void *cookie, const struct loss *why)
{
    struct backend_rabbitmq *b = ctx;
    struct dispatch *d = cookie;
    char text[320];
    loss_format(why, text, sizeof text);
    b->stats.lost++;
    if (!is_message_failure(why) && !is_destination_failure(why)) {
        list_remove(&d->lane);
        list_push_front(&b->suspects, &d->lane);
    } else if (d->parked_reason != NULL) {
        parking_failed(d, text);
    } else if (is_destination_failure(why)) {
        lane_put(&b->resend, d);
        destination_failed(b, text);
    } else {
        park(d, text);
    }
}

static void on_main_down(void *ctx, const struct loss *why)
{
    struct backend_rabbitmq *b = ctx;
    char text[320];
    loss_format(why, text, sizeof text);
    if (is_destination_failure(why))
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
    if (drop_if_useless(d, loop_now()))
        return true;
    int r = publish(b, p, d);
    if (r == PUBLISHER_FULL || r == PUBLISHER_DOWN || r == ERR_NOMEM)
        return false;
    if (r == 0)
        return true;
    if (d->parked_reason != NULL)
        parking_failed(d, "its headers do not fit into a frame");
    else
        park(d, "its headers do not fit into a frame");
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

static void pump(struct backend_rabbitmq *b)
{
    pump_main(b);
    while (publish_head(b, b->single, &b->suspects))
        continue;
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

static void on_parking_retry(evutil_socket_t fd, short what, void *ctx)
{
    struct backend_rabbitmq *b = ctx;
    lane_move_all(&b->stuck, &b->suspects);
    pump(b);
}

static int submit(struct backend *port, void *message, const struct ticket *ticket)
{
    struct backend_rabbitmq *b = CONTAINER_OF(port, struct backend_rabbitmq, port);
    struct held *h = message;
    if (b->sm.state != FLOWING || !list_empty(&b->resend) || b->draining ||
        !publisher_is_up(b->main) || !publisher_has_room(b->main, message_bytes(h->message)))
        return BACKEND_FULL;
    struct dispatch *d = dispatch_new(b, h, ticket);
    if (d == NULL)
        return ERR_NOMEM;
    int r = publish(b, b->main, d);
    if (r == 0)
        return 0;
    if (r == PUBLISHER_TOO_BIG || r == ERR_INVALID) {
        park(d, "its headers do not fit into a frame");
        pump(b);
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
        .window_messages = conf->intake.window,
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
    return publisher_new(l, &o, &b->single);
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
    list_init(&b->stuck);
    b->retry = evtimer_new(link_base(l), on_retry, b);
    b->parking_retry = evtimer_new(link_base(l), on_parking_retry, b);
    int r = b->retry == NULL || b->parking_retry == NULL ? ERR_NOMEM : open_publishers(b, l);
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
    b->draining = true;
    while (!list_empty(&b->all))
        settle(LIST_ENTRY(list_first(&b->all), struct dispatch, all), HELD_REQUEUE);
    if (b->retry != NULL)
        event_free(b->retry);
    if (b->parking_retry != NULL)
        event_free(b->parking_retry);
    buf_fini(&b->props);
    free(b);
}

struct backend *backend_rabbitmq_port(struct backend_rabbitmq *b)
{
    return &b->port;
}

void backend_rabbitmq_drop_stale(struct backend_rabbitmq *b)
{
    struct list *const lanes[] = {&b->resend, &b->later, &b->suspects, &b->stuck};
    for (size_t i = 0; i < ARRAY_SIZE(lanes); i++)
        lane_drop_useless(lanes[i], loop_now());
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
    *out = b->stats;
    out->n_resend = lane_count(&b->resend) + lane_count(&b->later);
    out->n_suspects = lane_count(&b->suspects);
    out->n_stuck = lane_count(&b->stuck);
    out->unconfirmed = publisher_pending(b->main) + publisher_pending(b->single);
}
