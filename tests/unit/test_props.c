#include "amqp/props.h"

#include "amqp/message.h"
#include "amqp/wire.h"
#include "base/err.h"
#include "lib/testmain.h"

#include <stdlib.h>
#include <string.h>

/* One entry of each field type, in an order of no meaning; nested tables and arrays included. */
#define ENTRY(name, type, value) "\x02" name type value
static const char every_type[] = ENTRY("tt", "t", "\x01") ENTRY("bb", "b", "\xfe")
    ENTRY("BB", "B", "\xfe") ENTRY("ss", "s", "\xff\xfe") ENTRY("uu", "u", "\xff\xfe")
        ENTRY("II", "I", "\xff\xff\xff\xfe") ENTRY("ii", "i", "\xff\xff\xff\xfe")
            ENTRY("ll", "l", "\xff\xff\xff\xff\xff\xff\xff\xfe")
                ENTRY("LL", "L", "\0\0\0\0\0\0\1\0") ENTRY("ff", "f", "\x3f\xc0\0\0")
                    ENTRY("dd", "d", "\x3f\xf8\0\0\0\0\0\0") ENTRY("DD", "D", "\2\0\0\1\x2c")
                        ENTRY("SS", "S", "\0\0\0\3abc") ENTRY("TT", "T", "\0\0\0\0\x5f\0\0\0")
                            ENTRY("VV", "V", "") ENTRY("xx", "x", "\0\0\0\2\0\xff")
                                ENTRY("AA", "A", "\0\0\0\7F\0\0\0\0tV")
                                    ENTRY("FF", "F", "\0\0\0\010\2inF\0\0\0\0")
                                        ENTRY("CC", "A", "\0\0\0\6S\0\0\0\1q") ENTRY("x-", "V", "");

struct build {
    struct buf b;
};

static void put(struct build *l, const void *p, size_t n)
{
    ck_assert_int_eq(buf_append(&l->b, p, n), 0);
}

static void put_table(struct build *l, const char *table, size_t n)
{
    char size[4];
    wire_put32(size, (uint32_t)n);
    put(l, size, 4);
    put(l, table, n);
}

/* All fourteen properties, the header table as given. */
static struct text all_props(struct build *l, const char *table, size_t n)
{
    put(l, "\xff\xfc", 2);
    put(l, "\4text\4gzip", 10);
    put_table(l, table, n);
    put(l, "\2\5", 2);
    put(l,
        "\4corr\5reply\5"
        "60000\3mid",
        5 + 6 + 6 + 4);
    put(l, "\0\0\0\0\x5f\0\0\0", 8);
    put(l, "\4type\5guest\3app\7cluster", 5 + 6 + 4 + 8);
    return (struct text){l->b.p, l->b.n};
}

static void assert_text(struct text t, const char *expected)
{
    ck_assert_uint_eq(t.n, strlen(expected));
    ck_assert_mem_eq(t.p, expected, t.n);
}

static double number(const struct props *p, const char *name)
{
    struct header h;
    double v = -12345;
    ck_assert(props_header(p, text_of(name), &h));
    ck_assert(header_number(&h, &v));
    return v;
}

/* Every property and every field type reads as it was written. */
START_TEST(everything_reads)
{
    struct build l = {0};
    struct props p;
    props_parse(&p, all_props(&l, every_type, sizeof every_type - 1));
    ck_assert(!p.opaque);
    assert_text(props_text(&p, PROP_CONTENT_TYPE), "text");
    assert_text(props_text(&p, PROP_CONTENT_ENCODING), "gzip");
    assert_text(props_text(&p, PROP_CORRELATION_ID), "corr");
    assert_text(props_text(&p, PROP_REPLY_TO), "reply");
    assert_text(props_text(&p, PROP_EXPIRATION), "60000");
    assert_text(props_text(&p, PROP_MESSAGE_ID), "mid");
    assert_text(props_text(&p, PROP_TYPE), "type");
    assert_text(props_text(&p, PROP_USER_ID), "guest");
    assert_text(props_text(&p, PROP_APP_ID), "app");
    assert_text(props_text(&p, PROP_CLUSTER_ID), "cluster");
    ck_assert_int_eq(props_number(&p, PROP_DELIVERY_MODE), 2);
    ck_assert_int_eq(props_number(&p, PROP_PRIORITY), 5);
    ck_assert_int_eq(props_number(&p, PROP_TIMESTAMP), 0x5f000000);
    ck_assert_ptr_null(props_text(&p, PROP_HEADERS).p);

    ck_assert_double_eq(number(&p, "tt"), 1);
    ck_assert_double_eq(number(&p, "bb"), -2);
    ck_assert_double_eq(number(&p, "BB"), 254);
    ck_assert_double_eq(number(&p, "ss"), -2);
    ck_assert_double_eq(number(&p, "uu"), 65534);
    ck_assert_double_eq(number(&p, "II"), -2);
    ck_assert_double_eq(number(&p, "ii"), 4294967294.0);
    ck_assert_double_eq(number(&p, "ll"), -2);
    ck_assert_double_eq(number(&p, "LL"), 256);
    ck_assert_double_eq(number(&p, "ff"), 1.5);
    ck_assert_double_eq(number(&p, "dd"), 1.5);
    ck_assert_double_eq_tol(number(&p, "DD"), 3.0, 1e-12);
    ck_assert_double_eq(number(&p, "TT"), 0x5f000000);
    assert_text(props_header_text(&p, text_of("SS")), "abc");
    ck_assert_ptr_null(props_header_text(&p, text_of("tt")).p);
    ck_assert_ptr_null(props_header_text(&p, text_of("no")).p);
    buf_fini(&l.b);
}
END_TEST

