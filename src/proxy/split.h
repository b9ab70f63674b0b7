/*
 * Bytes to frames, in whatever pieces they come. A frame that lies whole in the bytes at hand is
 * returned where it lies; only one that is cut is put together in memory of the splitter's own.
 * Either way it may be changed in place until the next call.
 *
 * Frame: type 1, channel 2, size 4, payload, 0xCE.
 */
#ifndef HARBINGER_PROXY_SPLIT_H
#define HARBINGER_PROXY_SPLIT_H

#include "base/buf.h"
#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPLIT_GREETING = 8,       /* bytes of a protocol header */
    SPLIT_GREETING_TYPE = 'A' /* frame.type of one: it has no payload, `raw` is all of it */
};

struct frame {
    uint8_t type;
    uint16_t channel;
    char *raw; /* header, payload and end */
    size_t n_raw;
    char *payload;
    size_t n;
};

struct split {
    bool greeting;      /* a protocol header comes first */
    uint32_t frame_max; /* of everything but content headers, which RabbitMQ never splits */
    struct buf held;    /* the beginning of a frame */
    bool returned;      /* `held` is the frame that the last call returned */
    const char *error;  /* after ERR_PROTOCOL: what is wrong, a fixed text */
};

/* `frame_max` 0 or above CODEC_FRAME_MOST means that. */
void split_init(struct split *s, bool greeting, uint32_t frame_max);
void split_fini(struct split *s);
void split_set_frame_max(struct split *s, uint32_t frame_max);

/* Bytes that wait for the rest of their frame. */
size_t split_held_bytes(const struct split *s);

/* Outcomes of split_next. */
enum { SPLIT_MORE = 1 };

/* The next frame of the bytes at *at, of which there are *n; moves both behind what was used.
 * Returns 0 with *out; SPLIT_MORE when all is used; ERR_PROTOCOL (see `error`: the stream cannot be
 * read on) or ERR_NOMEM. */
int split_next(struct split *s, char **at, size_t *n, struct frame *out) MUST_CHECK;

#endif
