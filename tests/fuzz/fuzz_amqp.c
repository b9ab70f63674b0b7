/*
 * What a broker, or whoever wrote a message, can send us: frames, methods, property lists, return
 * texts. Whatever it is, nothing is read past its end, and what an edit gives back can be read
 * again with all that was kept. Exercises amqp/codec.c, amqp/header.c, amqp/props.c and, with its
 * own mark, amqp/uri.c.
 */
#include "amqp/codec.h"
#include "amqp/props.h"
#include "amqp/uri.h"
#include "fuzz/target.h"

#include <stdlib.h>
#include <string.h>

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void read_all(const struct props *p, size_t *n_headers)
{
    struct header h;
    char shown[64];
    double number;
    *n_headers = 0;
    for (size_t at = 0; props_header_next(p, &at, &h); ++*n_headers) {
        header_print(&h, shown, sizeof shown);
        must(!header_number(&h, &number) || h.value.n > 0);
    }
    for (unsigned i = 0; i < PROP_COUNT; i++) {
        struct text t = props_text(p, (enum prop)i);
        must(t.p != NULL || t.n == 0);
        must(props_number(p, (enum prop)i) >= -1);
    }
}

/* Edited twice: unchanged it is the same bytes; with an addition all the old headers are still
 * there. */
static void try_props(struct text raw)
{
    struct props p, q;
    struct buf same = {0}, more = {0};
    size_t n, n_more;
    props_parse(&p, raw);
    read_all(&p, &n);
    struct props_edit keep = {.priority = -1};
    struct header add = header_text("x-harbinger-id", text_of("1"));
    struct props_edit edit = {.priority = 3, .add = &add, .n_add = 1};
    if (!p.opaque && props_edit(&p, &keep, &same) == 0)
        must(same.n == raw.n && memcmp(same.p, raw.p, raw.n) == 0);
    if (props_edit(&p, &edit, &more) == 0) {
        props_parse(&q, (struct text){more.p, more.n});
        must(!q.opaque && props_number(&q, PROP_PRIORITY) == 3);
        read_all(&q, &n_more);
        must(n_more == n + 1 + p.opaque);
    }
    buf_fini(&same);
    buf_fini(&more);
}

static void try_frames(struct text stream)
{
    amqp_pool_t pool;
    init_amqp_pool(&pool, 4096);
    for (;;) {
        struct codec_frame f;
        size_t used;
        amqp_method_t m;
        struct text props;
        uint64_t body_bytes;
        if (codec_split(stream, CODEC_FRAME_MAX, &f, &used) != 0)
            break;
        must(used <= stream.n);
        if (f.type == AMQP_FRAME_METHOD && codec_method(&f, &pool, &m) == 0)
            must(m.decoded != NULL);
        if (f.type == AMQP_FRAME_HEADER && codec_content_header(&f, &props, &body_bytes) == 0)
            try_props(props);
        recycle_amqp_pool(&pool);
        stream = (struct text){stream.p + used, stream.n - used};
    }
    empty_amqp_pool(&pool);
}

static void try_uri(struct text t)
{
    struct uri u;
    char text[2048], printed[URI_PRINT_MAX];
    if (t.n >= sizeof text)
        return;
    memcpy(text, t.p, t.n);
    text[t.n] = '\0';
    if (uri_parse(text, &u, NULL) == 0)
        uri_print(&u, printed, sizeof printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text t = {(const char *)data, size};
    if (size > 0 && data[0] == 'a')
        try_uri(t);
    try_frames(t);
    try_props(t);
    return 0;
}
