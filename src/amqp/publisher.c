#include "amqp/publisher.h"

#include "amqp/backoff.h"
#include "amqp/channel.h"
#include "amqp/clock.h"
#include "amqp/confirms.h"
#include "amqp/conn.h"
#include "amqp/life.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/sm.h"

#include <event2/event.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * down      no channel: the link is down, or the backoff timer runs
 * opening   channel.open and confirm.select are under way
 * up        publishing
 */
enum state { DOWN, OPENING, UP };

static const struct sm_state states[] = {
    [DOWN] = {"down", SM_TO(OPENING)},
    [OPENING] = {"opening", SM_TO(UP) | SM_TO(DOWN)},
    [UP] = {"up", SM_TO(DOWN)},
};

enum {
    TICKS = 4,    /* the confirm timeout is seen between 1 and 1 + 1/TICKS of it */
    DOUBLINGS = 4 /* of the confirm timeout at most */
};

struct publisher {
    struct link_user user;
    struct sm sm;
    struct life life;
    struct link *link;
    struct publisher_options o;
    char name[64];
    struct channel *ch;
    struct confirms window;
    struct hash_seed seed;
    struct backoff backoff;
    struct event *timer; /* down: the next attempt; opening: the limit of the answers */
    struct event *watch; /* looks at the oldest unconfirmed tag */
    uint64_t watched_tag;
    size_t watched_bytes; /* output that waited at the last tick */
    unsigned n_stuck;     /* ticks that saw no progress */
    unsigned n_timeouts;  /* in a row, without a confirm in between */
};

/* Off the link and the loop, at once: the owner may free the link next, while the memory here waits
 * for the stack. */
static void shut(struct publisher *p)
{
    link_leave(&p->user);
    channel_free(p->ch);
    p->ch = NULL;
    if (p->timer != NULL)
        event_free(p->timer);
    if (p->watch != NULL)
        event_free(p->watch);
    p->timer = p->watch = NULL;
}

static void release(struct publisher *p)
{
    confirms_fini(&p->window);
    free(p);
}

static void leave(struct publisher *p)
{
    if (life_leave(&p->life))
        release(p);
}

void publisher_free(struct publisher *p)
{
    if (p == NULL)
        return;
    shut(p);
    if (life_end(&p->life))
        release(p);
}

/* Which publish was it? */

/* Equal content to the same place has the same fate, so that the oldest of equals may stand for
 * any. The token (absent: none) tells those that we named apart; with the rest beside it, a foreign
 * header that repeats one of ours finds nothing else than its equal. */
static uint64_t key_of(const struct publisher *p, const struct publish *what)
{
    uint64_t parts[5] = {
        hash_bytes(&p->seed, what->exchange.p, what->exchange.n),
        hash_bytes(&p->seed, what->routing_key.p, what->routing_key.n),
        hash_bytes(&p->seed, what->body.p, what->body.n),
        what->token.p != NULL,
        hash_bytes(&p->seed, what->token.p, what->token.n),
    };
    return hash_bytes(&p->seed, parts, sizeof parts);
}

static bool find_returned(struct publisher *p, const struct message *m, struct confirm *out)
{
    struct publish what = {
        .exchange = m->exchange,
        .routing_key = m->routing_key,
        .body = m->body,
        .token = props_header_text(&m->props, text_of("x-harbinger-id")),
    };
    if (confirms_take_key(&p->window, key_of(p, &what), out) == 0)
        return true;
    /* That header may be a foreign one, on a publish that we did not name. */
    what.token = (struct text){0};
    return confirms_take_key(&p->window, key_of(p, &what), out) == 0;
}

/* What the broker says. */

static void on_returned(void *ctx, uint16_t code, struct text why, struct message *m)
{
    struct publisher *p = ctx;
    struct confirm c;
    life_enter(&p->life);
    if (find_returned(p, m, &c)) {
        channel_want_flush(p->ch);
        p->o.on_returned(p->o.ctx, c.cookie, code, why);
    } else {
        struct loss lost = {.kind = LOSS_PROTOCOL,
                            .text = "a returned message is none of those under way"};
        channel_abort(p->ch, &lost);
    }
    message_free(m);
    leave(p);
}

static void settle(struct publisher *p, void *cookie, bool ack)
{
    if (ack)
        p->o.on_confirmed(p->o.ctx, cookie);
    else
        p->o.on_nacked(p->o.ctx, cookie);
}

