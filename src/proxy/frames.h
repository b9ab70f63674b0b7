/* The frames that the proxy makes itself. Appended whole or, when memory is short (ERR_NOMEM), not
 * at all. */
#ifndef HARBINGER_PROXY_FRAMES_H
#define HARBINGER_PROXY_FRAMES_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/text.h"
#include "proxy/service.h"
#include "proxy/split.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a delivery goes and what it is called there. */
struct frames_place {
    uint16_t channel;
    uint32_t frame_max; /* bodies are cut to it; a content header never is, as RabbitMQ does */
    uint64_t tag;
};

/* basic.deliver with its content. */
int frames_put_deliver(struct buf *out, const struct frames_place *at, struct text consumer_tag,
                       const struct proxy_delivery *d) MUST_CHECK;
/* basic.get-ok with its content; `left` messages still wait. */
int frames_put_get_ok(struct buf *out, const struct frames_place *at, uint32_t left,
                      const struct proxy_delivery *d) MUST_CHECK;

/* channel.flow with active = 1. */
int frames_put_flow(struct buf *out, uint16_t channel) MUST_CHECK;

/* connection.close; `method` is the one to blame, 0 for none. `text` is cut to 255 bytes. */
int frames_put_close(struct buf *out, uint16_t code, const char *text, uint32_t method) MUST_CHECK;
int frames_put_close_ok(struct buf *out) MUST_CHECK;

/* A method frame with another short text in place of the one of `n_old` bytes at `offset` of its
 * payload. */
int frames_put_renamed(struct buf *out, const struct frame *f, struct text new_name, size_t offset,
                       size_t n_old) MUST_CHECK;

#endif
