/* What an AMQP worker sees of a message that a client submitted, and where its connection goes. */
#include "sidecar/amqp_workers.h"

#include "lib/testmain.h"
#include "rpc/service.h"
#include "sidecar/lesson.h"

#include <string.h>

static void header(struct buf *out, const char *name, struct text value)
{
    ck_assert_int_eq(rpc_put_header(out, text_of(name), value), 0);
}

static struct props props_of(const struct buf *headers, struct buf *out)
{
    struct props p;
    ck_assert_int_eq(amqp_workers_props((struct text){headers->p, headers->n}, out), 0);
    props_parse(&p, (struct text){out->p, out->n});
    ck_assert(!p.opaque);
    ck_assert_int_eq(props_number(&p, PROP_DELIVERY_MODE), 2);
    return p;
}

static void expect(const struct props *p, const char *name, struct text value)
{
    struct text got = props_header_text(p, text_of(name));
    ck_assert_ptr_nonnull(got.p);
    ck_assert(text_equal(got, value));
}

/* Headers come out as they were submitted, the empty one too; what is in `out` before stays. */
START_TEST(headers_are_texts)
{
    struct buf in = {0}, out = {0};
    header(&in, "job_type", text_of("mail"));
    header(&in, "empty", text_of(""));
    header(&in, "n", text_of("7"));
    struct props p = props_of(&in, &out);
    expect(&p, "job_type", text_of("mail"));
    expect(&p, "empty", text_of(""));
    expect(&p, "n", text_of("7"));
    size_t n = out.n;
    ck_assert_int_eq(amqp_workers_props((struct text){in.p, in.n}, &out), 0);
    ck_assert_uint_eq(out.n, 2 * n);
    ck_assert_mem_eq(out.p, out.p + n, n);
    buf_fini(&in);
    buf_fini(&out);
}
END_TEST

START_TEST(without_headers_the_table_is_empty)
{
    struct buf in = {0}, out = {0};
    struct header h;
    size_t at = 0;
    struct props p = props_of(&in, &out);
    ck_assert(!props_header_next(&p, &at, &h));
    buf_fini(&out);
}
END_TEST

/* AMQP has one byte for the length of a name. */
START_TEST(a_name_too_long_is_left_out)
{
    char name[257];
    struct buf in = {0}, out = {0};
    memset(name, 'n', 256);
    name[256] = '\0';
    header(&in, name, text_of("long"));
    header(&in, name + 1, text_of("fits"));
    struct props p = props_of(&in, &out);
    struct header h;
    size_t at = 0;
    ck_assert(props_header_next(&p, &at, &h));
    ck_assert_uint_eq(h.name.n, 255);
    ck_assert(!props_header_next(&p, &at, &h));
    buf_fini(&in);
    buf_fini(&out);
}
END_TEST

/* 64 KiB and more: all four bytes of a length count. */
START_TEST(a_long_value_is_whole)
{
    static char value[70000];
    struct buf in = {0}, out = {0};
    memset(value, 'v', sizeof value);
    header(&in, "a", (struct text){value, sizeof value});
    header(&in, "b", text_of("after"));
    struct props p = props_of(&in, &out);
    expect(&p, "a", (struct text){value, sizeof value});
    expect(&p, "b", text_of("after"));
    buf_fini(&in);
    buf_fini(&out);
}
END_TEST

START_TEST(a_lesson_comes_back_whole)
{
    char bytes[LESSON_BYTES], key[HB_KEY_MAX + 1];
    struct hb_lesson in = {.parent = {key, 7}, .predicted = true, .level = 3, .estimate_ms = 12.25},
                     out;
    memset(key, 'k', sizeof key);
    for (size_t n = 7; n <= HB_KEY_MAX; n += HB_KEY_MAX - 7) {
        in.key = (struct hb_key){key, n};
        size_t packed = lesson_pack(&in, bytes);
        ck_assert_uint_gt(packed, n);
        ck_assert(lesson_unpack((struct text){bytes, packed}, &out));
        ck_assert_uint_eq(out.key.n, n);
        ck_assert_mem_eq(out.key.p, key, n);
        ck_assert_uint_eq(out.parent.n, 7);
        ck_assert_ptr_eq(out.parent.p, out.key.p);
        ck_assert(out.predicted);
        ck_assert_uint_eq(out.level, 3);
        ck_assert_double_eq(out.estimate_ms, 12.25);
        ck_assert(!lesson_unpack((struct text){bytes, packed - n}, &out));
    }
    in.key.n = HB_KEY_MAX + 1;
    ck_assert_uint_eq(lesson_pack(&in, bytes), 0);
    in.key.n = 0;
    ck_assert_uint_eq(lesson_pack(&in, bytes), 0);
    ck_assert(!lesson_unpack((struct text){NULL, 0}, &out));
}
END_TEST

static void upstream_is(const char *text, const char *host, uint16_t port)
{
    struct uri u;
    struct err e;
    ck_assert_int_eq(amqp_workers_upstream(text, &u, &e), 0);
    ck_assert_str_eq(u.host, host);
    ck_assert_uint_eq(u.port, port);
}

START_TEST(an_upstream_is_a_host_and_a_port)
{
    static const char *const wrong[] = {"amqp://host:1",      "user@host:1", "host:1/vhost",
                                        "host:1?heartbeat=1", "host:99999",  "host:x"};
    upstream_is("rabbit.example:1234", "rabbit.example", 1234);
    upstream_is("rabbit.example", "rabbit.example", 5672);
    upstream_is("[::1]:1234", "::1", 1234);
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct uri u;
        struct err e;
        ck_assert_int_lt(amqp_workers_upstream(wrong[i], &u, &e), 0);
        ck_assert_uint_gt(strlen(e.msg), 0);
    }
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {headers_are_texts,
                                  without_headers_the_table_is_empty,
                                  a_name_too_long_is_left_out,
                                  a_long_value_is_whole,
                                  an_upstream_is_a_host_and_a_port,
                                  a_lesson_comes_back_whole,
                                  NULL};
    return suite_of("amqp_workers", tests);
}
