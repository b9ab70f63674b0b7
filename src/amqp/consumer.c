#include "amqp/consumer.h"

#include "amqp/backoff.h"
#include "amqp/channel.h"
#include "amqp/clock.h"
#include "amqp/life.h"
#include "amqp/settle.h"
#include "base/err.h"
#include "base/sm.h"

#include <event2/event.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * down        no channel: the link is down, the backoff timer runs, or it is paused
 * opening     channel.open, basic.qos and basic.consume are under way (also for a resume)
 * consuming   consume-ok came
 * pausing     basic.cancel is under way
 * paused      cancelled by us; the channel lives for the settlements
 */
enum state { DOWN, OPENING, CONSUMING, PAUSING, PAUSED };

static const struct sm_state states[] = {
    [DOWN] = {"down", SM_TO(OPENING)},
    [OPENING] = {"opening", SM_TO(CONSUMING) | SM_TO(PAUSED) | SM_TO(DOWN)},
    [CONSUMING] = {"consuming", SM_TO(PAUSING) | SM_TO(DOWN)},
    [PAUSING] = {"pausing", SM_TO(PAUSED) | SM_TO(DOWN)},
    [PAUSED] = {"paused", SM_TO(OPENING) | SM_TO(DOWN)},
};

/* Acks wait for an eighth of the prefetch, this long at most: both sides pay per frame and per
 * packet, and the broker would otherwise deliver, and we forward, a handful at a time. */
enum { ACK_PART = 8 };
#define ACK_DELAY (2 * MONO_MS)

/* For the answers to channel.open, basic.qos and basic.consume, or to basic.cancel. */
#define ANSWER_LIMIT (30 * MONO_S)

struct consumer {
    struct link_user user;
    struct sm sm;
    struct life life;
    struct link *link;
    struct consumer_options o; /* texts are copied below */
    uint16_t prefetch;         /* of the next basic.consume, at most o.prefetch */
    char queue[256], wanted_tag[256], tag[256];
    struct channel *ch;
    uint64_t generation;
    struct settle settle;
    struct backoff backoff;
    struct event *timer; /* down: the next attempt; opening and pausing: the limit of the answers */
    struct event *due;   /* gathered acks go out at the latest */
    bool due_armed;
    bool want_paused, down_told;
};

/* Off the link and the loop, at once: the owner may free the link next, while the memory here waits
 * for the stack. */
static void shut(struct consumer *c)
{
    link_leave(&c->user);
    channel_free(c->ch);
    c->ch = NULL;
    if (c->timer != NULL)
        event_free(c->timer);
    if (c->due != NULL)
        event_free(c->due);
    c->timer = c->due = NULL;
}

static void release(struct consumer *c)
{
    settle_fini(&c->settle);
    free(c);
}

static void leave(struct consumer *c)
{
    if (life_leave(&c->life))
        release(c);
}

void consumer_free(struct consumer *c)
{
    if (c == NULL)
        return;
    consumer_flush(c);
    shut(c);
    if (life_end(&c->life))
        release(c);
}

static void arm(struct event *timer, mono_t for_ns)
{
    struct timeval tv = clock_timeval(for_ns);
    evtimer_add(timer, &tv);
}

/* Ends. */

/* Everything of this generation is over; tells the owner once and tries again later. */
static void go_down(struct consumer *c, const struct loss *why)
{
    channel_free(c->ch);
    c->ch = NULL;
    settle_reset(&c->settle);
    c->generation++;
    sm_move(&c->sm, DOWN);
    mono_t delay = backoff_down(&c->backoff, clock_read(), link_jitter(c->link));
    char words[320];
    loss_format(why, words, sizeof words);
    log_event(link_log(c->link), loss_level(why), "consumer.down",
              "queue=%s retry_ms=%.0f reason=" LOG_Q, c->queue, mono_to_ms(delay), words);
    /* With the link gone its next up starts it; the timer does no harm then. */
    arm(c->timer, delay);
    if (!c->down_told && c->o.on_down != NULL) {
        c->down_told = true;
        c->o.on_down(c->o.ctx, why);
    }
}

static void on_closed(void *ctx, const struct loss *why)
{
    struct consumer *c = ctx;
    life_enter(&c->life);
    go_down(c, why);
    leave(c);
}

static void on_cancel(void *ctx)
{
    struct consumer *c = ctx;
    struct loss why = {.kind = LOSS_CANCEL};
    snprintf(why.text, sizeof why.text, "queue '%.200s' was deleted or moved", c->queue);
    life_enter(&c->life);
    go_down(c, &why);
    leave(c);
}

static void end_here(struct consumer *c, enum loss_kind kind, const char *text)
{
    struct loss why = {.kind = kind};
    snprintf(why.text, sizeof why.text, "%s", text);
    if (c->ch != NULL)
        channel_abort(c->ch, &why);
}

/* Pause and resume. */

static void cancelled(void *ctx, const amqp_method_t *reply);
static int say_qos(struct consumer *c, void (*done)(void *ctx, const amqp_method_t *reply));
static int consume(struct consumer *c);

