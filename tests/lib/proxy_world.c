#include "lib/proxy_world.h"

#include "amqp/codec.h"
#include "amqp/wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void must_hold(bool holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    abort();
}

/* ---- the station ---- */

static mono_t now(void *ctx)
{
    return ((struct proxy_world *)ctx)->world.now;
}

static int pull(void *ctx, uint64_t consumer, struct proxy_delivery *out)
{
    struct proxy_world *w = ctx;
    unsigned i = 1;
    while (i <= w->n_messages && w->message[i].state != AT_REST)
        i++;
    if (i > w->n_messages)
        return HB_BROKER_EMPTY;
    struct proxy_message *m = &w->message[i];
    m->state = AT_WORKER;
    m->consumer = consumer;
    m->token = ++w->n_tokens;
    snprintf(w->body, sizeof w->body, "o%u", i);
    char *props = w->props; /* a correlation id, which is Celery's task id: "tN" */
    int n = snprintf(props + 3, sizeof w->props - 3, "t%u", i);
    wire_put16(props, 0x0400);
    props[2] = (char)n;
    snprintf(w->lesson, sizeof w->lesson, "%u", i);
    *out = (struct proxy_delivery){
        .id = i,
        .token = m->token,
        .redelivered = m->n_failed + m->n_put_back > 0,
        .exchange = text_of("e"),
        .routing_key = text_of("key"),
        .props = {props, 3 + (size_t)n},
        .body = text_of(w->body),
        .lesson = text_of(w->lesson),
    };
    return HB_BROKER_OK;
}

static int settle(void *ctx, const struct proxy_settlement *s)
{
    struct proxy_world *w = ctx;
    MUST(s->id >= 1 && s->id <= w->n_messages);
    struct proxy_message *m = &w->message[s->id];
    MUST(m->state == AT_WORKER && m->consumer == s->consumer && m->token == s->token);
    MUST(s->outcome < PROXY_N_OUTCOMES);
    m->n_failed += s->outcome == PROXY_FAIL;
    m->n_put_back += s->outcome == PROXY_PUT_BACK;
    m->duration_ms = s->duration_ms;
    m->settled = ++w->n_settled;
    bool again = s->outcome == PROXY_FAIL || s->outcome == PROXY_PUT_BACK;
    m->state = again ? AT_REST : (int)s->outcome;
    return HB_BROKER_OK;
}

static void learn(void *ctx, struct text lesson, double duration_ms)
{
    struct proxy_world *w = ctx;
    char digits[16] = "";
    MUST(lesson.n < sizeof digits);
    memcpy(digits, lesson.p, lesson.n);
    unsigned long i = strtoul(digits, NULL, 10);
    MUST(i >= 1 && i <= w->n_messages);
    w->message[i].event_ms = duration_ms;
}

static void touched(void *ctx)
{
}

static bool draining(void *ctx)
{
    return ((struct proxy_world *)ctx)->draining;
}

static uint64_t waiting(void *ctx)
{
    const struct proxy_world *w = ctx;
    uint64_t n = 0;
    for (unsigned i = 1; i <= w->n_messages; i++)
        n += w->message[i].state == AT_REST;
    return n;
}

void proxy_world_put(struct proxy_world *w, unsigned count)
{
    MUST(w->n_messages + count < PROXY_WORLD_MESSAGES);
    while (count-- > 0)
        w->message[++w->n_messages] = (struct proxy_message){.state = AT_REST};
}

/* ---- frames ---- */

static void append(struct buf *out, const void *p, size_t n)
{
    MUST(buf_append(out, p, n) == 0);
}

static void put_number(struct buf *out, uint64_t v, unsigned bytes)
{
    char all[8];
    wire_put64(all, v);
    append(out, all + 8 - bytes, bytes);
}

static void put_short(struct buf *out, const char *s)
{
    put_number(out, strlen(s), 1);
    append(out, s, strlen(s));
}

static void put_frame(struct buf *out, uint8_t type, uint16_t channel, const struct buf *payload)
{
    put_number(out, type, 1);
    put_number(out, channel, 2);
    put_number(out, payload->n, 4);
    append(out, payload->p, payload->n);
    put_number(out, AMQP_FRAME_END, 1);
}

