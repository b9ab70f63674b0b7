#include "lib/proxy_talk.h"

#include "amqp/codec.h"
#include "amqp/wire.h"
#include "proxy/args.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

struct proxy_world talk;
struct buf talk_bytes;

void talk_fresh(void)
{
    proxy_world_init(&talk, NULL);
    buf_reset(&talk_bytes);
}

void talk_fresh_with(const struct proxy_options *o)
{
    proxy_world_init(&talk, o);
    buf_reset(&talk_bytes);
}

void talk_finish(void)
{
    proxy_world_fini(&talk);
    buf_fini(&talk_bytes);
}

void talk_feed(enum side from)
{
    ck_assert_int_eq(proxy_world_feed(&talk, from, &talk_bytes), 0);
}

/* ---- what went out, in words ---- */

static const struct {
    uint32_t method;
    const char *word, *format; /* q: a number to show; s: a short text; b: a byte */
} words[] = {
    {AMQP_BASIC_DELIVER_METHOD, "deliver", "sqb"},
    {AMQP_BASIC_GET_OK_METHOD, "get-ok", "q"},
    {AMQP_BASIC_GET_EMPTY_METHOD, "get-empty", ""},
    {AMQP_BASIC_ACK_METHOD, "ack", "qb"},
    {AMQP_BASIC_NACK_METHOD, "nack", "qb"},
    {AMQP_BASIC_CONSUME_METHOD, "consume", "ws"},
    {AMQP_BASIC_CONSUME_OK_METHOD, "consume-ok", ""},
    {AMQP_BASIC_CANCEL_METHOD, "cancel", ""},
    {AMQP_BASIC_GET_METHOD, "get", "ws"},
    {AMQP_BASIC_PUBLISH_METHOD, "publish", ""},
    {AMQP_BASIC_QOS_METHOD, "qos", ""},
    {AMQP_BASIC_RETURN_METHOD, "return", ""},
    {AMQP_CHANNEL_FLOW_METHOD, "flow", "b"},
    {AMQP_CHANNEL_FLOW_OK_METHOD, "flow-ok", "b"},
    {AMQP_CHANNEL_OPEN_METHOD, "open", ""},
    {AMQP_CHANNEL_CLOSE_METHOD, "channel.close", ""},
    {AMQP_CHANNEL_CLOSE_OK_METHOD, "channel.close-ok", ""},
    {AMQP_CONNECTION_CLOSE_METHOD, "close", "w"},
    {AMQP_CONNECTION_CLOSE_OK_METHOD, "close-ok", ""},
    {AMQP_CONNECTION_TUNE_METHOD, "tune", "wl"},
    {AMQP_QUEUE_DECLARE_OK_METHOD, "declare-ok", "sl"},
    {AMQP_TX_SELECT_METHOD, "tx", ""},
};

static void add_text(char *out, size_t size, const char *before, struct text t)
{
    size_t n = strlen(out);
    snprintf(out + n, size - n, "%s%.*s", before, (int)t.n, t.p);
}

static void add(char *out, size_t size, const char *before, uint64_t v)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)v);
    add_text(out, size, before, text_of(digits));
}

static void describe_method(const struct frame *f, char *out, size_t size)
{
    struct args a = {f->payload, f->n, false};
    uint32_t method = args_u32(&a);
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (words[i].method != method)
            continue;
        add_text(out, size, " ", text_of(words[i].word));
        for (const char *p = words[i].format; *p != '\0'; p++)
            switch (*p) {
            case 's': add_text(out, size, " ", args_short(&a)); break;
            case 'q': add(out, size, " ", args_u64(&a)); break;
            case 'l': add(out, size, " ", args_u32(&a)); break;
            case 'w': add(out, size, " ", args_u16(&a)); break;
            default: add(out, size, "/", args_u8(&a)); break;
            }
        return;
    }
    add(out, size, " method:", method);
}

/* All that went to a side since the last look: its methods and bodies, in order. */
const char *talk_said(enum side to)
{
    static char out[2][2000];
    struct frame f;
    char *text = out[to];
    text[0] = '\0';
    while (proxy_world_take(&talk, to, &f)) {
        if (f.type == AMQP_FRAME_METHOD)
            describe_method(&f, text, sizeof out[0]);
        else if (f.type == AMQP_FRAME_BODY)
            add_text(text, sizeof out[0], " ", (struct text){f.payload, f.n});
    }
    return text[0] != '\0' ? text + 1 : text;
}

void talk_pump(void)
{
    (void)world_pump(&talk.world);
}

void talk_settle(uint32_t method, uint64_t tag, unsigned bits)
{
    put_method(&talk_bytes, 1, method, "qb", tag, bits);
    talk_feed(SIDE_CLIENT);
}

void talk_ack(uint64_t tag, unsigned multiple)
{
    talk_settle(AMQP_BASIC_ACK_METHOD, tag, multiple);
}

void talk_open_channel(void)
{
    put_method(&talk_bytes, 1, AMQP_CHANNEL_OPEN_METHOD, "s", "");
    talk_feed(SIDE_CLIENT);
}

void talk_consume(const char *queue, const char *tag, unsigned bits)
{
    put_method(&talk_bytes, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, queue, tag, bits);
    talk_feed(SIDE_CLIENT);
    put_method(&talk_bytes, 1, AMQP_BASIC_CONSUME_OK_METHOD, "s", tag);
    talk_feed(SIDE_UPSTREAM);
}

void talk_qos(unsigned count)
{
    put_method(&talk_bytes, 1, AMQP_BASIC_QOS_METHOD, "lwb", 0U, count, 0U);
    talk_feed(SIDE_CLIENT);
}

/* A channel with a consumer "c" of the work queue under a prefetch, and nothing said of it. */
void talk_worker(unsigned prefetch)
{
    talk_open_channel();
    talk_qos(prefetch);
    talk_consume("work", "c", 0);
    (void)talk_said(SIDE_CLIENT);
    (void)talk_said(SIDE_UPSTREAM);
}

void talk_upstream_delivers(const char *consumer, uint64_t tag, const char *body)
{
    put_method(&talk_bytes, 1, AMQP_BASIC_DELIVER_METHOD, "sqbss", consumer, tag, 0U, "", "");
    put_content(&talk_bytes, 1, body);
    talk_feed(SIDE_UPSTREAM);
}

void talk_publish(const char *body)
{
    put_method(&talk_bytes, 1, AMQP_BASIC_PUBLISH_METHOD, "wssb", 0U, "", "results", 0U);
    put_content(&talk_bytes, 1, body);
    talk_feed(SIDE_CLIENT);
}

void talk_flow_ok(void)
{
    put_method(&talk_bytes, 1, AMQP_CHANNEL_FLOW_OK_METHOD, "b", 1U);
    talk_feed(SIDE_UPSTREAM);
}
