#include "amqp/channel.h"

#include "amqp/conn.h"
#include "amqp/life.h"
#include "base/err.h"
#include "base/list.h"
#include "base/sm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * opening   channel.open sent
 * open      open-ok came
 * closing   channel.close sent: everything but its answer is discarded
 * closed    over; detached from the connection
 */
enum state { OPENING, OPEN, CLOSING, CLOSED };

static const struct sm_state states[] = {
    [OPENING] = {"opening", SM_TO(OPEN) | SM_TO(CLOSING) | SM_TO(CLOSED)},
    [OPEN] = {"open", SM_TO(CLOSING) | SM_TO(CLOSED)},
    [CLOSING] = {"closing", SM_TO(CLOSED)},
    [CLOSED] = {"closed", 0},
};

/* A queued synchronous method: its frame, and who gets the answer. */
struct call {
    struct list node;
    amqp_method_number_t id;
    void (*done)(void *ctx, const amqp_method_t *reply);
    size_t n;
    char frame[];
};

/* A content that is arriving. `what` is 0 between contents. */
struct content {
    amqp_method_number_t what; /* AMQP_BASIC_DELIVER_METHOD or _RETURN_ */
    uint64_t tag;
    bool redelivered;
    uint16_t code;
    char why[256], exchange[256], routing_key[256];
    size_t n_why, n_exchange, n_routing_key;
    struct message *m; /* NULL until the header came, or while it is skipped */
    bool has_header;
    uint64_t body_bytes, got_bytes;
};

struct channel {
    struct sm sm;
    struct life life;
    struct conn *conn; /* NULL once detached */
    uint16_t number;
    bool wants_flush;
    bool aborted; /* closing by channel_abort: the owner is to be told `abort_why` */
    struct loss abort_why;
    struct list calls; /* the first one is on the wire */
    struct content content;
    struct channel_options o;
};

static void drop_content(struct channel *ch)
{
    message_free(ch->content.m);
    ch->content = (struct content){0};
}

static void release(struct channel *ch)
{
    struct list *node;
    while ((node = list_first(&ch->calls)) != NULL) {
        list_remove(node);
        free(LIST_ENTRY(node, struct call, node));
    }
    drop_content(ch);
    free(ch);
}

/* Off the connection; the number is free again. */
static void detach(struct channel *ch)
{
    sm_move(&ch->sm, CLOSED);
    if (ch->conn != NULL)
        conn_detach(ch->conn, ch->number);
    ch->conn = NULL;
}

static void leave(struct channel *ch)
{
    /* One that is closing lives on until the broker answers: the connection holds it. */
    if (life_leave(&ch->life) && ch->sm.state == CLOSED)
        release(ch);
}

int channel_new(struct conn *c, const struct channel_options *options, struct channel **out)
{
    if (!conn_is_up(c))
        return ERR_LOST;
    struct channel *ch = calloc(1, sizeof *ch);
    if (ch == NULL)
        return ERR_NOMEM;
    sm_init(&ch->sm, states, OPENING);
    list_init(&ch->calls);
    ch->o = *options;
    ch->conn = c;
    ch->number = conn_attach(c, ch);
    if (ch->number == 0) {
        free(ch);
        return ERR_REFUSED;
    }
    amqp_channel_open_t open = {.out_of_band = amqp_empty_bytes};
    int r = channel_call(ch, AMQP_CHANNEL_OPEN_METHOD, &open, NULL);
    if (r < 0) {
        conn_detach(c, ch->number);
        release(ch);
        return r;
    }
    *out = ch;
    return 0;
}

static void say_close(struct channel *ch)
{
    amqp_channel_close_t close = {.reply_code = AMQP_REPLY_SUCCESS,
                                  .reply_text = lib_bytes(text_of("bye"))};
    sm_move(&ch->sm, CLOSING);
    if (codec_put_method(conn_output(ch->conn), ch->number, AMQP_CHANNEL_CLOSE_METHOD, &close) <
        0) {
        struct loss why = {.kind = LOSS_NOMEM};
        conn_abort(ch->conn, &why);
    }
    conn_wake(ch->conn);
}

