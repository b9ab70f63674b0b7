#include "proxy/session.h"

#include "amqp/codec.h"
#include "base/err.h"
#include "proxy/chan.h"
#include "proxy/frames.h"

#include <stdlib.h>
#include <string.h>

static const struct sm_state states[] = {
    [SESSION_GREETING] = {"connecting",
                          SM_TO(SESSION_HANDSHAKE) | SM_TO(SESSION_TUNNEL) | SM_TO(SESSION_ENDED)},
    [SESSION_HANDSHAKE] = {"handshake", SM_TO(SESSION_OPEN) | SM_TO(SESSION_CLOSING) |
                                            SM_TO(SESSION_REFUSED) | SM_TO(SESSION_ENDED)},
    [SESSION_OPEN] = {"open",
                      SM_TO(SESSION_CLOSING) | SM_TO(SESSION_REFUSED) | SM_TO(SESSION_ENDED)},
    [SESSION_CLOSING] = {"closing", SM_TO(SESSION_ENDED)},
    [SESSION_REFUSED] = {"closing", SM_TO(SESSION_ENDED)},
    [SESSION_TUNNEL] = {"tunnel", SM_TO(SESSION_ENDED)},
    [SESSION_ENDED] = {"ended", 0},
};

enum { RESOURCE_ERROR = 506 };

/* ---- life ---- */

void session_init(struct session *s, struct world *w, bool local)
{
    *s = (struct session){.world = w, .local = local};
    sm_init(&s->sm, states, SESSION_GREETING);
    list_init(&s->stalled);
    list_init(&s->dirty);
    s->frame_max = CODEC_FRAME_MAX;
    s->channel_max = UINT16_MAX;
    split_init(&s->in[SIDE_CLIENT], true, CODEC_FRAME_MAX);
    split_init(&s->in[SIDE_UPSTREAM], false, CODEC_FRAME_MAX);
}

void session_fini(struct session *s)
{
    for (unsigned i = 0; i < s->n_channels; i++)
        if (s->channels[i] != NULL)
            chan_free(s->channels[i]);
    free(s->channels);
    buf_fini(&s->event);
    for (int side = 0; side < 2; side++) {
        split_fini(&s->in[side]);
        buf_fini(&s->out[side].bytes);
    }
    list_remove(&s->dirty);
}

void session_touch(struct session *s)
{
    if (list_empty(&s->dirty))
        list_push_back(&s->world->dirty, &s->dirty);
}

static void settle_everything(struct session *s, enum proxy_outcome outcome)
{
    for (unsigned i = 0; i < s->n_channels; i++) {
        if (s->channels[i] == NULL)
            continue;
        chan_barrier_end(s->channels[i], false);
        chan_settle_all(s->channels[i], outcome);
    }
}

void session_end(struct session *s, enum proxy_outcome outcome)
{
    if (session_state(s) == SESSION_ENDED)
        return;
    sm_move(&s->sm, SESSION_ENDED);
    settle_everything(s, outcome);
    for (unsigned i = 0; i < s->n_channels; i++)
        if (s->channels[i] != NULL)
            chan_free(s->channels[i]);
    session_touch(s);
}

int session_refuse(struct session *s, uint16_t code, const char *text, uint32_t method)
{
    bool was_open = session_state(s) == SESSION_OPEN;
    if (!was_open && session_state(s) != SESSION_HANDSHAKE)
        return 0;
    sm_move(&s->sm, SESSION_REFUSED);
    settle_everything(s, PROXY_FAIL);
    session_touch(s);
    int r = frames_put_close(&s->out[SIDE_CLIENT].bytes, code, text, method);
    if (r == 0 && was_open)
        r = frames_put_close(&s->out[SIDE_UPSTREAM].bytes, code, text, method);
    return r;
}

size_t session_held_bytes(const struct session *s)
{
    size_t n = s->event.n;
    for (int side = 0; side < 2; side++)
        n += outbox_bytes(&s->out[side]) + split_held_bytes(&s->in[side]);
    return n;
}

static uint32_t window_of(struct chan *ch)
{
    uint64_t sum = 0;
    for (struct list *node = ch->consumers.next; node != &ch->consumers; node = node->next) {
        const struct proxy_consumer *c = LIST_ENTRY(node, struct proxy_consumer, node);
        if (c->ours && c->active)
            sum += c->no_ack ? QOS_NO_LIMIT : chan_consumer_window(c);
    }
    return (uint32_t)(sum < chan_window(ch) ? sum : chan_window(ch));
}

uint32_t session_window(const struct session *s)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < s->n_channels; i++)
        if (s->channels[i] != NULL)
            sum += window_of(s->channels[i]);
    return sum < QOS_NO_LIMIT ? (uint32_t)sum : QOS_NO_LIMIT;
}

/* ---- frames ---- */

static enum side other(enum side side)
{
    return side == SIDE_CLIENT ? SIDE_UPSTREAM : SIDE_CLIENT;
}

static bool begins_content(enum side from, uint32_t method)
{
    if (from == SIDE_CLIENT)
        return method == AMQP_BASIC_PUBLISH_METHOD;
    return method == AMQP_BASIC_DELIVER_METHOD || method == AMQP_BASIC_GET_OK_METHOD ||
           method == AMQP_BASIC_RETURN_METHOD;
}

