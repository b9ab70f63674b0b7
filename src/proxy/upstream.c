/* What RabbitMQ says. Methods that are not here mean nothing to the proxy. */
#include "amqp/codec.h"
#include "base/err.h"
#include "proxy/chan.h"

/* ---- connection ---- */

/* The client is offered no more than the proxy keeps. */
static int on_tune(struct call *c)
{
    unsigned most = c->s->world->options.max_channels;
    char *channels = args_take(&c->a, 2), *frames = args_take(&c->a, 4);
    if (c->a.cut)
        return FORWARD;
    if (most < UINT16_MAX && (wire_get16(channels) == 0 || wire_get16(channels) > most))
        wire_put16(channels, (uint16_t)most);
    if (wire_get32(frames) == 0 || wire_get32(frames) > CODEC_FRAME_MOST)
        wire_put32(frames, CODEC_FRAME_MOST);
    c->s->channel_max = wire_get16(channels);
    return FORWARD;
}

static int on_open_ok(struct call *c)
{
    if (session_state(c->s) == SESSION_HANDSHAKE)
        sm_move(&c->s->sm, SESSION_OPEN);
    return FORWARD;
}

static int on_close(struct call *c)
{
    enum session_state state = session_state(c->s);
    if (state == SESSION_HANDSHAKE || state == SESSION_OPEN)
        sm_move(&c->s->sm, SESSION_CLOSING);
    return FORWARD;
}

/* It answers in order: all that the client had published has arrived. */
static int on_close_ok(struct call *c)
{
    struct session *s = c->s;
    int r = buf_append(&s->out[SIDE_CLIENT].bytes, c->f->raw, c->f->n_raw);
    for (unsigned i = 0; i < s->n_channels; i++)
        if (s->channels[i] != NULL)
            chan_barrier_end(s->channels[i], true);
    session_end(s, PROXY_PUT_BACK);
    return r < 0 ? r : SWALLOW;
}

/* ---- channel ---- */

static int on_channel_close(struct call *c)
{
    if (c->ch->state == CHAN_OPEN)
        c->ch->state = CHAN_EVICTED;
    return FORWARD;
}

static int on_channel_close_ok(struct call *c)
{
    if (c->ch->state != CHAN_LEAVING)
        return FORWARD;
    chan_barrier_end(c->ch, true);
    chan_free(c->ch);
    return FORWARD;
}

static int on_flow_ok(struct call *c)
{
    if (!barrier_flow_ok(&c->ch->barrier))
        return FORWARD;
    int r = chan_barrier_step(c->ch);
    return r < 0 ? r : SWALLOW;
}

/* ---- queues and consumers ---- */

/* The queue is as long as what RabbitMQ has and what waits here. */
static int on_declare_ok(struct call *c)
{
    const struct proxy_station *station = &c->s->world->station;
    struct text name = args_short(&c->a);
    char *count = args_take(&c->a, 4);
    if (c->a.cut || name.n == 0)
        return FORWARD;
    c->ch->declared = chan_queue_kind(c->ch, name);
    if (c->ch->declared == QUEUE_OTHER || station->waiting == NULL)
        return FORWARD;
    uint64_t sum = wire_get32(count) + station->waiting(station->ctx);
    wire_put32(count, sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX);
    return FORWARD;
}

static int on_consume_ok(struct call *c)
{
    struct text tag = args_short(&c->a);
    struct awaited a;
    if (c->a.cut || !chan_answered(c->ch, false, &a))
        return FORWARD;
    chan_consumer_name(a.consumer, tag);
    chan_consumer_start(a.consumer);
    chan_consumer_release(a.consumer);
    return FORWARD;
}

/* cancel-ok, and its own cancel: the queue is gone. */
static int on_cancel(struct call *c)
{
    struct text tag = args_short(&c->a);
    struct proxy_consumer *consumer = c->a.cut ? NULL : chan_consumer_find(c->ch, tag);
    if (consumer != NULL)
        chan_consumer_cancel(consumer);
    return FORWARD;
}

/* ---- deliveries ---- */

/* RabbitMQ's own delivery gets the client's next number. */
static int number(struct call *c, char *at, struct proxy_consumer *consumer, bool no_ack)
{
    struct chan *ch = c->ch;
    struct tag new = {.kind = TAG_UPSTREAM,
                      .client = ch->last_tag + 1,
                      .id = wire_get64(at),
                      .consumer = consumer};
    int r = no_ack ? 0 : tags_append(&ch->tags, &new);
    if (r < 0)
        return r;
    if (!no_ack && consumer != NULL) {
        ch->counted++;
        consumer->unsettled++;
    }
    wire_put64(at, ++ch->last_tag);
    return FORWARD;
}

static int on_deliver(struct call *c)
{
    struct text tag = args_short(&c->a);
    char *at = args_take(&c->a, 8);
    if (c->a.cut)
        return FORWARD;
    struct proxy_consumer *consumer = chan_consumer_find(c->ch, tag);
    return number(c, at, consumer, consumer != NULL && consumer->no_ack);
}

static int on_get_ok(struct call *c)
{
    char *at = args_take(&c->a, 8);
    struct awaited a;
    if (c->a.cut)
        return FORWARD;
    bool known = chan_answered(c->ch, true, &a);
    return number(c, at, NULL, known && a.no_ack);
}

/* What it had sent between the client's recover and this is void too. */
static int on_recover_ok(struct call *c)
{
    chan_forget_upstream(c->ch);
    c->ch->recovering = false;
    chan_wake(c->ch);
    return FORWARD;
}

/* Of the work queue RabbitMQ has none; there may be one here. */
static int on_get_empty(struct call *c)
{
    struct awaited a;
    if (!chan_answered(c->ch, true, &a) || !a.ours)
        return FORWARD;
    int r = chan_get(c->ch, a.no_ack);
    if (r < 0)
        return r;
    return r == HB_BROKER_EMPTY ? FORWARD : SWALLOW;
}

/* The frequent ones first. */
static const struct handler rows[] = {
    {AMQP_BASIC_DELIVER_METHOD, .handle = on_deliver},
    {AMQP_CHANNEL_FLOW_OK_METHOD, .always = true, .handle = on_flow_ok},
    {AMQP_BASIC_GET_OK_METHOD, .handle = on_get_ok},
    {AMQP_BASIC_GET_EMPTY_METHOD, .handle = on_get_empty},
    {AMQP_BASIC_CONSUME_OK_METHOD, .handle = on_consume_ok},
    {AMQP_BASIC_RECOVER_OK_METHOD, .handle = on_recover_ok},
    {AMQP_BASIC_CANCEL_OK_METHOD, .handle = on_cancel},
    {AMQP_BASIC_CANCEL_METHOD, .handle = on_cancel},
    {AMQP_QUEUE_DECLARE_OK_METHOD, .handle = on_declare_ok},
    {AMQP_CHANNEL_CLOSE_METHOD, .handle = on_channel_close},
    {AMQP_CHANNEL_CLOSE_OK_METHOD, .always = true, .handle = on_channel_close_ok},
    {AMQP_CONNECTION_TUNE_METHOD, .connection = true, .handle = on_tune},
    {AMQP_CONNECTION_OPEN_OK_METHOD, .connection = true, .handle = on_open_ok},
    {AMQP_CONNECTION_CLOSE_METHOD, .connection = true, .handle = on_close},
    {AMQP_CONNECTION_CLOSE_OK_METHOD, .connection = true, .handle = on_close_ok},
};

const struct handlers upstream_handlers = {rows, ARRAY_SIZE(rows)};