/* An edit that changes nothing gives back the same bytes. */
START_TEST(no_change_is_byte_for_byte)
{
    struct build l = {0};
    struct buf out = {0};
    struct props p;
    struct text raw = all_props(&l, every_type, sizeof every_type - 1);
    props_parse(&p, raw);
    struct props_edit edit = {.priority = -1};
    ck_assert_int_eq(props_edit(&p, &edit, &out), 0);
    ck_assert_uint_eq(out.n, raw.n);
    ck_assert_mem_eq(out.p, raw.p, raw.n);
    buf_fini(&out);
    buf_fini(&l.b);
}
END_TEST

/* Stripping any one header and adding it at the end keeps all others in order, byte for byte, and
 * the moved one in type and value. */
START_TEST(a_moved_header_keeps_its_type_and_the_others_their_order)
{
    struct build l = {0};
    struct props p, q;
    struct header h;
    props_parse(&p, all_props(&l, every_type, sizeof every_type - 1));
    for (size_t at = 0, next; next = at, props_header_next(&p, &next, &h); at = next) {
        struct buf out = {0};
        struct header moved = {text_of("moved"), h.type, h.value};
        struct text name = h.name;
        struct props_edit edit = {
            .priority = 9, .strip = &name, .n_strip = 1, .add = &moved, .n_add = 1};
        ck_assert_int_eq(props_edit(&p, &edit, &out), 0);
        props_parse(&q, (struct text){out.p, out.n});
        ck_assert(!q.opaque);
        ck_assert_int_eq(props_number(&q, PROP_PRIORITY), 9);
        struct text before = props_field(&p, PROP_HEADERS);
        struct text after = props_field(&q, PROP_HEADERS);
        ck_assert_mem_eq(after.p, before.p, at);
        ck_assert_mem_eq(after.p + at, before.p + next, before.n - next);
        struct header found;
        ck_assert(props_header(&q, text_of("moved"), &found));
        ck_assert_int_eq(found.type, h.type);
        ck_assert(text_equal(found.value, h.value));
        ck_assert(!props_header(&q, h.name, &found));
        buf_fini(&out);
    }
    buf_fini(&l.b);
}
END_TEST

/* Where there is no table and no priority, both are put in their places. */
START_TEST(absent_table_and_priority_are_made)
{
    struct props p, q;
    struct buf out = {0};
    props_parse(&p, (struct text){"\x80\x08\4text\3app", 11});
    ck_assert(!p.opaque);
    struct header add[] = {header_text("x-harbinger-id", text_of("1-2-3"))};
    struct props_edit edit = {.priority = 0, .add = add, .n_add = 1};
    ck_assert_int_eq(props_edit(&p, &edit, &out), 0);
    props_parse(&q, (struct text){out.p, out.n});
    assert_text(props_text(&q, PROP_CONTENT_TYPE), "text");
    assert_text(props_text(&q, PROP_APP_ID), "app");
    ck_assert_int_eq(props_number(&q, PROP_PRIORITY), 0);
    assert_text(props_header_text(&q, text_of("x-harbinger-id")), "1-2-3");
    buf_fini(&out);
}
END_TEST

/* Incoming x-harbinger-* goes whatever its case, the user id when asked, and nothing else. */
START_TEST(forged_headers_and_user_id_are_stripped)
{
    static const char table[] = "\xeX-Harbinger-IDV"
                                "\1aV"
                                "\xex-harbinger-idI\0\0\0\1"
                                "\xbx-harbingerV";
    struct build l = {0};
    struct buf out = {0};
    struct props p, q;
    struct header h;
    props_parse(&p, all_props(&l, table, sizeof table - 1));
    ck_assert(!p.opaque);
    struct props_edit edit = {
        .priority = -1, .drop_user_id = true, .strip_prefix = text_of("x-harbinger-")};
    ck_assert_int_eq(props_edit(&p, &edit, &out), 0);
    props_parse(&q, (struct text){out.p, out.n});
    size_t at = 0;
    ck_assert(props_header_next(&q, &at, &h));
    assert_text(h.name, "a");
    ck_assert(props_header_next(&q, &at, &h));
    assert_text(h.name, "x-harbinger");
    ck_assert(!props_header_next(&q, &at, &h));
    ck_assert_ptr_null(props_text(&q, PROP_USER_ID).p);
    assert_text(props_text(&q, PROP_TYPE), "type");
    buf_fini(&out);
    buf_fini(&l.b);
}
END_TEST