/* Too large or no memory: it is not read. */
static void keep_event(struct session *s, const struct frame *f)
{
    if (s->event_channel == f->channel &&
        (s->event.n + f->n > RUNTIMES_EVENT_BYTES || buf_append(&s->event, f->payload, f->n) < 0))
        s->event_channel = 0;
}

static void read_event(struct session *s, uint16_t channel)
{
    struct world *w = s->world;
    if (s->event_channel != channel)
        return;
    s->event_channel = 0;
    w->stats.event_runtimes +=
        runtimes_read(&w->runtimes, (struct text){s->event.p, s->event.n}, w->now, &w->station);
    buf_fini(&s->event);
}

/* A content is over: what could not come in between may now. */
static int content_ended(struct chan *ch, enum side from)
{
    if (from == SIDE_CLIENT) {
        read_event(ch->session, ch->number);
        return chan_barrier_step(ch);
    }
    chan_wake(ch);
    return 0;
}

/* Counts a content's frames when they are on their way. A wrong one is RabbitMQ's to judge, or the
 * client's. */
static int follow_content(struct session *s, enum side from, const struct frame *f)
{
    struct chan *ch = chan_of(s, f->channel);
    if (ch == NULL)
        return 0;
    struct content *c = &ch->content[from];
    if (f->type == AMQP_FRAME_HEADER && c->header_due) {
        c->header_due = false;
        c->body_left = f->n >= CODEC_CONTENT_HEADER ? wire_get64(f->payload + 4) : 0;
    } else if (f->type == AMQP_FRAME_BODY && c->body_left > 0) {
        c->body_left -= f->n < c->body_left ? f->n : c->body_left;
        if (from == SIDE_CLIENT)
            keep_event(s, f);
    } else {
        return 0;
    }
    return content_is_under_way(c) ? 0 : content_ended(ch, from);
}

static const struct handler *handler_of(const struct handlers *all, uint32_t method)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].method == method)
            return &all->v[i];
    return NULL;
}

static int handle_method(struct session *s, enum side from, struct frame *f)
{
    struct call c = {s, chan_of(s, f->channel), f, {f->payload, f->n, false}};
    uint32_t method = args_u32(&c.a);
    if (c.ch != NULL)
        c.ch->content[from] = (struct content){.header_due = begins_content(from, method)};
    const struct handler *h =
        handler_of(from == SIDE_CLIENT ? &client_handlers : &upstream_handlers, method);
    if (h == NULL || h->connection != (f->channel == 0))
        return FORWARD;
    bool opens = method == AMQP_CHANNEL_OPEN_METHOD;
    if (!h->connection && !opens && c.ch == NULL)
        return FORWARD;
    if (c.ch != NULL && c.ch->state == CHAN_LEAVING && !h->always)
        return FORWARD;
    return h->handle(&c);
}

/* Between refusal and the client's close-ok nothing else is heard. */
static int await_close_ok(struct session *s, enum side from, const struct frame *f)
{
    if (from == SIDE_CLIENT && f->type == AMQP_FRAME_METHOD && f->channel == 0 && f->n >= 4 &&
        wire_get32(f->payload) == AMQP_CONNECTION_CLOSE_OK_METHOD)
        session_end(s, PROXY_FAIL);
    return SWALLOW;
}

static int handle_greeting(struct session *s, const struct frame *f)
{
    bool ours = memcmp(f->raw, "AMQP\0\0\x09\x01", SPLIT_GREETING) == 0;
    sm_move(&s->sm, ours ? SESSION_HANDSHAKE : SESSION_TUNNEL);
    return FORWARD;
}

static int handle_frame(struct session *s, enum side from, struct frame *f)
{
    if (f->type == SPLIT_GREETING_TYPE)
        return handle_greeting(s, f);
    if (session_state(s) == SESSION_REFUSED)
        return await_close_ok(s, from, f);
    return f->type == AMQP_FRAME_METHOD ? handle_method(s, from, f) : FORWARD;
}

static int hand_on(struct session *s, enum side from, const char *bytes, size_t n)
{
    session_touch(s);
    return buf_append(&s->out[other(from)].bytes, bytes, n);
}

static int forward(struct session *s, enum side from, const struct frame *f)
{
    int r = hand_on(s, from, f->raw, f->n_raw);
    return r == 0 ? follow_content(s, from, f) : r;
}

/* One of the tables is full: only this client is to blame. */
static int refuse_excess(struct session *s)
{
    return session_refuse(s, RESOURCE_ERROR, "RESOURCE_ERROR - more at once than the proxy keeps",
                          0);
}

int session_input(struct session *s, enum side from, char *bytes, size_t n)
{
    while (session_state(s) != SESSION_ENDED) {
        if (session_state(s) == SESSION_TUNNEL)
            return n > 0 ? hand_on(s, from, bytes, n) : 0;
        struct frame f;
        int r = split_next(&s->in[from], &bytes, &n, &f);
        if (r == SPLIT_MORE)
            return 0;
        if (r < 0) {
            s->why = r == ERR_PROTOCOL ? s->in[from].error : err_name(r);
            return r;
        }
        r = handle_frame(s, from, &f);
        if (r == FORWARD)
            r = forward(s, from, &f);
        else if (r == ERR_INVALID)
            r = refuse_excess(s);
        if (r < 0) {
            s->why = err_name(r);
            return r;
        }
    }
    return 0;
}