void channel_free(struct channel *ch)
{
    if (ch == NULL)
        return;
    if (ch->sm.state == OPENING || ch->sm.state == OPEN)
        say_close(ch);
    if (life_end(&ch->life) && ch->sm.state == CLOSED)
        release(ch);
}

bool channel_is_open(const struct channel *ch)
{
    return ch->sm.state == OPEN;
}

struct conn *channel_conn(const struct channel *ch)
{
    return ch->conn;
}

/* The last callback. The caller is inside life_enter. */
static void tell_closed(struct channel *ch, const struct loss *why)
{
    if (!ch->life.dead)
        ch->o.on_closed(ch->o.ctx, why);
}

void channel_abort(struct channel *ch, const struct loss *why)
{
    if (ch->sm.state != OPENING && ch->sm.state != OPEN)
        return;
    say_close(ch);
    ch->aborted = true;
    ch->abort_why = *why;
    channel_want_flush(ch);
}

void channel_want_flush(struct channel *ch)
{
    if (ch->conn == NULL)
        return;
    ch->wants_flush = true;
    conn_wake(ch->conn);
}

void channel_flush(struct channel *ch, bool all)
{
    if (!ch->wants_flush && !all)
        return;
    ch->wants_flush = false;
    life_enter(&ch->life);
    if (ch->aborted && !ch->life.dead) {
        /* The owner is done with it; what is left waits for the broker's answer. */
        ch->aborted = false;
        ch->o.on_closed(ch->o.ctx, &ch->abort_why);
    } else if (ch->sm.state == OPEN && !ch->life.dead && ch->o.on_flush != NULL) {
        ch->o.on_flush(ch->o.ctx);
    }
    leave(ch);
}

/* Calls. */

static int start_call(struct channel *ch)
{
    struct list *first = list_first(&ch->calls);
    if (first == NULL)
        return 0;
    struct call *call = LIST_ENTRY(first, struct call, node);
    conn_wake(ch->conn);
    return buf_append(conn_output(ch->conn), call->frame, call->n);
}

int channel_call(struct channel *ch, amqp_method_number_t id, void *decoded,
                 void (*done)(void *ctx, const amqp_method_t *reply))
{
    if (ch->sm.state != OPENING && ch->sm.state != OPEN)
        return ERR_LOST;
    struct buf frame = {0};
    int r = codec_put_method(&frame, ch->number, id, decoded);
    struct call *call = r == 0 ? malloc(sizeof *call + frame.n) : NULL;
    if (call == NULL) {
        buf_fini(&frame);
        return r < 0 ? r : ERR_NOMEM;
    }
    *call = (struct call){.id = id, .done = done, .n = frame.n};
    memcpy(call->frame, frame.p, frame.n);
    buf_fini(&frame);
    bool idle = list_empty(&ch->calls);
    list_push_back(&ch->calls, &call->node);
    if (idle && (r = start_call(ch)) < 0) {
        list_remove(&call->node);
        free(call);
    }
    return r;
}

/* Every answer's number is its method's plus one, but for exchange.unbind. */
static bool is_reply(amqp_method_number_t call, amqp_method_number_t reply)
{
    return call == AMQP_EXCHANGE_UNBIND_METHOD ? reply == AMQP_EXCHANGE_UNBIND_OK_METHOD
                                               : reply == call + 1;
}

static int handle_reply(struct channel *ch, const amqp_method_t *reply)
{
    struct list *first = list_first(&ch->calls);
    struct call *call = first != NULL ? LIST_ENTRY(first, struct call, node) : NULL;
    if (call == NULL || !is_reply(call->id, reply->id))
        return ERR_PROTOCOL;
    list_remove(first);
    if (call->id == AMQP_CHANNEL_OPEN_METHOD)
        sm_move(&ch->sm, OPEN);
    int r = start_call(ch);
    if (call->done != NULL)
        call->done(ch->o.ctx, reply);
    free(call);
    return r;
}

/* Asynchronous methods. */

int channel_send(struct channel *ch, amqp_method_number_t id, void *decoded)
{
    if (ch->sm.state != OPEN)
        return ERR_LOST;
    conn_wake(ch->conn);
    return codec_put_method(conn_output(ch->conn), ch->number, id, decoded);
}

