/*
 * Who gets the next message. Those who could take one stand in line (world.ready), by priority and
 * then by arrival; whoever is at the front and cannot is put where what it lacks will be noticed, so
 * nobody is looked for:
 *
 *   its own window is full                        no list: its next settlement wakes it
 *   its channel's window; a content, recover or   chan.stalled
 *   flow off there
 *   too much waits to be sent to its client       session.stalled
 */
#include "proxy/chan.h"

#include "base/err.h"
#include "proxy/frames.h"

enum { PUMP_MOST = 4096 /* deliveries in one go */ };

/* ---- windows ---- */

uint32_t chan_window(const struct chan *ch)
{
    return qos_window(&ch->all, QOS_NO_LIMIT,
                      ch->all.asked > 0 ? ch->session->world->options.max_window : 0);
}

/* One without a limit of its own is bound by its channel's, where there is one. */
uint32_t chan_consumer_window(const struct proxy_consumer *c)
{
    const struct proxy_options *o = &c->chan->session->world->options;
    if (c->qos.asked == 0 && c->chan->all.asked > 0)
        return QOS_NO_LIMIT;
    return qos_window(&c->qos, o->unlimited_window, o->max_window);
}

static bool is_serving(const struct chan *ch)
{
    return ch->state == CHAN_OPEN && session_state(ch->session) == SESSION_OPEN;
}

static bool channel_is_blocked(const struct proxy_consumer *c)
{
    const struct chan *ch = c->chan;
    if (ch->flow_off || ch->recovering || content_is_under_way(&ch->content[SIDE_UPSTREAM]))
        return true;
    return !c->no_ack && (ch->counted >= chan_window(ch) || ch->tags.n_live >= TAGS_MAX);
}

static bool consumer_is_full(const struct proxy_consumer *c)
{
    return !c->no_ack && c->unsettled >= chan_consumer_window(c);
}

/* ---- turns ---- */

/* Behind those of its own priority and of higher ones: nearly always at the end. */
static void line_up(struct proxy_consumer *c)
{
    struct list *ready = &c->chan->session->world->ready, *behind = ready;
    while (behind->prev != ready &&
           LIST_ENTRY(behind->prev, struct proxy_consumer, ready)->priority < c->priority)
        behind = behind->prev;
    list_insert_before(behind, &c->ready);
}

void chan_consumer_wake(struct proxy_consumer *c)
{
    if (c->ours && c->active && list_empty(&c->ready) && !consumer_is_full(c))
        line_up(c);
}

void chan_wake(struct chan *ch)
{
    struct list *node;
    /* At most as many as there is room for: one settlement of a thousand consumers' common window is
     * no reason to look at all of them. The rest is woken by what those settle. */
    uint32_t room = ch->counted < chan_window(ch) ? chan_window(ch) - ch->counted : 1;
    while (room-- > 0 && (node = list_first(&ch->stalled)) != NULL) {
        list_remove(node);
        line_up(LIST_ENTRY(node, struct proxy_consumer, ready));
    }
}

bool session_drained(struct session *s)
{
    struct list *node;
    bool any = false;
    while (!session_is_full(s) && (node = list_first(&s->stalled)) != NULL) {
        list_remove(node);
        line_up(LIST_ENTRY(node, struct proxy_consumer, ready));
        any = true;
    }
    return any;
}

bool session_is_full(const struct session *s)
{
    return outbox_bytes(&s->out[SIDE_CLIENT]) >= s->world->options.max_connection_bytes;
}

/* Puts one that cannot take a message where it will be woken. False when it can. */
static bool park(struct proxy_consumer *c)
{
    if (!is_serving(c->chan) || consumer_is_full(c))
        return true;
    if (channel_is_blocked(c)) {
        list_push_back(&c->chan->stalled, &c->ready);
        return true;
    }
    if (session_is_full(c->chan->session)) {
        list_push_back(&c->chan->session->stalled, &c->ready);
        return true;
    }
    return false;
}

/* ---- deliveries ---- */

static int pull(struct world *w, uint64_t number, struct proxy_delivery *d)
{
    w->used = true;
    return w->station.pull(w->station.ctx, number, d);
}

static void put_back(struct world *w, uint64_t number, const struct proxy_delivery *d)
{
    struct proxy_settlement s = {.consumer = number,
                                 .id = d->id,
                                 .token = d->token,
                                 .outcome = PROXY_PUT_BACK,
                                 .duration_ms = -1};
    w->stats.settled[PROXY_PUT_BACK]++;
    if (w->station.settle(w->station.ctx, &s) != HB_BROKER_OK)
        w->stats.stale++;
}