static void settle_state(struct consumer *c)
{
    int r = 0;
    if (c->sm.state == CONSUMING && c->want_paused) {
        amqp_basic_cancel_t cancel = {.consumer_tag = lib_bytes(text_of(c->tag))};
        sm_move(&c->sm, PAUSING);
        arm(c->timer, ANSWER_LIMIT);
        r = channel_call(c->ch, AMQP_BASIC_CANCEL_METHOD, &cancel, cancelled);
    } else if (c->sm.state == PAUSED && !c->want_paused && c->settle.n_held <= c->o.prefetch) {
        sm_move(&c->sm, OPENING);
        arm(c->timer, ANSWER_LIMIT);
        r = say_qos(c, NULL);
        if (r == 0)
            r = consume(c);
    }
    if (r < 0)
        end_here(c, LOSS_NOMEM, "pause or resume");
}

static void become_paused(struct consumer *c)
{
    sm_move(&c->sm, PAUSED);
    evtimer_del(c->timer);
}

static void cancelled(void *ctx, const amqp_method_t *reply)
{
    struct consumer *c = ctx;
    (void)reply;
    life_enter(&c->life);
    become_paused(c);
    settle_state(c);
    leave(c);
}

/* Opening. */

static void consuming(void *ctx, const amqp_method_t *reply)
{
    struct consumer *c = ctx;
    const amqp_basic_consume_ok_t *ok = reply->decoded;
    struct text tag = lib_text(ok->consumer_tag);
    life_enter(&c->life);
    snprintf(c->tag, sizeof c->tag, "%.*s", (int)tag.n, tag.p);
    sm_move(&c->sm, CONSUMING);
    evtimer_del(c->timer);
    backoff_up(&c->backoff, clock_read());
    c->down_told = false;
    log_event(link_log(c->link), LOG_INFO, "consumer.up", "queue=%s prefetch=%u", c->queue,
              c->prefetch);
    if (c->o.on_up != NULL)
        c->o.on_up(c->o.ctx);
    if (!c->life.dead)
        settle_state(c);
    leave(c);
}

/* The broker holds a consumer to the prefetch that its channel had at basic.consume. */
static int say_qos(struct consumer *c, void (*done)(void *ctx, const amqp_method_t *reply))
{
    amqp_basic_qos_t qos = {.prefetch_count = c->prefetch};
    return channel_call(c->ch, AMQP_BASIC_QOS_METHOD, &qos, done);
}

static int consume(struct consumer *c)
{
    amqp_basic_consume_t consume = {
        .queue = lib_bytes(text_of(c->queue)),
        .consumer_tag = lib_bytes(text_of(c->wanted_tag)),
        .no_ack = c->o.no_ack,
    };
    return channel_call(c->ch, AMQP_BASIC_CONSUME_METHOD, &consume, consuming);
}

static void qos_set(void *ctx, const amqp_method_t *reply)
{
    struct consumer *c = ctx;
    (void)reply;
    life_enter(&c->life);
    if (c->want_paused)
        become_paused(c);
    else if (consume(c) < 0)
        end_here(c, LOSS_NOMEM, "basic.consume");
    leave(c);
}

static void on_delivery(void *ctx, uint64_t tag, bool redelivered, struct message *m)
{
    struct consumer *c = ctx;
    struct consumer_tag t = {.generation = c->generation, .tag = tag};
    life_enter(&c->life);
    if (!c->o.no_ack && settle_add(&c->settle, tag, &t.slot) != 0) {
        message_free(m);
        end_here(c, LOSS_PROTOCOL, "more deliveries than the prefetch allows");
    } else {
        c->o.on_delivery(c->o.ctx, t, redelivered, m);
    }
    leave(c);
}

/* True when what is gathered should go now. With the link stopping it is the last chance. */
static bool is_time(struct consumer *c)
{
    const struct settle *s = &c->settle;
    return s->urgent || s->n_done >= c->prefetch / ACK_PART || s->n_held == 0 ||
           !link_is_up(c->link);
}

static void on_flush(void *ctx)
{
    struct consumer *c = ctx;
    life_enter(&c->life);
    if (is_time(c)) {
        consumer_flush(c);
    } else if (c->settle.n_done > 0 && !c->due_armed) {
        c->due_armed = true;
        arm(c->due, ACK_DELAY);
    }
    settle_state(c);
    leave(c);
}