static void on_confirm(void *ctx, uint64_t tag, bool multiple, bool ack)
{
    struct publisher *p = ctx;
    struct confirm c;
    if (confirms_is_unknown(&p->window, tag)) {
        struct loss lost = {.kind = LOSS_PROTOCOL,
                            .text = "a confirm for what was never published"};
        channel_abort(p->ch, &lost);
        return;
    }
    life_enter(&p->life);
    channel_want_flush(p->ch);
    /* Something got through: the next refusal is about that message, not about the place. */
    p->backoff.n_failures = 0;
    p->n_timeouts = 0;
    while (!p->life.dead && p->sm.state == UP &&
           confirms_take(&p->window, tag, multiple, &c) == 0) {
        settle(p, c.cookie, ack);
        if (!multiple)
            break;
    }
    leave(p);
}

static void on_flush(void *ctx)
{
    struct publisher *p = ctx;
    life_enter(&p->life);
    if (p->o.on_room != NULL && confirms_has_room(&p->window, 0))
        p->o.on_room(p->o.ctx);
    leave(p);
}

static void arm(struct event *timer, mono_t for_ns)
{
    struct timeval tv = clock_timeval(for_ns);
    evtimer_add(timer, &tv);
}

/* The end of a channel. */

static void lose_window(struct publisher *p, const struct loss *why)
{
    struct confirm c;
    while (!p->life.dead && confirms_take(&p->window, 0, true, &c) == 0)
        p->o.on_lost(p->o.ctx, c.cookie, why);
    confirms_reset(&p->window);
}

static void go_down(struct publisher *p, const struct loss *why)
{
    char words[320];
    loss_format(why, words, sizeof words);
    channel_free(p->ch);
    p->ch = NULL;
    sm_move(&p->sm, DOWN);
    evtimer_del(p->watch);
    mono_t delay = backoff_down(&p->backoff, clock_read(), link_jitter(p->link));
    log_event(link_log(p->link), loss_level(why), "publisher.down",
              "publisher=%s unconfirmed=%u retry_ms=%.0f reason=" LOG_Q, p->name, p->window.n_open,
              mono_to_ms(delay), words);
    /* With the link gone its next up opens it; the timer does no harm then. */
    arm(p->timer, delay);
    lose_window(p, why);
    if (!p->life.dead && p->o.on_down != NULL)
        p->o.on_down(p->o.ctx, why);
}

static void on_closed(void *ctx, const struct loss *why)
{
    struct publisher *p = ctx;
    life_enter(&p->life);
    go_down(p, why);
    leave(p);
}

/* Opening. */

static void selected(void *ctx, const amqp_method_t *reply)
{
    struct publisher *p = ctx;
    (void)reply;
    life_enter(&p->life);
    sm_move(&p->sm, UP);
    evtimer_del(p->timer);
    backoff_up(&p->backoff, clock_read());
    p->watched_tag = 0;
    p->watched_bytes = 0;
    p->n_stuck = 0;
    arm(p->watch, p->o.confirm_timeout_for / TICKS);
    log_event(link_log(p->link), LOG_INFO, "publisher.up", "publisher=%s", p->name);
    if (p->o.on_up != NULL)
        p->o.on_up(p->o.ctx);
    leave(p);
}