/* What needs no ack has been handled when it is sent. */
static void settle_unasked(struct world *w, uint64_t number, const struct proxy_delivery *d)
{
    struct proxy_settlement s = {.consumer = number,
                                 .id = d->id,
                                 .token = d->token,
                                 .outcome = PROXY_ACK,
                                 .duration_ms = -1};
    w->stats.settled[PROXY_ACK]++;
    w->stats.no_acks++;
    if (w->station.settle(w->station.ctx, &s) != HB_BROKER_OK)
        w->stats.stale++;
}

/* To whom a delivery goes. */
struct receiver {
    struct chan *chan;
    struct proxy_consumer *consumer; /* NULL: basic.get */
    uint64_t number;
    bool no_ack;
    uint32_t left; /* basic.get: messages that still wait */
    bool evented;  /* an event may tell how long it takes */
};

static int put_frames(const struct receiver *to, const struct proxy_delivery *d, uint64_t tag)
{
    struct session *s = to->chan->session;
    struct frames_place at = {to->chan->number, s->frame_max, tag};
    struct buf *out = &s->out[SIDE_CLIENT].bytes;
    if (to->consumer == NULL)
        return frames_put_get_ok(out, &at, to->left, d);
    return frames_put_deliver(out, &at, (struct text){to->consumer->tag, to->consumer->n_tag}, d);
}

static int remember(const struct receiver *to, const struct proxy_delivery *d, uint64_t tag)
{
    struct chan *ch = to->chan;
    struct tag new = {.kind = TAG_OURS,
                      .client = tag,
                      .id = d->id,
                      .token = d->token,
                      .at = ch->session->world->now,
                      .evented = to->evented,
                      .consumer = to->consumer};
    int r = tags_append(&ch->tags, &new);
    if (r < 0)
        return r;
    ch->session->in_flight++;
    ch->session->world->stats.in_flight++;
    if (to->consumer != NULL) {
        to->consumer->unsettled++;
        ch->counted++;
    }
    return 0;
}

/* On failure the message is back where it was. */
static int deliver(struct receiver *to, const struct proxy_delivery *d)
{
    struct session *s = to->chan->session;
    to->evented = s->world->station.learn != NULL && runtimes_remember(&s->world->runtimes, d);
    struct outbox *out = &s->out[SIDE_CLIENT];
    size_t before = out->bytes.n;
    int r = put_frames(to, d, to->chan->last_tag + 1);
    if (r == 0 && !to->no_ack)
        r = remember(to, d, to->chan->last_tag + 1);
    if (r < 0) {
        out->bytes.n = before;
        put_back(s->world, to->number, d);
        return r;
    }
    to->chan->last_tag++;
    s->delivered++;
    s->world->stats.delivered++;
    if (to->no_ack)
        settle_unasked(s->world, to->number, d);
    session_touch(s);
    return 0;
}

/* HB_BROKER_OK, EMPTY, or negative: nothing was delivered. */
static int serve(struct proxy_consumer *c)
{
    struct proxy_delivery d;
    struct receiver to = {.chan = c->chan, .consumer = c, .number = c->number, .no_ack = c->no_ack};
    int r = pull(c->chan->session->world, c->number, &d);
    return r == HB_BROKER_OK ? deliver(&to, &d) : r;
}

bool world_pump(struct world *w)
{
    struct list *node;
    if (w->shut || list_empty(&w->ready) || w->station.draining(w->station.ctx))
        return false;
    for (int n = 0; (node = list_first(&w->ready)) != NULL;) {
        struct proxy_consumer *c = LIST_ENTRY(node, struct proxy_consumer, ready);
        list_remove(node);
        if (park(c))
            continue;
        int r = serve(c);
        if (r != HB_BROKER_OK) {
            list_push_front(&w->ready, node);
            return false;
        }
        chan_consumer_wake(c);
        if (++n == PUMP_MOST)
            return true;
    }
    return false;
}

static uint32_t messages_left(struct world *w)
{
    uint64_t n = w->station.waiting != NULL ? w->station.waiting(w->station.ctx) : 0;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

int chan_get(struct chan *ch, bool no_ack)
{
    struct world *w = ch->session->world;
    struct proxy_delivery d;
    if (!is_serving(ch) || w->shut || w->station.draining(w->station.ctx))
        return HB_BROKER_EMPTY;
    if (ch->get_number == 0)
        ch->get_number = world_number(w);
    struct receiver to = {.chan = ch, .number = ch->get_number, .no_ack = no_ack};
    int r = pull(w, to.number, &d);
    if (r != HB_BROKER_OK)
        return r > 0 ? HB_BROKER_EMPTY : ERR_NOMEM;
    to.left = messages_left(w);
    return deliver(&to, &d);
}
