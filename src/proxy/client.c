/* What clients say. Methods that are not here mean nothing to the proxy. */
#include "amqp/codec.h"
#include "amqp/header.h"
#include "base/err.h"
#include "proxy/chan.h"
#include "proxy/frames.h"

#define NO_TAG ((UINT64_C(1) << 63) - 1) /* no channel has come so far: RabbitMQ answers with 406 */

enum { NOT_ALLOWED = 530, NOT_IMPLEMENTED = 540 };

static void leave(struct chan *ch)
{
    ch->state = CHAN_LEAVING;
    chan_settle_all(ch, PROXY_PUT_BACK);
}

/* ---- connection ---- */

/* A frame_max too small for AMQP RabbitMQ refuses; until then it must not harm. */
static int on_tune_ok(struct call *c)
{
    struct session *s = c->s;
    uint16_t channel_max = args_u16(&c->a);
    uint32_t frame_max = args_u32(&c->a);
    uint16_t heartbeat_s = args_u16(&c->a);
    if (c->a.cut || session_state(s) != SESSION_HANDSHAKE)
        return FORWARD;
    if (frame_max == 0 || frame_max > CODEC_FRAME_MOST)
        frame_max = CODEC_FRAME_MOST;
    s->frame_max = frame_max > CODEC_FRAME_MIN ? frame_max : CODEC_FRAME_MIN;
    s->heartbeat_s = heartbeat_s;
    if (channel_max > 0)
        s->channel_max = channel_max;
    split_set_frame_max(&s->in[SIDE_CLIENT], s->frame_max);
    split_set_frame_max(&s->in[SIDE_UPSTREAM], s->frame_max);
    return FORWARD;
}

static int on_open(struct call *c)
{
    c->s->serves = text_equal(args_short(&c->a), text_of(c->s->world->station.vhost)) && !c->a.cut;
    return FORWARD;
}

static int on_close(struct call *c)
{
    struct session *s = c->s;
    if (session_state(s) == SESSION_HANDSHAKE || session_state(s) == SESSION_OPEN)
        sm_move(&s->sm, SESSION_CLOSING);
    for (unsigned i = 0; i < s->n_channels; i++)
        if (s->channels[i] != NULL)
            leave(s->channels[i]);
    return FORWARD;
}

/* The answer to RabbitMQ's close: what the client sent before has been heard. */
static int on_close_ok(struct call *c)
{
    int r = buf_append(&c->s->out[SIDE_UPSTREAM].bytes, c->f->raw, c->f->n_raw);
    session_end(c->s, PROXY_FAIL);
    return r < 0 ? r : SWALLOW;
}

/* ---- channel ---- */

static int on_channel_open(struct call *c)
{
    if (c->ch != NULL && c->ch->state == CHAN_OPEN)
        return FORWARD;
    if (c->f->channel > c->s->channel_max)
        return session_refuse(c->s, NOT_ALLOWED, "NOT_ALLOWED - channel number over channel_max",
                              AMQP_CHANNEL_OPEN_METHOD) < 0
                   ? ERR_NOMEM
                   : SWALLOW;
    if (c->ch != NULL) {
        chan_barrier_end(c->ch, false);
        chan_settle_all(c->ch, PROXY_FAIL);
        chan_free(c->ch);
    }
    return chan_new(c->s, c->f->channel) != NULL ? FORWARD : ERR_NOMEM;
}

static int on_channel_close(struct call *c)
{
    leave(c->ch);
    return FORWARD;
}

static int on_channel_close_ok(struct call *c)
{
    if (c->ch->state != CHAN_EVICTED)
        return FORWARD;
    chan_barrier_end(c->ch, false);
    chan_settle_all(c->ch, PROXY_FAIL);
    chan_free(c->ch);
    return FORWARD;
}

static int on_flow(struct call *c)
{
    bool active = args_u8(&c->a) != 0;
    if (c->a.cut)
        return FORWARD;
    c->ch->flow_off = !active;
    barrier_flow_of_client(&c->ch->barrier);
    if (active)
        chan_wake(c->ch);
    return FORWARD;
}

/* ---- queues and consumers ---- */

/* Of a transaction only RabbitMQ knows when its acks count. */
static int refuse_tx(struct session *s, uint32_t method)
{
    s->world->stats.refused_tx++;
    int r = session_refuse(s, NOT_IMPLEMENTED,
                           "NOT_IMPLEMENTED - transactions on a channel of the work queue", method);
    return r < 0 ? r : SWALLOW;
}

static int on_tx_select(struct call *c)
{
    bool ours = c->ch->get_number != 0;
    for (struct list *node = c->ch->consumers.next; node != &c->ch->consumers; node = node->next)
        ours = ours || LIST_ENTRY(node, struct proxy_consumer, node)->ours;
    if (ours)
        return refuse_tx(c->s, AMQP_TX_SELECT_METHOD);
    c->ch->tx = true;
    return FORWARD;
}

