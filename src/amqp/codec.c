#include "amqp/codec.h"

#include "amqp/header.h"
#include "amqp/wire.h"
#include "base/err.h"

#include <string.h>

enum { HEAD = 7 };

static bool is_frame_type(uint8_t type)
{
    return type == AMQP_FRAME_METHOD || type == AMQP_FRAME_HEADER || type == AMQP_FRAME_BODY ||
           type == AMQP_FRAME_HEARTBEAT;
}

size_t codec_frame_bytes(struct text data)
{
    return data.n < HEAD ? 0 : (size_t)wire_get32(data.p + 3) + CODEC_FRAME_OVERHEAD;
}

int codec_split(struct text data, uint32_t frame_max, struct codec_frame *out, size_t *used)
{
    *used = 0;
    if (data.n > 0 && !is_frame_type((uint8_t)data.p[0]))
        return ERR_PROTOCOL;
    if (data.n < HEAD)
        return CODEC_MORE;
    uint32_t n = wire_get32(data.p + 3);
    uint32_t most = data.p[0] == AMQP_FRAME_HEADER ? CODEC_FRAME_MOST : frame_max;
    if (n > most - CODEC_FRAME_OVERHEAD)
        return ERR_PROTOCOL;
    if (data.n < (size_t)n + CODEC_FRAME_OVERHEAD)
        return CODEC_MORE;
    if ((unsigned char)data.p[HEAD + n] != AMQP_FRAME_END)
        return ERR_PROTOCOL;
    *out = (struct codec_frame){
        .type = (uint8_t)data.p[0],
        .channel = wire_get16(data.p + 1),
        .payload = {data.p + HEAD, n},
    };
    *used = (size_t)n + CODEC_FRAME_OVERHEAD;
    return 0;
}

/* Where the methods that carry a field table have it: behind `fixed` bytes, `n_texts` short strings
 * and `flags` bytes. All of AMQP 0-9-1's, both directions. */
struct table_place {
    amqp_method_number_t id;
    unsigned char fixed, n_texts, flags;
};

static const struct table_place table_places[] = {
    {AMQP_CONNECTION_START_METHOD, 2, 0, 0}, {AMQP_CONNECTION_START_OK_METHOD, 0, 0, 0},
    {AMQP_EXCHANGE_DECLARE_METHOD, 2, 2, 1}, {AMQP_EXCHANGE_BIND_METHOD, 2, 3, 1},
    {AMQP_EXCHANGE_UNBIND_METHOD, 2, 3, 1},  {AMQP_QUEUE_DECLARE_METHOD, 2, 1, 1},
    {AMQP_QUEUE_BIND_METHOD, 2, 3, 1},       {AMQP_QUEUE_UNBIND_METHOD, 2, 3, 0},
    {AMQP_BASIC_CONSUME_METHOD, 2, 2, 1},
};

/* The content of the table in a method's arguments; false when they are too short for it. */
static bool find_table(const struct table_place *place, struct text args, struct text *out)
{
    size_t at = place->fixed;
    for (unsigned i = 0; i < place->n_texts; i++) {
        if (at >= args.n)
            return false;
        at += 1 + (size_t)(unsigned char)args.p[at];
    }
    at += place->flags;
    if (at > args.n || args.n - at < 4)
        return false;
    uint32_t n = wire_get32(args.p + at);
    at += 4;
    if (n > args.n - at)
        return false;
    *out = (struct text){args.p + at, n};
    return true;
}

/* Walks all levels with a stack of our own, so that what comes after may recurse. */
static bool is_shallow(struct text table)
{
    struct level {
        struct text content;
        size_t at;
        bool named;
    } stack[CODEC_MAX_DEPTH];
    int depth = 0;
    stack[0] = (struct level){table, 0, true};
    while (depth >= 0) {
        struct level *top = &stack[depth];
        struct header h;
        int r = header_next(top->content, top->named, &top->at, &h);
        if (r < 0)
            return false;
        if (r == HEADER_END) {
            depth--;
        } else if (h.type == 'F' || h.type == 'A') {
            if (++depth == CODEC_MAX_DEPTH)
                return false;
            stack[depth] = (struct level){h.value, 0, h.type == 'F'};
        }
    }
    return true;
}

static bool tables_are_safe(amqp_method_number_t id, struct text args)
{
    for (size_t i = 0; i < ARRAY_SIZE(table_places); i++) {
        struct text table;
        if (table_places[i].id == id)
            return find_table(&table_places[i], args, &table) && is_shallow(table);
    }
    return true;
}