static void open_channel(struct consumer *c)
{
    struct conn *conn = link_conn(c->link);
    if (conn == NULL || c->sm.state != DOWN || c->want_paused)
        return;
    arm(c->timer, ANSWER_LIMIT);
    struct channel_options options = {
        .max_message_bytes = (uint64_t)c->o.max_message_bytes,
        .cut_larger = c->o.cut_larger,
        .on_closed = on_closed,
        .on_delivery = on_delivery,
        .on_cancel = on_cancel,
        .on_flush = on_flush,
        .ctx = c,
    };
    sm_move(&c->sm, OPENING);
    if (channel_new(conn, &options, &c->ch) < 0 || say_qos(c, qos_set) < 0) {
        struct loss why = {.kind = LOSS_NOMEM, .text = "no channel to be had"};
        go_down(c, &why);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct consumer *c = arg;
    (void)fd;
    (void)what;
    life_enter(&c->life);
    if (c->sm.state == DOWN)
        open_channel(c);
    else if (link_is_blocked(c->link)) /* RabbitMQ does not read what has published */
        arm(c->timer, ANSWER_LIMIT);
    else
        end_here(c, LOSS_TIMEOUT, "opening or pausing the consumer");
    leave(c);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
    struct consumer *c = arg;
    (void)fd;
    (void)what;
    c->due_armed = false;
    consumer_flush(c);
}

static void on_link_up(struct link_user *u)
{
    struct consumer *c = CONTAINER_OF(u, struct consumer, user);
    life_enter(&c->life);
    open_channel(c);
    leave(c);
}

static void on_link_down(struct link_user *u, const struct loss *why)
{
    /* The channel has told already; the next up starts it again. */
    struct consumer *c = CONTAINER_OF(u, struct consumer, user);
    (void)why;
    evtimer_del(c->timer);
}

/* For the owner. */

int consumer_new(struct link *l, const struct consumer_options *options, struct consumer **out)
{
    if (options->queue == NULL || options->queue[0] == '\0' || options->prefetch == 0 ||
        strlen(options->queue) > 255)
        return ERR_INVALID;
    struct consumer *c = calloc(1, sizeof *c);
    if (c == NULL)
        return ERR_NOMEM;
    sm_init(&c->sm, states, DOWN);
    list_init(&c->user.node);
    c->user.on_up = on_link_up;
    c->user.on_down = on_link_down;
    c->link = l;
    c->o = *options;
    c->prefetch = options->prefetch;
    c->generation = 1;
    if (c->o.max_message_bytes <= 0)
        c->o.max_message_bytes = INT64_C(512) << 20;
    backoff_init(&c->backoff, options->backoff_min_for > 0 ? options->backoff_min_for : MONO_S,
                 options->backoff_max_for > 0 ? options->backoff_max_for : 30 * MONO_S);
    snprintf(c->queue, sizeof c->queue, "%s", options->queue);
    snprintf(c->wanted_tag, sizeof c->wanted_tag, "%s", options->tag != NULL ? options->tag : "");
    c->timer = evtimer_new(link_base(l), on_timer, c);
    c->due = evtimer_new(link_base(l), on_due, c);
    if (c->timer == NULL || c->due == NULL || settle_init(&c->settle, 2u * options->prefetch) < 0) {
        consumer_free(c);
        return ERR_NOMEM;
    }
    link_join(l, &c->user);
    *out = c;
    return 0;
}

static int settle(struct consumer *c, struct consumer_tag tag, enum settle_verdict verdict)
{
    if (tag.generation != c->generation || c->ch == NULL || c->o.no_ack)
        return CONSUMER_STALE;
    if (settle_decide(&c->settle, tag.slot, tag.tag, verdict) != 0)
        return CONSUMER_STALE;
    channel_want_flush(c->ch);
    return 0;
}

int consumer_ack(struct consumer *c, struct consumer_tag tag)
{
    return settle(c, tag, SETTLE_ACK);
}

int consumer_nack(struct consumer *c, struct consumer_tag tag, bool requeue)
{
    return settle(c, tag, requeue ? SETTLE_REQUEUE : SETTLE_NACK);
}

static int send_settlement(struct consumer *c, const struct settle_frame *f)
{
    if (f->verdict == SETTLE_ACK) {
        amqp_basic_ack_t ack = {.delivery_tag = f->tag, .multiple = f->multiple};
        return channel_send(c->ch, AMQP_BASIC_ACK_METHOD, &ack);
    }
    amqp_basic_nack_t nack = {.delivery_tag = f->tag, .requeue = f->verdict == SETTLE_REQUEUE};
    return channel_send(c->ch, AMQP_BASIC_NACK_METHOD, &nack);
}

void consumer_flush(struct consumer *c)
{
    struct settle_frame f;
    if (c->ch == NULL || !channel_is_open(c->ch))
        return;
    while (settle_next(&c->settle, &f) == 1) {
        if (send_settlement(c, &f) < 0) {
            end_here(c, LOSS_NOMEM, "an ack found no memory");
            return;
        }
    }
}

void consumer_pause(struct consumer *c)
{
    c->want_paused = true;
    settle_state(c);
}

void consumer_resume(struct consumer *c)
{
    c->want_paused = false;
    /* An attempt that was due meanwhile has been let pass. */
    if (c->sm.state == DOWN && !evtimer_pending(c->timer, NULL))
        arm(c->timer, 0);
    settle_state(c);
}

void consumer_set_prefetch(struct consumer *c, uint16_t n)
{
    assert(n >= 1 && n <= c->o.prefetch);
    c->prefetch = n;
}

bool consumer_is_up(const struct consumer *c)
{
    return c->sm.state == CONSUMING;
}

bool consumer_is_paused(const struct consumer *c)
{
    return c->sm.state == PAUSED || c->sm.state == PAUSING;
}

const char *consumer_state_name(const struct consumer *c)
{
    return sm_name(&c->sm);
}
