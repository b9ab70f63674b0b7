/*
 * Frames in, frames out. Stateless: the caller owns the bytes, so bounded memory is the caller's
 * frame_max, and nothing survives a broken stream. It knows nothing of who is client and who is
 * server.
 *
 * Frame: type 1, channel 2, size 4, payload, 0xCE. Methods are decoded by rabbitmq-c, whose table
 * decoder recurses: codec_method first proves, without recursion, that a method's tables nest at
 * most CODEC_MAX_DEPTH deep. Content headers are never decoded here; message.h reads and edits
 * their raw bytes.
 */
#ifndef HARBINGER_AMQP_CODEC_H
#define HARBINGER_AMQP_CODEC_H

#include "amqp/lib.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

enum {
    CODEC_FRAME_OVERHEAD = 8, /* header 7 + end 1 */
    CODEC_FRAME_MIN = 4096,   /* the smallest frame_max AMQP allows */
    CODEC_FRAME_MAX = 131072, /* asked for unless configured otherwise */
    CODEC_FRAME_MOST =
        16 << 20, /* the most that can be configured, and the largest header frame taken */
    CODEC_CONTENT_HEADER = 12, /* class 2, weight 2, body size 8; property flags and list follow */
    CODEC_MAX_DEPTH = 16,      /* of tables inside a method (server properties nest 2 deep) */
};

/* Outcomes of codec_split. */
enum { CODEC_MORE = 1 };

/* The size of the frame that starts `data`, 0 while it cannot be told. */
size_t codec_frame_bytes(struct text data);

struct codec_frame {
    uint8_t type; /* AMQP_FRAME_METHOD, _HEADER, _BODY or _HEARTBEAT */
    uint16_t channel;
    struct text payload; /* borrows the bytes given to codec_split */
};

/* Looks for one whole frame at the start of `data`. Returns 0 with *out and *used (bytes to skip);
 * CODEC_MORE when the frame is not whole yet (*used = 0); ERR_PROTOCOL for an unknown type, a size
 * over frame_max, or a wrong end byte: the stream cannot be read on. A header frame may be larger,
 * up to CODEC_FRAME_MOST: RabbitMQ never splits it, and a producer's connection may have a larger
 * frame_max than ours. */
int codec_split(struct text data, uint32_t frame_max, struct codec_frame *out,
                size_t *used) MUST_CHECK;

/* Decodes a method frame. The decoded struct and what it points at live in `pool`
 * (recycle_amqp_pool when done) and in the frame's bytes: copy what you keep. Returns 0;
 * ERR_PROTOCOL (short, unknown method, tables too deep); ERR_NOMEM. */
int codec_method(const struct codec_frame *frame, amqp_pool_t *pool, amqp_method_t *out) MUST_CHECK;

/* The class and method number of a method frame without decoding it; 0 when the payload is too
 * short. */
amqp_method_number_t codec_method_id(const struct codec_frame *frame);

/* Appends one method frame. `decoded` is the amqp_*_t struct of `id`. Returns 0; ERR_NOMEM;
 * ERR_INVALID when it is longer than CODEC_FRAME_MIN, which every peer takes. On failure `out` is
 * unchanged. */
int codec_put_method(struct buf *out, uint16_t channel, amqp_method_number_t id,
                     void *decoded) MUST_CHECK;

/* What a content consists of: raw property flags and list (props.h), and the body. */
struct codec_content {
    struct text props;
    struct text body;
};

/* Appends a content header frame and the body frames it needs. Returns as codec_put_method:
 * ERR_INVALID when the header passes frame_max. */
int codec_put_content(struct buf *out, uint32_t frame_max, uint16_t channel,
                      const struct codec_content *content) MUST_CHECK;

/* Reads a content header frame. *props borrows the frame. Returns 0 or ERR_PROTOCOL. */
int codec_content_header(const struct codec_frame *frame, struct text *props,
                         uint64_t *body_bytes) MUST_CHECK;

/* The largest `props` whose header frame fits. */
static inline size_t codec_max_props(uint32_t frame_max)
{
    return frame_max - CODEC_FRAME_OVERHEAD - CODEC_CONTENT_HEADER;
}

int codec_put_heartbeat(struct buf *out) MUST_CHECK;

#endif