int channel_publish(struct channel *ch, struct text exchange, struct text routing_key,
                    const struct codec_content *content)
{
    if (exchange.n > 255 || routing_key.n > 255)
        return ERR_INVALID;
    amqp_basic_publish_t publish = {
        .exchange = lib_bytes(exchange),
        .routing_key = lib_bytes(routing_key),
        .mandatory = 1,
    };
    if (ch->sm.state != OPEN)
        return ERR_LOST;
    struct buf *out = conn_output(ch->conn);
    size_t start = out->n;
    int r = codec_put_method(out, ch->number, AMQP_BASIC_PUBLISH_METHOD, &publish);
    if (r == 0)
        r = codec_put_content(out, conn_frame_max(ch->conn), ch->number, content);
    if (r < 0)
        out->n = start;
    conn_wake(ch->conn);
    return r;
}

/* Content that arrives. */

static size_t keep(amqp_bytes_t from, char to[256])
{
    size_t n = from.len < 256 ? from.len : 255;
    if (n > 0)
        memcpy(to, from.bytes, n);
    return n;
}

static void begin_delivery(struct channel *ch, const amqp_basic_deliver_t *d)
{
    struct content *c = &ch->content;
    c->what = AMQP_BASIC_DELIVER_METHOD;
    c->tag = d->delivery_tag;
    c->redelivered = d->redelivered != 0;
    c->n_exchange = keep(d->exchange, c->exchange);
    c->n_routing_key = keep(d->routing_key, c->routing_key);
}

static void begin_return(struct channel *ch, const amqp_basic_return_t *r)
{
    struct content *c = &ch->content;
    c->what = AMQP_BASIC_RETURN_METHOD;
    c->code = r->reply_code;
    c->n_why = keep(r->reply_text, c->why);
    c->n_exchange = keep(r->exchange, c->exchange);
    c->n_routing_key = keep(r->routing_key, c->routing_key);
}

static void end_content(struct channel *ch)
{
    struct content *c = &ch->content;
    struct message *m = c->m;
    amqp_method_number_t what = c->what;
    c->m = NULL;
    c->what = 0;
    c->has_header = false;
    if (m == NULL)
        return;
    if (what == AMQP_BASIC_DELIVER_METHOD && ch->o.on_delivery != NULL)
        ch->o.on_delivery(ch->o.ctx, c->tag, c->redelivered, m);
    else if (what == AMQP_BASIC_RETURN_METHOD && ch->o.on_returned != NULL)
        ch->o.on_returned(ch->o.ctx, c->code, (struct text){c->why, c->n_why}, m);
    else
        message_free(m);
}

static void refuse_size(struct channel *ch)
{
    struct loss why = {.kind = LOSS_PROTOCOL, .code = 311};
    snprintf(why.text, sizeof why.text, "a message of %llu bytes is over the limit of %llu",
             (unsigned long long)ch->content.body_bytes,
             (unsigned long long)ch->o.max_message_bytes);
    channel_abort(ch, &why);
}

static int handle_header(struct channel *ch, const struct codec_frame *frame)
{
    struct content *c = &ch->content;
    struct text props;
    if (c->what == 0 || c->has_header || codec_content_header(frame, &props, &c->body_bytes) < 0)
        return ERR_PROTOCOL;
    c->has_header = true;
    c->got_bytes = 0;
    bool larger = c->body_bytes > ch->o.max_message_bytes;
    if (larger && !ch->o.cut_larger) {
        refuse_size(ch);
        return 0;
    }
    c->m = message_new((struct text){c->exchange, c->n_exchange},
                       (struct text){c->routing_key, c->n_routing_key}, props,
                       larger ? 0 : (size_t)c->body_bytes);
    if (c->m == NULL)
        return ERR_NOMEM;
    c->m->body_cut = larger;
    if (c->body_bytes == 0)
        end_content(ch);
    return 0;
}

static int handle_body(struct channel *ch, const struct codec_frame *frame)
{
    struct content *c = &ch->content;
    if (!c->has_header || frame->payload.n > c->body_bytes - c->got_bytes)
        return ERR_PROTOCOL;
    if (c->m != NULL && !c->m->body_cut && frame->payload.n > 0)
        memcpy(message_body_at(c->m, (size_t)c->got_bytes), frame->payload.p, frame->payload.n);
    c->got_bytes += frame->payload.n;
    if (c->got_bytes == c->body_bytes)
        end_content(ch);
    return 0;
}

