#include "sidecar/outgoing.h"

#include "base/err.h"
#include "lib/testmain.h"

#include <stdio.h>
#include <stdlib.h>

/* Builds raw property bytes by hand: what the tests expect must not come from the code that they
 * test. */
struct raw {
    char p[4096];
    size_t n;
};

static void put(struct raw *r, const void *p, size_t n)
{
    memcpy(r->p + r->n, p, n);
    r->n += n;
}

static void put_number(struct raw *r, uint64_t v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        r->p[r->n++] = (char)(v >> (8 * i));
}

static void put_short(struct raw *r, const char *s)
{
    put_number(r, strlen(s), 1);
    put(r, s, strlen(s));
}

static void put_header(struct raw *r, const char *name, const char *value)
{
    put_short(r, name);
    put(r, "S", 1);
    put_number(r, strlen(value), 4);
    put(r, value, strlen(value));
}

enum { HEADERS = 0x2000, DELIVERY_MODE = 0x1000, PRIORITY = 0x0800, USER_ID = 0x0010 };

/* A message with these flags, a header table made by `fill`, delivery mode 2, priority 7 and user
 * "alice". */
static struct message *message(unsigned flags, void (*fill)(struct raw *table))
{
    struct raw table = {.n = 0}, props = {.n = 0};
    if (fill != NULL)
        fill(&table);
    put_number(&props, flags, 2);
    if (flags & HEADERS) {
        put_number(&props, table.n, 4);
        put(&props, table.p, table.n);
    }
    if (flags & DELIVERY_MODE)
        put_number(&props, 2, 1);
    if (flags & PRIORITY)
        put_number(&props, 7, 1);
    if (flags & USER_ID)
        put_short(&props, "alice");
    return message_new(text_of("shop"), text_of("orders"), (struct text){props.p, props.n}, 0);
}

static struct outgoing outgoing(const struct message *m)
{
    return (struct outgoing){.message = m,
                             .id = text_of("1-2-0-x"),
                             .key = text_of("p/a"),
                             .reason = "predicted",
                             .level = 2,
                             .priority = 0,
                             .add_address = true};
}

/* The headers as `name=value;...`, then the priority. */
static const char *shown(const struct outgoing *o, enum outgoing_form form)
{
    static char out[2048];
    static struct buf raw;
    struct props p;
    struct header h;
    char value[512];
    size_t at = 0, n = 0;
    buf_reset(&raw);
    ck_assert_int_eq(outgoing_props(o, form, &raw), 0);
    props_parse(&p, (struct text){raw.p, raw.n});
    ck_assert(!p.opaque);
    while (props_header_next(&p, &at, &h)) {
        header_print(&h, value, sizeof value);
        n += (size_t)snprintf(out + n, sizeof out - n, "%.*s=%s;", (int)h.name.n, h.name.p, value);
    }
    struct text user = props_text(&p, PROP_USER_ID);
    snprintf(out + n, sizeof out - n, "priority=%d user=%.*s", (int)props_number(&p, PROP_PRIORITY),
             (int)user.n, user.p != NULL ? user.p : "");
    return out;
}

static void some_headers(struct raw *t)
{
    put_header(t, "job_type", "a");
    put_header(t, "x-harbinger-level", "forged");
    put_header(t, "traceparent", "00-1");
}

/* Everything is added behind the message's own headers, and what a producer forged is gone. */
START_TEST(whole_form_adds_and_strips)
{
    struct message *m = message(HEADERS | DELIVERY_MODE, some_headers);
    struct outgoing o = outgoing(m);
    ck_assert_str_eq(shown(&o, OUTGOING_WHOLE),
                     "job_type=a;traceparent=00-1;x-harbinger-id=1-2-0-x;x-harbinger-key=p/a;"
                     "x-harbinger-level=2;x-harbinger-reason=predicted;x-harbinger-exchange=shop;"
                     "x-harbinger-routing-key=orders;priority=0 user=");
    message_free(m);
}
END_TEST

static void copies(struct raw *t)
{
    put_short(t, "CC");
    put(t, "A", 1);
    put_number(t, 11, 4);
    put(t, "S", 1);
    put_number(t, 6, 4);
    put(t, "intake", 6);
    put_header(t, "BCC", "x");
    put_header(t, "a", "b");
}

/* CC and BCC would make RabbitMQ route a second copy: they go, in every form but the raw one. */
START_TEST(copies_are_removed)
{
    struct message *m = message(HEADERS, copies);
    struct outgoing o = outgoing(m);
    o.add_address = false;
    o.key = (struct text){"", 0};
    ck_assert_str_eq(shown(&o, OUTGOING_WHOLE),
                     "a=b;x-harbinger-id=1-2-0-x;x-harbinger-level=2;x-harbinger-reason=predicted;"
                     "x-harbinger-cc=(array);priority=0 user=");
    ck_assert_str_eq(shown(&o, OUTGOING_BARE), "a=b;priority=0 user=");
    message_free(m);
}
END_TEST

/* user_id moves into a header, since RabbitMQ refuses one that is not the publisher's own; unless
 * we may impersonate. */
START_TEST(user_id_moves_unless_impersonating)
{
    struct message *m = message(PRIORITY | USER_ID, NULL);
    struct outgoing o = outgoing(m);
    o.add_address = false;
    o.priority = -1;
    ck_assert_str_eq(shown(&o, OUTGOING_WHOLE),
                     "x-harbinger-id=1-2-0-x;x-harbinger-key=p/"
                     "a;x-harbinger-level=2;x-harbinger-reason=predicted;"
                     "x-harbinger-user-id=alice;priority=7 user=");
    ck_assert_str_eq(shown(&o, OUTGOING_BARE), "priority=7 user=");
    o.impersonate = true;
    ck_assert_str_eq(shown(&o, OUTGOING_BARE), "priority=7 user=alice");
    message_free(m);
}
END_TEST

/* A message that is parked says why. */
START_TEST(parked_messages_say_why)
{
    struct message *m = message(0, NULL);
    struct outgoing o = outgoing(m);
    o.add_address = false;
    o.priority = -1;
    o.parked_reason = "returned (312): NO_ROUTE";
    ck_assert_ptr_nonnull(
        strstr(shown(&o, OUTGOING_WHOLE), "x-harbinger-parked-reason=returned (312): NO_ROUTE;"));
    message_free(m);
}
END_TEST

/* The raw form, and any form of properties that cannot be read, is what came, byte for byte. */
START_TEST(raw_form_is_what_came)
{
    struct message *m = message(HEADERS | USER_ID, copies);
    struct outgoing o = outgoing(m);
    struct buf out = {0};
    ck_assert_int_eq(outgoing_props(&o, OUTGOING_RAW, &out), 0);
    ck_assert_uint_eq(out.n, m->props.raw.n);
    ck_assert_mem_eq(out.p, m->props.raw.p, out.n);
    message_free(m);

    m = message_new(text_of(""), text_of("q"), (struct text){"\x20\x00\xff", 3}, 0);
    o = outgoing(m);
    buf_reset(&out);
    ck_assert_int_eq(outgoing_props(&o, OUTGOING_WHOLE, &out), 0);
    ck_assert_uint_eq(out.n, 3);
    message_free(m);
    buf_fini(&out);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {
        whole_form_adds_and_strips, copies_are_removed,    user_id_moves_unless_impersonating,
        parked_messages_say_why,    raw_form_is_what_came, NULL};
    return suite_of("outgoing", tests);
}