amqp_method_number_t codec_method_id(const struct codec_frame *frame)
{
    return frame->payload.n >= 4 ? wire_get32(frame->payload.p) : 0;
}

int codec_method(const struct codec_frame *frame, amqp_pool_t *pool, amqp_method_t *out)
{
    amqp_method_number_t id = codec_method_id(frame);
    if (id == 0)
        return ERR_PROTOCOL;
    struct text args = {frame->payload.p + 4, frame->payload.n - 4};
    if (!tables_are_safe(id, args))
        return ERR_PROTOCOL;
    void *decoded = NULL;
    int r = amqp_decode_method(id, pool, lib_bytes(args), &decoded);
    if (r == AMQP_STATUS_NO_MEMORY)
        return ERR_NOMEM;
    if (r < 0)
        return ERR_PROTOCOL;
    *out = (amqp_method_t){.id = id, .decoded = decoded};
    return 0;
}

static void put_head(char *p, uint8_t type, uint16_t channel, size_t n)
{
    p[0] = (char)type;
    wire_put16(p + 1, channel);
    wire_put32(p + 3, (uint32_t)n);
}

int codec_put_method(struct buf *out, uint16_t channel, amqp_method_number_t id, void *decoded)
{
    char frame[CODEC_FRAME_MIN];
    amqp_bytes_t room = {sizeof frame - HEAD - 4 - 1, frame + HEAD + 4};
    int n = amqp_encode_method(id, decoded, room);
    if (n < 0)
        return ERR_INVALID;
    put_head(frame, AMQP_FRAME_METHOD, channel, (size_t)n + 4);
    wire_put32(frame + HEAD, id);
    frame[HEAD + 4 + n] = (char)AMQP_FRAME_END;
    return buf_append(out, frame, (size_t)n + HEAD + 4 + 1);
}

static int put_body(struct buf *out, uint32_t frame_max, uint16_t channel, struct text body)
{
    static const char end = (char)AMQP_FRAME_END;
    size_t most = frame_max - CODEC_FRAME_OVERHEAD;
    for (size_t at = 0; at < body.n;) {
        size_t n = body.n - at < most ? body.n - at : most;
        char head[HEAD];
        put_head(head, AMQP_FRAME_BODY, channel, n);
        int r = buf_append(out, head, sizeof head);
        if (r == 0)
            r = buf_append(out, body.p + at, n);
        if (r == 0)
            r = buf_append(out, &end, 1);
        if (r < 0)
            return r;
        at += n;
    }
    return 0;
}

int codec_put_content(struct buf *out, uint32_t frame_max, uint16_t channel,
                      const struct codec_content *content)
{
    static const char end = (char)AMQP_FRAME_END;
    struct text props = content->props;
    if (props.n > codec_max_props(frame_max))
        return ERR_INVALID;
    size_t start = out->n;
    char head[HEAD + CODEC_CONTENT_HEADER];
    put_head(head, AMQP_FRAME_HEADER, channel, CODEC_CONTENT_HEADER + props.n);
    wire_put16(head + HEAD, AMQP_BASIC_CLASS);
    wire_put16(head + HEAD + 2, 0);
    wire_put64(head + HEAD + 4, content->body.n);
    int r = buf_append(out, head, sizeof head);
    if (r == 0)
        r = buf_append(out, props.p, props.n);
    if (r == 0)
        r = buf_append(out, &end, 1);
    if (r == 0)
        r = put_body(out, frame_max, channel, content->body);
    if (r < 0)
        out->n = start;
    return r;
}

int codec_content_header(const struct codec_frame *frame, struct text *props, uint64_t *body_bytes)
{
    struct text p = frame->payload;
    if (p.n < CODEC_CONTENT_HEADER + 2 || wire_get16(p.p) != AMQP_BASIC_CLASS)
        return ERR_PROTOCOL;
    *body_bytes = wire_get64(p.p + 4);
    *props = (struct text){p.p + CODEC_CONTENT_HEADER, p.n - CODEC_CONTENT_HEADER};
    return 0;
}

int codec_put_heartbeat(struct buf *out)
{
    static const char frame[] = {AMQP_FRAME_HEARTBEAT, 0, 0, 0, 0, 0, 0, (char)AMQP_FRAME_END};
    return buf_append(out, frame, sizeof frame);
}