/* What the broker says. */

static int answer(struct channel *ch, amqp_method_number_t id, void *decoded)
{
    conn_wake(ch->conn);
    return codec_put_method(conn_output(ch->conn), ch->number, id, decoded);
}

static int handle_close(struct channel *ch, const amqp_channel_close_t *close)
{
    struct loss why = {.kind = LOSS_CHANNEL, .code = close->reply_code};
    amqp_channel_close_ok_t ok = {0};
    snprintf(why.text, sizeof why.text, "%.*s", (int)close->reply_text.len,
             (char *)close->reply_text.bytes);
    int r = answer(ch, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
    /* Ours crossed it: RabbitMQ answers that one as well, and until then the number is taken. */
    if (ch->sm.state == CLOSING)
        return r;
    detach(ch);
    tell_closed(ch, &why);
    return r;
}

static void handle_confirm(struct channel *ch, const amqp_method_t *m)
{
    if (ch->o.on_confirm == NULL)
        return;
    if (m->id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = m->decoded;
        ch->o.on_confirm(ch->o.ctx, ack->delivery_tag, ack->multiple != 0, true);
    } else {
        const amqp_basic_nack_t *nack = m->decoded;
        ch->o.on_confirm(ch->o.ctx, nack->delivery_tag, nack->multiple != 0, false);
    }
}

static int handle_open_method(struct channel *ch, const amqp_method_t *m)
{
    switch (m->id) {
    case AMQP_BASIC_DELIVER_METHOD: begin_delivery(ch, m->decoded); return 0;
    case AMQP_BASIC_RETURN_METHOD: begin_return(ch, m->decoded); return 0;
    case AMQP_BASIC_ACK_METHOD:
    case AMQP_BASIC_NACK_METHOD: handle_confirm(ch, m); return 0;
    case AMQP_BASIC_CANCEL_METHOD:
        if (ch->o.on_cancel != NULL)
            ch->o.on_cancel(ch->o.ctx);
        return 0;
    case AMQP_CHANNEL_FLOW_METHOD: {
        /* RabbitMQ does not send it; the answer keeps the protocol, and the window bounds us
         * anyway. */
        amqp_channel_flow_ok_t ok = {.active = ((amqp_channel_flow_t *)m->decoded)->active};
        return answer(ch, AMQP_CHANNEL_FLOW_OK_METHOD, &ok);
    }
    default: return handle_reply(ch, m);
    }
}

static int handle_method(struct channel *ch, const struct codec_frame *frame, amqp_pool_t *pool)
{
    amqp_method_t m;
    if (ch->content.what != 0 && ch->sm.state != CLOSING)
        return ERR_PROTOCOL;
    int r = codec_method(frame, pool, &m);
    if (r < 0)
        return r;
    if (m.id == AMQP_CHANNEL_CLOSE_METHOD)
        return handle_close(ch, m.decoded);
    if (ch->sm.state != CLOSING)
        return handle_open_method(ch, &m);
    if (m.id == AMQP_CHANNEL_CLOSE_OK_METHOD) {
        bool tell = ch->aborted;
        struct loss why = ch->abort_why;
        detach(ch);
        if (tell)
            tell_closed(ch, &why);
    }
    return 0;
}

int channel_input(struct channel *ch, const struct codec_frame *frame, amqp_pool_t *pool)
{
    int r = 0;
    life_enter(&ch->life);
    if (frame->type == AMQP_FRAME_METHOD)
        r = handle_method(ch, frame, pool);
    else if (ch->sm.state == CLOSING)
        r = 0; /* the rest of what was under way */
    else if (frame->type == AMQP_FRAME_HEADER)
        r = handle_header(ch, frame);
    else
        r = handle_body(ch, frame);
    leave(ch);
    return r;
}

void channel_lost(struct channel *ch, const struct loss *why)
{
    bool told = ch->sm.state == CLOSING && !ch->aborted;
    life_enter(&ch->life);
    detach(ch);
    if (!told)
        tell_closed(ch, why);
    leave(ch);
}

void channel_orphan(struct channel *ch)
{
    life_enter(&ch->life);
    detach(ch);
    leave(ch);
}