/* With nowait nothing comes back that would name the queue. */
static int on_declare(struct call *c)
{
    enum { NOWAIT = 16 };
    args_u16(&c->a);
    struct text name = args_short(&c->a);
    if ((args_u8(&c->a) & NOWAIT) != 0 && !c->a.cut && name.n > 0)
        c->ch->declared = chan_queue_kind(c->ch, name);
    return FORWARD;
}

static int on_qos(struct call *c)
{
    args_u32(&c->a); /* a size, which RabbitMQ does not implement */
    uint16_t count = args_u16(&c->a);
    bool global = args_u8(&c->a) != 0;
    if (c->a.cut)
        return FORWARD;
    qos_ask(global ? &c->ch->all : &c->ch->each, count);
    for (struct list *node = c->ch->consumers.next; global && node != &c->ch->consumers;
         node = node->next)
        chan_consumer_wake(LIST_ENTRY(node, struct proxy_consumer, node));
    chan_wake(c->ch);
    return FORWARD;
}

/* A request on the intake goes to the work queue, which is the same one for workers; so does one
 * without a name after a declaration of the intake. */
static int forward_renamed(struct call *c, enum queue_kind kind, size_t n_name)
{
    enum { NAME_AT = 4 + 2 };
    struct session *s = c->s;
    if (kind != QUEUE_INTAKE)
        return FORWARD;
    session_touch(s);
    int r = frames_put_renamed(&s->out[SIDE_UPSTREAM].bytes, c->f, text_of(s->world->station.work),
                               NAME_AT, n_name);
    return r < 0 ? r : SWALLOW;
}

/* What a consumer's arguments say of its priority; without any it is 0, as RabbitMQ has it. */
static double priority_of(struct text arguments)
{
    struct header h;
    size_t at = 0;
    double priority;
    while (header_next(arguments, true, &at, &h) == 0)
        if (text_equal(h.name, text_of("x-priority")) && header_number(&h, &priority))
            return priority;
    return 0;
}

static int on_consume(struct call *c)
{
    enum { NO_ACK = 2, NOWAIT = 8 };
    args_u16(&c->a);
    struct text queue = args_short(&c->a), tag = args_short(&c->a);
    uint8_t bits = args_u8(&c->a);
    if (c->a.cut)
        return FORWARD;
    enum queue_kind kind = chan_queue_kind(c->ch, queue);
    if (kind != QUEUE_OTHER && c->ch->tx)
        return refuse_tx(c->s, AMQP_BASIC_CONSUME_METHOD);
    if (c->s->n_consumers >= c->s->world->options.max_consumers)
        return ERR_INVALID;
    struct proxy_consumer *new = chan_consumer_new(c->ch);
    if (new == NULL)
        return ERR_NOMEM;
    new->ours = kind != QUEUE_OTHER;
    new->number = new->ours ? world_number(c->s->world) : 0;
    new->no_ack = (bits & NO_ACK) != 0;
    new->priority = priority_of(args_long(&c->a));
    new->qos = c->ch->each;
    chan_consumer_name(new, tag);
    int r = 0;
    if ((bits & NOWAIT) != 0)
        chan_consumer_start(new);
    else
        r = chan_await(c->ch, &(struct awaited){.consumer = new});
    return r < 0 ? r : forward_renamed(c, kind, queue.n);
}

static int on_cancel(struct call *c)
{
    struct text tag = args_short(&c->a);
    bool nowait = (args_u8(&c->a) & 1) != 0;
    struct proxy_consumer *consumer = c->a.cut ? NULL : chan_consumer_find(c->ch, tag);
    if (consumer == NULL)
        return FORWARD;
    consumer->left_at = c->s->world->now;
    if (nowait)
        chan_consumer_cancel(consumer);
    else
        chan_consumer_stop(consumer);
    return FORWARD;
}

static int on_get(struct call *c)
{
    args_u16(&c->a);
    struct text queue = args_short(&c->a);
    bool no_ack = args_u8(&c->a) != 0;
    if (c->a.cut)
        return FORWARD;
    enum queue_kind kind = chan_queue_kind(c->ch, queue);
    if (kind != QUEUE_OTHER && c->ch->tx)
        return refuse_tx(c->s, AMQP_BASIC_GET_METHOD);
    struct awaited a = {.ours = kind != QUEUE_OTHER, .no_ack = no_ack};
    int r = chan_await(c->ch, &a);
    return r < 0 ? r : forward_renamed(c, kind, queue.n);
}

/* ---- settlement ---- */

static int forward_tag(char *at, uint64_t tag)
{
    wire_put64(at, tag);
    return FORWARD;
}

static int unknown_tag(struct call *c, char *at)
{
    c->s->world->stats.unknown_tags++;
    return forward_tag(at, NO_TAG);
}

static int settle_one(struct call *c, char *at, enum proxy_outcome outcome)
{
    struct tag *tag = tags_find(&c->ch->tags, wire_get64(at));
    if (tag == NULL)
        return unknown_tag(c, at);
    bool ours = tag->kind == TAG_OURS;
    uint64_t id = tag->id;
    int r = chan_settle(c->ch, tag, outcome);
    if (r < 0)
        return r;
    return ours ? SWALLOW : forward_tag(at, id);
}

