#include "proxy/frames.h"

#include "amqp/codec.h"
#include "amqp/wire.h"
#include "base/err.h"

#include <string.h>

enum { HEAD = 7, SHORT_MAX = 255 };

/* ---- writing into room that is known to suffice ---- */

static char *put8(char *w, unsigned v)
{
    *w = (char)v;
    return w + 1;
}

static char *put16(char *w, uint16_t v)
{
    wire_put16(w, v);
    return w + 2;
}

static char *put32(char *w, uint32_t v)
{
    wire_put32(w, v);
    return w + 4;
}

static char *put64(char *w, uint64_t v)
{
    wire_put64(w, v);
    return w + 8;
}

static char *put_bytes(char *w, struct text t)
{
    if (t.n > 0)
        memcpy(w, t.p, t.n);
    return w + t.n;
}

static char *put_short(char *w, struct text t)
{
    return put_bytes(put8(w, (unsigned)t.n), t);
}

static char *put_head(char *w, uint8_t type, uint16_t channel, size_t n)
{
    return put32(put16(put8(w, type), channel), (uint32_t)n);
}

static char *put_end(char *w)
{
    return put8(w, AMQP_FRAME_END);
}

static struct text cut_short(struct text t)
{
    return (struct text){t.p, t.n < SHORT_MAX ? t.n : SHORT_MAX};
}

/* ---- content ---- */

static size_t body_part(uint32_t frame_max)
{
    return frame_max - CODEC_FRAME_OVERHEAD;
}

static size_t content_bytes(uint32_t frame_max, const struct proxy_delivery *d)
{
    size_t part = body_part(frame_max), n_parts = (d->body.n + part - 1) / part;
    return CODEC_FRAME_OVERHEAD + CODEC_CONTENT_HEADER + d->props.n +
           n_parts * CODEC_FRAME_OVERHEAD + d->body.n;
}

static char *put_content(char *w, const struct frames_place *at, const struct proxy_delivery *d)
{
    w = put_head(w, AMQP_FRAME_HEADER, at->channel, CODEC_CONTENT_HEADER + d->props.n);
    w = put64(put16(put16(w, AMQP_BASIC_CLASS), 0), d->body.n);
    w = put_end(put_bytes(w, d->props));
    struct text left = d->body;
    while (left.n > 0) {
        size_t part = body_part(at->frame_max), n = left.n < part ? left.n : part;
        w = put_head(w, AMQP_FRAME_BODY, at->channel, n);
        w = put_end(put_bytes(w, (struct text){left.p, n}));
        left = (struct text){left.p + n, left.n - n};
    }
    return w;
}

int frames_put_deliver(struct buf *out, const struct frames_place *at, struct text consumer_tag,
                       const struct proxy_delivery *d)
{
    size_t n = 4 + 1 + consumer_tag.n + 8 + 1 + 1 + d->exchange.n + 1 + d->routing_key.n;
    char *w = buf_extend(out, n + CODEC_FRAME_OVERHEAD + content_bytes(at->frame_max, d));
    if (w == NULL)
        return ERR_NOMEM;
    w = put32(put_head(w, AMQP_FRAME_METHOD, at->channel, n), AMQP_BASIC_DELIVER_METHOD);
    w = put8(put64(put_short(w, consumer_tag), at->tag), d->redelivered);
    w = put_end(put_short(put_short(w, d->exchange), d->routing_key));
    put_content(w, at, d);
    return 0;
}

int frames_put_get_ok(struct buf *out, const struct frames_place *at, uint32_t left,
                      const struct proxy_delivery *d)
{
    size_t n = 4 + 8 + 1 + 1 + d->exchange.n + 1 + d->routing_key.n + 4;
    char *w = buf_extend(out, n + CODEC_FRAME_OVERHEAD + content_bytes(at->frame_max, d));
    if (w == NULL)
        return ERR_NOMEM;
    w = put32(put_head(w, AMQP_FRAME_METHOD, at->channel, n), AMQP_BASIC_GET_OK_METHOD);
    w = put8(put64(w, at->tag), d->redelivered);
    w = put_end(put32(put_short(put_short(w, d->exchange), d->routing_key), left));
    put_content(w, at, d);
    return 0;
}

/* ---- methods ---- */

int frames_put_flow(struct buf *out, uint16_t channel)
{
    char *w = buf_extend(out, 4 + 1 + CODEC_FRAME_OVERHEAD);
    if (w == NULL)
        return ERR_NOMEM;
    w = put32(put_head(w, AMQP_FRAME_METHOD, channel, 4 + 1), AMQP_CHANNEL_FLOW_METHOD);
    put_end(put8(w, 1));
    return 0;
}

int frames_put_close(struct buf *out, uint16_t code, const char *text, uint32_t method)
{
    struct text words = cut_short(text_of(text));
    size_t n = 4 + 2 + 1 + words.n + 4;
    char *w = buf_extend(out, n + CODEC_FRAME_OVERHEAD);
    if (w == NULL)
        return ERR_NOMEM;
    w = put32(put_head(w, AMQP_FRAME_METHOD, 0, n), AMQP_CONNECTION_CLOSE_METHOD);
    put_end(put32(put_short(put16(w, code), words), method));
    return 0;
}

int frames_put_close_ok(struct buf *out)
{
    char *w = buf_extend(out, 4 + CODEC_FRAME_OVERHEAD);
    if (w == NULL)
        return ERR_NOMEM;
    put_end(put32(put_head(w, AMQP_FRAME_METHOD, 0, 4), AMQP_CONNECTION_CLOSE_OK_METHOD));
    return 0;
}

int frames_put_renamed(struct buf *out, const struct frame *f, struct text new_name, size_t offset,
                       size_t n_old)
{
    size_t rest = offset + 1 + n_old, n = f->n - n_old + new_name.n;
    char *w = buf_extend(out, n + CODEC_FRAME_OVERHEAD);
    if (w == NULL)
        return ERR_NOMEM;
    w = put_bytes(put_head(w, AMQP_FRAME_METHOD, f->channel, n), (struct text){f->payload, offset});
    w = put_short(w, new_name);
    put_end(put_bytes(w, (struct text){f->payload + rest, f->n - rest}));
    return 0;
}
