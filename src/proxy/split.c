#include "proxy/split.h"

#include "amqp/codec.h"
#include "amqp/wire.h"
#include "base/err.h"

#include <string.h>

enum { HEAD = 7, KEEP_BYTES = 4096 /* of memory for cut frames, while none is cut */ };

void split_init(struct split *s, bool greeting, uint32_t frame_max)
{
    *s = (struct split){.greeting = greeting};
    split_set_frame_max(s, frame_max);
}

void split_fini(struct split *s)
{
    buf_fini(&s->held);
}

void split_set_frame_max(struct split *s, uint32_t frame_max)
{
    bool unbounded = frame_max == 0 || frame_max > CODEC_FRAME_MOST;
    s->frame_max = unbounded ? CODEC_FRAME_MOST : frame_max;
}

size_t split_held_bytes(const struct split *s)
{
    return s->returned ? 0 : s->held.n;
}

static int broken(struct split *s, const char *error)
{
    s->error = error;
    return ERR_PROTOCOL;
}

/* How many bytes the frame that starts at `p` has, as far as its first `n` tell: HEAD until its size
 * is known. 0 with `error` set when it is none. */
static size_t measure(struct split *s, const char *p, size_t n)
{
    if (s->greeting) {
        if (memcmp(p, "AMQP", n < 4 ? n : 4) == 0)
            return SPLIT_GREETING;
        s->error = "does not begin with a protocol header";
        return 0;
    }
    uint8_t type = (uint8_t)p[0];
    if (type != AMQP_FRAME_METHOD && type != AMQP_FRAME_HEADER && type != AMQP_FRAME_BODY &&
        type != AMQP_FRAME_HEARTBEAT) {
        s->error = "sends a frame of unknown type";
        return 0;
    }
    if (n < HEAD)
        return HEAD;
    uint32_t payload = wire_get32(p + 3);
    uint32_t most = type == AMQP_FRAME_HEADER ? CODEC_FRAME_MOST : s->frame_max;
    if (payload > most - CODEC_FRAME_OVERHEAD) {
        s->error = "sends a frame over frame_max";
        return 0;
    }
    return (size_t)payload + CODEC_FRAME_OVERHEAD;
}

static int cut_out(struct split *s, char *p, size_t n, struct frame *out)
{
    if (s->greeting) {
        s->greeting = false;
        *out = (struct frame){.type = SPLIT_GREETING_TYPE, .raw = p, .n_raw = n};
        return 0;
    }
    if ((unsigned char)p[n - 1] != AMQP_FRAME_END)
        return broken(s, "sends a frame without its end");
    *out = (struct frame){
        .type = (uint8_t)p[0],
        .channel = wire_get16(p + 1),
        .raw = p,
        .n_raw = n,
        .payload = p + HEAD,
        .n = n - CODEC_FRAME_OVERHEAD,
    };
    return 0;
}

/* Takes the bytes that the cut frame lacks to be whole, or to tell its size. */
static int take(struct split *s, size_t whole, char **at, size_t *n)
{
    size_t lacks = whole - s->held.n, m = lacks < *n ? lacks : *n;
    int r = buf_append(&s->held, *at, m);
    if (r < 0)
        return r;
    *at += m;
    *n -= m;
    return m < lacks ? SPLIT_MORE : 0;
}

/* Goes on with a frame of which `held` has the beginning. */
static int put_together(struct split *s, char **at, size_t *n, struct frame *out)
{
    for (;;) {
        size_t whole = measure(s, s->held.p, s->held.n);
        if (whole == 0)
            return ERR_PROTOCOL;
        if (whole == s->held.n) {
            s->returned = true;
            return cut_out(s, s->held.p, whole, out);
        }
        int r = take(s, whole, at, n);
        if (r == SPLIT_MORE && measure(s, s->held.p, s->held.n) == 0)
            return ERR_PROTOCOL;
        if (r != 0)
            return r;
    }
}

static void forget_returned(struct split *s)
{
    if (!s->returned)
        return;
    s->returned = false;
    if (s->held.cap > KEEP_BYTES)
        buf_fini(&s->held);
    buf_reset(&s->held);
}

int split_next(struct split *s, char **at, size_t *n, struct frame *out)
{
    forget_returned(s);
    if (s->held.n > 0)
        return *n > 0 ? put_together(s, at, n, out) : SPLIT_MORE;
    if (*n == 0)
        return SPLIT_MORE;
    size_t whole = measure(s, *at, *n);
    if (whole == 0)
        return ERR_PROTOCOL;
    if (whole > *n)
        return take(s, whole, at, n);
    char *p = *at;
    *at += whole;
    *n -= whole;
    return cut_out(s, p, whole, out);
}
