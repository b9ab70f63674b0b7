#include "amqp/codec.h"

#include "amqp/wire.h"
#include "base/err.h"
#include "lib/testmain.h"

#include <stdlib.h>
#include <string.h>

static struct text of_buf(const struct buf *b)
{
    return (struct text){b->p, b->n};
}

static void put_ack(struct buf *out, uint64_t tag)
{
    amqp_basic_ack_t ack = {.delivery_tag = tag, .multiple = 1};
    ck_assert_int_eq(codec_put_method(out, 7, AMQP_BASIC_ACK_METHOD, &ack), 0);
}

/* However the stream is cut, the same frames come out: MORE before the last byte, never after. */
START_TEST(a_frame_is_whole_at_its_last_byte_only)
{
    struct buf b = {0};
    put_ack(&b, 42);
    size_t first = b.n;
    ck_assert_int_eq(codec_put_heartbeat(&b), 0);
    for (size_t n = 0; n <= b.n; n++) {
        struct codec_frame f;
        size_t used;
        int r = codec_split((struct text){b.p, n}, CODEC_FRAME_MAX, &f, &used);
        ck_assert_int_eq(r, n < first ? CODEC_MORE : 0);
        ck_assert_uint_eq(used, n < first ? 0 : first);
    }
    struct codec_frame f;
    size_t used;
    ck_assert_int_eq(
        codec_split((struct text){b.p + first, b.n - first}, CODEC_FRAME_MAX, &f, &used), 0);
    ck_assert_int_eq(f.type, AMQP_FRAME_HEARTBEAT);
    ck_assert_uint_eq(first + used, b.n);
    buf_fini(&b);
}
END_TEST

/* A method comes out as it went in. */
START_TEST(methods_round_trip)
{
    struct buf b = {0};
    amqp_pool_t pool;
    struct codec_frame f;
    size_t used;
    amqp_method_t m;
    init_amqp_pool(&pool, 4096);
    put_ack(&b, 42);
    ck_assert_int_eq(codec_split(of_buf(&b), CODEC_FRAME_MAX, &f, &used), 0);
    ck_assert_int_eq(f.channel, 7);
    ck_assert_int_eq(codec_method(&f, &pool, &m), 0);
    ck_assert_int_eq(m.id, AMQP_BASIC_ACK_METHOD);
    ck_assert_uint_eq(((amqp_basic_ack_t *)m.decoded)->delivery_tag, 42);
    ck_assert_int_eq(((amqp_basic_ack_t *)m.decoded)->multiple, 1);
    empty_amqp_pool(&pool);
    buf_fini(&b);
}
END_TEST

/* A stream that cannot be read on is known at once: type, size and end byte are checked. */
START_TEST(a_broken_stream_is_refused)
{
    struct codec_frame f;
    size_t used;
    ck_assert_int_eq(codec_split(text_of("HTTP/1.1 400"), CODEC_FRAME_MAX, &f, &used),
                     ERR_PROTOCOL);
    char huge[] = {1, 0, 0, 0, 2, 0, 0, 0};
    ck_assert_int_eq(codec_split((struct text){huge, 8}, CODEC_FRAME_MAX, &f, &used), ERR_PROTOCOL);
    char bad_end[] = {8, 0, 0, 0, 0, 0, 0, 0};
    ck_assert_int_eq(codec_split((struct text){bad_end, 8}, CODEC_FRAME_MAX, &f, &used),
                     ERR_PROTOCOL);
}
END_TEST

/* A body is cut into frames of frame_max and comes back whole; a header that does not fit is
 * refused, not cut. */