/* All up to one; 0 means all that the client has seen, which RabbitMQ must not be told so: it has
 * sent more meanwhile. What RabbitMQ is told must be unsettled itself, so it gets its newest. */
static int settle_up_to(struct call *c, char *at, enum proxy_outcome outcome)
{
    struct tags *tags = &c->ch->tags;
    uint64_t last = wire_get64(at);
    if (last == 0)
        last = c->ch->last_tag;
    else if (tags_find(tags, last) == NULL)
        return unknown_tag(c, at);
    const struct tag *upstream = tags_newest_of(tags, TAG_UPSTREAM, last);
    uint64_t id = upstream != NULL ? upstream->id : 0;
    struct tag *tag;
    for (uint64_t from = 0; (tag = tags_from(tags, from)) != NULL && tag->client <= last;) {
        from = tag->client + 1;
        int r = chan_settle(c->ch, tag, outcome);
        if (r < 0)
            return r;
    }
    return id > 0 ? forward_tag(at, id) : SWALLOW;
}

enum { MULTIPLE = 1 };

static int on_ack(struct call *c)
{
    char *at = args_take(&c->a, 8);
    uint8_t bits = args_u8(&c->a);
    if (c->a.cut)
        return FORWARD;
    return (bits & MULTIPLE) != 0 ? settle_up_to(c, at, PROXY_ACK) : settle_one(c, at, PROXY_ACK);
}

static int on_nack(struct call *c)
{
    enum { REQUEUE = 2 };
    char *at = args_take(&c->a, 8);
    uint8_t bits = args_u8(&c->a);
    if (c->a.cut)
        return FORWARD;
    enum proxy_outcome outcome = (bits & REQUEUE) != 0 ? PROXY_FAIL : PROXY_DISCARD;
    return (bits & MULTIPLE) != 0 ? settle_up_to(c, at, outcome) : settle_one(c, at, outcome);
}

static int on_reject(struct call *c)
{
    char *at = args_take(&c->a, 8);
    bool requeue = args_u8(&c->a) != 0;
    return c->a.cut ? FORWARD : settle_one(c, at, requeue ? PROXY_FAIL : PROXY_DISCARD);
}

/* RabbitMQ's are delivered again under new tags. */
static int on_recover(struct call *c)
{
    bool requeue = args_u8(&c->a) != 0;
    if (requeue && !c->a.cut) {
        chan_end_returns(c->ch, MONO_NEVER);
        chan_settle_all(c->ch, PROXY_PUT_BACK);
    }
    return FORWARD;
}

static int on_recover_with_answer(struct call *c)
{
    c->ch->recovering = true;
    return on_recover(c);
}

static int on_publish(struct call *c)
{
    args_u16(&c->a);
    struct text exchange = args_short(&c->a), routing_key = args_short(&c->a);
    c->ch->barrier.published = true;
    if (c->s->world->station.learn != NULL && !c->a.cut &&
        runtimes_are_events(exchange, routing_key)) {
        c->s->event_channel = c->ch->number;
        buf_reset(&c->s->event);
    }
    return FORWARD;
}

/* The frequent ones first. */
static const struct handler rows[] = {
    {AMQP_BASIC_ACK_METHOD, .handle = on_ack},
    {AMQP_BASIC_PUBLISH_METHOD, .handle = on_publish},
    {AMQP_BASIC_GET_METHOD, .handle = on_get},
    {AMQP_BASIC_NACK_METHOD, .handle = on_nack},
    {AMQP_BASIC_REJECT_METHOD, .handle = on_reject},
    {AMQP_BASIC_QOS_METHOD, .handle = on_qos},
    {AMQP_BASIC_CONSUME_METHOD, .handle = on_consume},
    {AMQP_BASIC_CANCEL_METHOD, .handle = on_cancel},
    {AMQP_BASIC_RECOVER_METHOD, .handle = on_recover_with_answer},
    {AMQP_BASIC_RECOVER_ASYNC_METHOD, .handle = on_recover},
    {AMQP_QUEUE_DECLARE_METHOD, .handle = on_declare},
    {AMQP_TX_SELECT_METHOD, .handle = on_tx_select},
    {AMQP_CHANNEL_OPEN_METHOD, .always = true, .handle = on_channel_open},
    {AMQP_CHANNEL_FLOW_METHOD, .handle = on_flow},
    {AMQP_CHANNEL_CLOSE_METHOD, .handle = on_channel_close},
    {AMQP_CHANNEL_CLOSE_OK_METHOD, .handle = on_channel_close_ok},
    {AMQP_CONNECTION_START_OK_METHOD, .connection = true, .handle = login_start_ok},
    {AMQP_CONNECTION_TUNE_OK_METHOD, .connection = true, .handle = on_tune_ok},
    {AMQP_CONNECTION_OPEN_METHOD, .connection = true, .handle = on_open},
    {AMQP_CONNECTION_CLOSE_METHOD, .connection = true, .handle = on_close},
    {AMQP_CONNECTION_CLOSE_OK_METHOD, .connection = true, .handle = on_close_ok},
};

const struct handlers client_handlers = {rows, ARRAY_SIZE(rows)};