void put_method(struct buf *out, uint16_t channel, uint32_t method, const char *format, ...)
{
    struct buf p = {0};
    va_list ap;
    va_start(ap, format);
    put_number(&p, method, 4);
    for (; *format != '\0'; format++)
        switch (*format) {
        case 'b': put_number(&p, va_arg(ap, unsigned), 1); break;
        case 'w': put_number(&p, va_arg(ap, unsigned), 2); break;
        case 'l': put_number(&p, va_arg(ap, unsigned), 4); break;
        case 'q': put_number(&p, va_arg(ap, uint64_t), 8); break;
        case 's': put_short(&p, va_arg(ap, const char *)); break;
        default: put_number(&p, 0, 4); break;
        }
    va_end(ap);
    put_frame(out, AMQP_FRAME_METHOD, channel, &p);
    buf_fini(&p);
}

void put_content(struct buf *out, uint16_t channel, const char *body)
{
    struct buf p = {0};
    put_number(&p, AMQP_BASIC_CLASS, 2);
    put_number(&p, 0, 2);
    put_number(&p, strlen(body), 8);
    put_number(&p, 0, 2);
    put_frame(out, AMQP_FRAME_HEADER, channel, &p);
    buf_reset(&p);
    append(&p, body, strlen(body));
    if (p.n > 0)
        put_frame(out, AMQP_FRAME_BODY, channel, &p);
    buf_fini(&p);
}

bool proxy_world_take(struct proxy_world *w, enum side to, struct frame *out)
{
    struct outbox *o = &w->session.out[to];
    struct split s;
    char *at = o->bytes.p + o->at;
    size_t n = outbox_bytes(o);
    if (n == 0)
        return false;
    split_init(&s, false, 0);
    MUST(split_next(&s, &at, &n, out) == 0);
    o->at += out->n_raw;
    return true;
}

int proxy_world_feed(struct proxy_world *w, enum side from, struct buf *bytes)
{
    int r = session_input(&w->session, from, bytes->p, bytes->n);
    buf_reset(bytes);
    return r;
}

/* ---- life ---- */

static void say_hello(struct proxy_world *w)
{
    struct buf b = {0};
    struct frame f;
    append(&b, "AMQP\0\0\x09\x01", 8);
    MUST(proxy_world_feed(w, SIDE_CLIENT, &b) == 0);
    w->session.out[SIDE_UPSTREAM].at = 8;
    put_method(&b, 0, AMQP_CONNECTION_TUNE_METHOD, "wlw", 0U, 0U, 60U);
    MUST(proxy_world_feed(w, SIDE_UPSTREAM, &b) == 0);
    put_method(&b, 0, AMQP_CONNECTION_TUNE_OK_METHOD, "wlw", 100U, 4096U, 0U);
    put_method(&b, 0, AMQP_CONNECTION_OPEN_METHOD, "ssb", "/", "", 0U);
    MUST(proxy_world_feed(w, SIDE_CLIENT, &b) == 0);
    put_method(&b, 0, AMQP_CONNECTION_OPEN_OK_METHOD, "s", "");
    MUST(proxy_world_feed(w, SIDE_UPSTREAM, &b) == 0);
    while (proxy_world_take(w, SIDE_CLIENT, &f) || proxy_world_take(w, SIDE_UPSTREAM, &f))
        continue;
    buf_fini(&b);
}

void proxy_world_init(struct proxy_world *w, const struct proxy_options *o)
{
    static const struct proxy_options defaults = {.max_channels = 100,
                                                  .max_consumers = 100,
                                                  .max_connection_bytes = 1 << 20,
                                                  .unlimited_window = 250,
                                                  .early_ack = MONO_MS};
    struct proxy_station station = {.ctx = w,
                                    .vhost = "/",
                                    .work = "work",
                                    .intake = "intake",
                                    .now = now,
                                    .pull = pull,
                                    .settle = settle,
                                    .touched = touched,
                                    .draining = draining,
                                    .waiting = waiting,
                                    .learn = learn};
    *w = (struct proxy_world){0};
    world_init(&w->world, o != NULL ? o : &defaults, &station);
    w->world.now = MONO_S;
    session_init(&w->session, &w->world, true);
    say_hello(w);
}

void proxy_world_fini(struct proxy_world *w)
{
    session_end(&w->session, PROXY_FAIL);
    MUST(w->session.n_open == 0 && w->session.n_consumers == 0 && w->session.in_flight == 0);
    MUST(list_empty(&w->world.ready) && list_empty(&w->session.stalled));
    MUST(w->world.stats.in_flight == 0 && w->world.stats.consumers == 0);
    session_fini(&w->session);
    world_fini(&w->world);
    for (unsigned i = 1; i <= w->n_messages; i++)
        MUST(w->message[i].state != AT_WORKER);
}