START_TEST(content_is_cut_to_the_frame)
{
    enum { FRAME = 4096, BODY = 3 * FRAME };
    static char body[BODY], props[CODEC_FRAME_MAX];
    struct buf b = {0};
    for (int i = 0; i < BODY; i++)
        body[i] = (char)i;
    struct codec_content content = {{props, codec_max_props(FRAME)}, {body, BODY}};
    ck_assert_int_eq(codec_put_content(&b, FRAME, 3, &content), 0);

    struct text rest = of_buf(&b), kept;
    struct codec_frame f;
    size_t used, at = 0;
    uint64_t n;
    ck_assert_int_eq(codec_split(rest, FRAME, &f, &used), 0);
    ck_assert_int_eq(codec_content_header(&f, &kept, &n), 0);
    ck_assert_uint_eq(n, BODY);
    ck_assert_uint_eq(kept.n, codec_max_props(FRAME));
    for (rest = (struct text){rest.p + used, rest.n - used}; rest.n > 0;
         rest = (struct text){rest.p + used, rest.n - used}) {
        ck_assert_int_eq(codec_split(rest, FRAME, &f, &used), 0);
        ck_assert_mem_eq(f.payload.p, body + at, f.payload.n);
        at += f.payload.n;
    }
    ck_assert_uint_eq(at, BODY);

    size_t before = b.n;
    content.props.n++;
    ck_assert_int_eq(codec_put_content(&b, FRAME, 3, &content), ERR_INVALID);
    ck_assert_uint_eq(b.n, before);
    buf_fini(&b);
}
END_TEST

/* connection.start with server properties nested `depth` deep. */
static int decode_nested(int depth)
{
    struct buf b = {0};
    amqp_pool_t pool;
    char head[6] = {0, 10, 0, 10, 0, 9};
    int r = buf_append(&b, head, 6);
    for (int i = depth; r == 0 && i > 0; i--) {
        /* a table that holds one entry "k", a table */
        char level[7] = {0, 0, 0, 0, 1, 'k', 'F'};
        wire_put32(level, (uint32_t)(7 * i));
        r = buf_append(&b, level, 7);
    }
    if (r == 0)
        r = buf_append(&b,
                       "\0\0\0\0"
                       "\0\0\0\5PLAIN"
                       "\0\0\0\5en_US",
                       4 + 9 + 9);
    ck_assert_int_eq(r, 0);
    struct codec_frame f = {AMQP_FRAME_METHOD, 0, of_buf(&b)};
    amqp_method_t m;
    init_amqp_pool(&pool, 4096);
    r = codec_method(&f, &pool, &m);
    empty_amqp_pool(&pool);
    buf_fini(&b);
    return r;
}

/* Tables in methods are decoded up to a fixed depth; deeper ones are refused before anything
 * recurses. */
START_TEST(deep_tables_are_refused_before_decoding)
{
    ck_assert_int_eq(decode_nested(0), 0);
    ck_assert_int_eq(decode_nested(CODEC_MAX_DEPTH - 1), 0);
    ck_assert_int_eq(decode_nested(CODEC_MAX_DEPTH), ERR_PROTOCOL);
    ck_assert_int_eq(decode_nested(100000), ERR_PROTOCOL);
}
END_TEST

/* A method cut at any byte is refused, not read past its end. */
START_TEST(a_cut_method_is_refused)
{
    struct buf b = {0};
    amqp_pool_t pool;
    amqp_basic_deliver_t d = {.consumer_tag = lib_bytes(text_of("tag")),
                              .exchange = lib_bytes(text_of("ex")),
                              .routing_key = lib_bytes(text_of("k"))};
    init_amqp_pool(&pool, 4096);
    ck_assert_int_eq(codec_put_method(&b, 1, AMQP_BASIC_DELIVER_METHOD, &d), 0);
    struct text whole = {b.p + 7, b.n - 8};
    for (size_t n = 0; n <= whole.n; n++) {
        char *exact = malloc(n > 0 ? n : 1); /* so that a sanitizer sees a byte too far */
        memcpy(exact, whole.p, n);
        struct codec_frame f = {AMQP_FRAME_METHOD, 1, {exact, n}};
        amqp_method_t m;
        ck_assert_int_eq(codec_method(&f, &pool, &m), n < whole.n ? ERR_PROTOCOL : 0);
        recycle_amqp_pool(&pool);
        free(exact);
    }
    empty_amqp_pool(&pool);
    buf_fini(&b);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {a_frame_is_whole_at_its_last_byte_only,
                                  methods_round_trip,
                                  a_broken_stream_is_refused,
                                  content_is_cut_to_the_frame,
                                  deep_tables_are_refused_before_decoding,
                                  a_cut_method_is_refused,
                                  NULL};
    return suite_of("codec", tests);
}