/* A list cut at any byte, or with a type nobody knows, is opaque; it can still be edited and keeps
 * its raw bytes. */
START_TEST(what_cannot_be_read_is_opaque_and_kept)
{
    struct build l = {0};
    struct text raw = all_props(&l, every_type, sizeof every_type - 1);
    for (size_t n = 0; n < raw.n; n++) {
        char *exact = malloc(n > 0 ? n : 1);
        struct buf out = {0};
        struct props p, q;
        struct header h;
        memcpy(exact, raw.p, n);
        props_parse(&p, (struct text){exact, n});
        ck_assert(p.opaque);
        struct header add = header_text("x-harbinger-parked-reason", text_of("why"));
        struct props_edit edit = {.priority = 1, .add = &add, .n_add = 1};
        ck_assert_int_eq(props_edit(&p, &edit, &out), 0);
        props_parse(&q, (struct text){out.p, out.n});
        ck_assert(!q.opaque);
        ck_assert(props_header(&q, text_of("x-harbinger-raw-properties"), &h));
        ck_assert_int_eq(h.type, 'x');
        ck_assert(text_equal(h.value, (struct text){exact, n}));
        buf_fini(&out);
        free(exact);
    }
    struct props p;
    props_parse(&p, (struct text){"\x20\0\0\0\0\3\1a?", 9});
    ck_assert(p.opaque);
    props_parse(&p, (struct text){"\0\1\0\0", 4});
    ck_assert(p.opaque);
    buf_fini(&l.b);
}
END_TEST

/* Depth costs nothing: a header nested 20,000 deep is one value. */
START_TEST(deep_nesting_is_one_value)
{
    enum { DEPTH = 20000 };
    struct build t = {0}, l = {0};
    struct props p;
    struct header h;
    for (int i = 0; i < DEPTH; i++) {
        char level[7] = {1, 'k', 'F'};
        wire_put32(level + 3, (uint32_t)(DEPTH - 1 - i) * 7);
        put(&t, level, 7);
    }
    props_parse(&p, all_props(&l, t.b.p, t.b.n));
    ck_assert(!p.opaque);
    ck_assert(props_header(&p, text_of("k"), &h));
    ck_assert_uint_eq(h.value.n, (DEPTH - 1) * 7);
    char shown[16];
    header_print(&h, shown, sizeof shown);
    ck_assert_str_eq(shown, "(table)");
    buf_fini(&t.b);
    buf_fini(&l.b);
}
END_TEST

/* A bad addition changes nothing. */
START_TEST(a_bad_addition_leaves_the_output_as_it_was)
{
    static const char long_name[300] = {[0 ... 298] = 'n'};
    struct props p = {0};
    struct buf out = {0};
    struct header bad[] = {
        {text_of(long_name), 'S', text_of("v")},
        {text_of("n"), '?', text_of("v")},
        {text_of("n"), 'I', text_of("abc")},
    };
    ck_assert_int_eq(buf_append(&out, "kept", 4), 0);
    for (size_t i = 0; i < 3; i++) {
        struct props_edit edit = {.priority = 1, .add = &bad[i], .n_add = 1};
        ck_assert_int_eq(props_edit(&p, &edit, &out), ERR_INVALID);
        ck_assert_uint_eq(out.n, 4);
    }
    buf_fini(&out);
}
END_TEST

/* A message owns copies of all it was made from. */
START_TEST(a_message_owns_its_parts)
{
    char exchange[] = "ex", key[] = "key", raw[] = "\x80\0\4text";
    struct message *m = message_new(text_of(exchange), text_of(key), (struct text){raw, 7}, 3);
    ck_assert_ptr_nonnull(m);
    memcpy(message_body_at(m, 0), "bo", 2);
    memcpy(message_body_at(m, 2), "d", 1);
    memset(exchange, 0, sizeof exchange);
    memset(key, 0, sizeof key);
    memset(raw, 0, sizeof raw);
    assert_text(m->exchange, "ex");
    assert_text(m->routing_key, "key");
    assert_text(m->body, "bod");
    assert_text(props_text(&m->props, PROP_CONTENT_TYPE), "text");
    ck_assert_uint_ge(message_bytes(m), 3 + 2 + 3 + 7);
    message_free(m);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {everything_reads,
                                  no_change_is_byte_for_byte,
                                  a_moved_header_keeps_its_type_and_the_others_their_order,
                                  absent_table_and_priority_are_made,
                                  forged_headers_and_user_id_are_stripped,
                                  what_cannot_be_read_is_opaque_and_kept,
                                  deep_nesting_is_one_value,
                                  a_bad_addition_leaves_the_output_as_it_was,
                                  a_message_owns_its_parts,
                                  NULL};
    return suite_of("props", tests);
}