static void open_channel(struct publisher *p)
{
    struct conn *conn = link_conn(p->link);
    if (conn == NULL || p->sm.state != DOWN)
        return;
    arm(p->timer, p->o.confirm_timeout_for);
    struct channel_options options = {
        .max_message_bytes = UINT64_MAX / 2, /* what comes back is what we sent */
        .on_closed = on_closed,
        .on_returned = on_returned,
        .on_confirm = on_confirm,
        .on_flush = on_flush,
        .ctx = p,
    };
    amqp_confirm_select_t select = {0};
    sm_move(&p->sm, OPENING);
    if (channel_new(conn, &options, &p->ch) < 0 ||
        channel_call(p->ch, AMQP_CONFIRM_SELECT_METHOD, &select, selected) < 0) {
        struct loss why = {.kind = LOSS_NOMEM, .text = "no channel to be had"};
        go_down(p, &why);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct publisher *p = arg;
    (void)fd;
    (void)what;
    life_enter(&p->life);
    if (p->sm.state == DOWN) {
        open_channel(p);
    } else if (link_is_blocked(p->link)) { /* RabbitMQ does not read what has published */
        arm(p->timer, p->o.confirm_timeout_for);
    } else {
        struct loss why = {.kind = LOSS_TIMEOUT, .text = "opening the publisher"};
        channel_abort(p->ch, &why);
    }
    leave(p);
}

/* Since the last tick: another oldest publish, or output that is still going out before it can be
 * confirmed. Blocked, nothing is expected to move. */
static bool is_stuck(struct publisher *p)
{
    uint64_t oldest = confirms_oldest(&p->window);
    size_t waiting = link_pending_bytes(p->link);
    bool moved = oldest != p->watched_tag || waiting < p->watched_bytes;
    p->watched_tag = oldest;
    p->watched_bytes = waiting;
    return oldest != 0 && !moved && !link_is_blocked(p->link);
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
    struct publisher *p = arg;
    (void)fd;
    (void)what;
    p->n_stuck = is_stuck(p) ? p->n_stuck + 1 : 0;
    /* A path that is merely slower than the limit must get through some time. */
    unsigned doublings = p->n_timeouts < DOUBLINGS ? p->n_timeouts : DOUBLINGS;
    if (p->n_stuck < (unsigned)TICKS << doublings)
        return;
    struct loss why = {.kind = LOSS_TIMEOUT};
    snprintf(why.text, sizeof why.text, "publisher %s: no confirm for the oldest of %u publishes",
             p->name, p->window.n_open);
    p->n_stuck = 0;
    p->n_timeouts++;
    link_abort(p->link, &why);
}

static void on_link_up(struct link_user *u)
{
    struct publisher *p = CONTAINER_OF(u, struct publisher, user);
    life_enter(&p->life);
    open_channel(p);
    leave(p);
}

static void on_link_down(struct link_user *u, const struct loss *why)
{
    struct publisher *p = CONTAINER_OF(u, struct publisher, user);
    (void)why;
    evtimer_del(p->timer);
}

/* For the owner. */

int publisher_new(struct link *l, const struct publisher_options *options, struct publisher **out)
{
    struct publisher *p = calloc(1, sizeof *p);
    if (p == NULL)
        return ERR_NOMEM;
    int r = confirms_init(&p->window, options->window_messages, options->window_bytes);
    if (r < 0) {
        free(p);
        return r;
    }
    sm_init(&p->sm, states, DOWN);
    list_init(&p->user.node);
    p->user.on_up = on_link_up;
    p->user.on_down = on_link_down;
    p->link = l;
    p->o = *options;
    if (p->o.confirm_timeout_for <= 0)
        p->o.confirm_timeout_for = 30 * MONO_S;
    p->seed = (struct hash_seed){options->seed, ~options->seed};
    snprintf(p->name, sizeof p->name, "%s", options->name);
    backoff_init(&p->backoff,
                 options->backoff_min_for > 0 ? options->backoff_min_for : 250 * MONO_MS,
                 options->backoff_max_for > 0 ? options->backoff_max_for : 30 * MONO_S);
    p->timer = evtimer_new(link_base(l), on_timer, p);
    p->watch = event_new(link_base(l), -1, EV_PERSIST, on_watch, p);
    if (p->timer == NULL || p->watch == NULL) {
        publisher_free(p);
        return ERR_NOMEM;
    }
    link_join(l, &p->user);
    *out = p;
    return 0;
}

int publisher_publish(struct publisher *p, const struct publish *what)
{
    if (p->sm.state != UP || !channel_is_open(p->ch))
        return PUBLISHER_DOWN;
    if (what->exchange.n > 255 || what->routing_key.n > 255)
        return ERR_INVALID;
    if (what->props.n > codec_max_props(conn_frame_max(channel_conn(p->ch))))
        return PUBLISHER_TOO_BIG;
    struct confirm c = {.cookie = what->cookie, .bytes = what->props.n + what->body.n};
    if (!confirms_has_room(&p->window, c.bytes))
        return PUBLISHER_FULL;
    c.key = key_of(p, what);
    struct codec_content content = {.props = what->props, .body = what->body};
    int r = channel_publish(p->ch, what->exchange, what->routing_key, &content);
    return r < 0 ? r : confirms_add(&p->window, &c);
}

bool publisher_is_up(const struct publisher *p)
{
    return p->sm.state == UP && channel_is_open(p->ch);
}

uint32_t publisher_pending(const struct publisher *p)
{
    return p->window.n_open;
}

bool publisher_has_room(const struct publisher *p, size_t bytes)
{
    return confirms_has_room(&p->window, bytes);
}
