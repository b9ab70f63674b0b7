#include "amqp/props.h"

#include "amqp/wire.h"
#include "base/err.h"

#include <string.h>
#include <strings.h>

/* How a property's content is laid out. */
enum shape { SHORT_TEXT, TABLE, OCTET, LONGLONG };

static const unsigned char shapes[PROP_COUNT] = {
    [PROP_HEADERS] = TABLE,
    [PROP_DELIVERY_MODE] = OCTET,
    [PROP_PRIORITY] = OCTET,
    [PROP_TIMESTAMP] = LONGLONG,
};

enum {
    FLAG_CONTINUED = 1, /* more flag words follow; the basic class has none */
    FLAG_UNUSED = 2,
    FLAG_BYTES = 2,
    RAW_KEPT = 4096, /* of an opaque list: enough to see what it was */
};

static unsigned flag_of(unsigned prop)
{
    return 0x8000u >> prop;
}

/* The length prefix in front of a property's content. */
static size_t prefix_of(unsigned prop)
{
    switch (shapes[prop]) {
    case SHORT_TEXT: return 1;
    case TABLE: return 4;
    default: return 0;
    }
}

/* The content's bytes, its prefix being at `p` with `n` bytes left; SIZE_MAX when that is not
 * enough to know. */
static size_t content_size(unsigned prop, const char *p, size_t n)
{
    if (n < prefix_of(prop))
        return SIZE_MAX;
    switch (shapes[prop]) {
    case SHORT_TEXT: return (unsigned char)p[0];
    case TABLE: return wire_get32(p);
    case OCTET: return 1;
    default: return 8;
    }
}

/* Whether flags and list are whole, and nothing is behind them. */
static bool list_is_whole(struct text raw)
{
    if (raw.n < FLAG_BYTES)
        return false;
    unsigned flags = wire_get16(raw.p);
    if ((flags & (FLAG_CONTINUED | FLAG_UNUSED)) != 0)
        return false;
    size_t at = FLAG_BYTES;
    for (unsigned i = 0; i < PROP_COUNT; i++) {
        if ((flags & flag_of(i)) == 0)
            continue;
        size_t n = content_size(i, raw.p + at, raw.n - at);
        if (n == SIZE_MAX || n > raw.n - at - prefix_of(i))
            return false;
        at += prefix_of(i) + n;
    }
    return at == raw.n;
}

struct text props_field(const struct props *p, enum prop which)
{
    unsigned flags = p->opaque || p->raw.n < FLAG_BYTES ? 0 : wire_get16(p->raw.p);
    if ((flags & flag_of(which)) == 0)
        return (struct text){NULL, 0};
    size_t at = FLAG_BYTES;
    for (unsigned i = 0; i < which; i++)
        if ((flags & flag_of(i)) != 0)
            at += prefix_of(i) + content_size(i, p->raw.p + at, p->raw.n - at);
    size_t n = content_size(which, p->raw.p + at, p->raw.n - at);
    return (struct text){p->raw.p + at + prefix_of(which), n};
}

/* Whether each top-level entry of the header table can be read: what props_header_next promises. */
static bool table_is_whole(struct text table)
{
    struct header h;
    size_t at = 0;
    int r;
    while ((r = header_next(table, true, &at, &h)) == 0)
        ;
    return r == HEADER_END;
}

void props_parse(struct props *p, struct text raw)
{
    *p = (struct props){.raw = raw, .opaque = !list_is_whole(raw)};
    if (!table_is_whole(props_field(p, PROP_HEADERS)))
        p->opaque = true;
}

struct text props_text(const struct props *p, enum prop which)
{
    return shapes[which] == SHORT_TEXT ? props_field(p, which) : (struct text){NULL, 0};
}

int64_t props_number(const struct props *p, enum prop which)
{
    const char *at = props_field(p, which).p;
    if (at == NULL)
        return -1;
    if (shapes[which] == OCTET)
        return (unsigned char)at[0];
    if (shapes[which] != LONGLONG)
        return -1;
    uint64_t v = wire_get64(at);
    return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

bool props_header_next(const struct props *p, size_t *at, struct header *out)
{
    return header_next(props_field(p, PROP_HEADERS), true, at, out) == 0;
}

bool props_header(const struct props *p, struct text name, struct header *out)
{
    struct header h;
    for (size_t at = 0; props_header_next(p, &at, &h);) {
        if (text_equal(h.name, name)) {
            *out = h;
            return true;
        }
    }
    return false;
}

struct text props_header_text(const struct props *p, struct text name)
{
    struct header h;
    if (props_header(p, name, &h) && (h.type == 'S' || h.type == 'x'))
        return h.value;
    return (struct text){NULL, 0};
}

static bool is_stripped(const struct props_edit *edit, struct text name)
{
    struct text prefix = edit->strip_prefix;
    if (prefix.p != NULL && name.n >= prefix.n && strncasecmp(name.p, prefix.p, prefix.n) == 0)
        return true;
    for (size_t i = 0; i < edit->n_strip; i++)
        if (text_equal(edit->strip[i], name))
            return true;
    return false;
}

/* Copies what is kept in ranges as long as possible: usually the whole table is one. */
static int copy_kept(struct text table, const struct props_edit *edit, struct buf *out)
{
    size_t from = 0, at = 0;
    struct header h;
    for (size_t start = 0; header_next(table, true, &at, &h) == 0; start = at) {
        if (!is_stripped(edit, h.name))
            continue;
        int r = buf_append(out, table.p + from, start - from);
        if (r < 0)
            return r;
        from = at;
    }
    return from < table.n ? buf_append(out, table.p + from, table.n - from) : 0;
}

static int add_header(const struct header *h, struct buf *out)
{
    int width = header_width(h->type);
    if (h->name.n > 255 || width == -2 || h->value.n > UINT32_MAX ||
        (width >= 0 && h->value.n != (size_t)width))
        return ERR_INVALID;
    char head[1 + 255 + 1 + 4];
    size_t n = 0;
    head[n++] = (char)h->name.n;
    if (h->name.n > 0)
        memcpy(head + n, h->name.p, h->name.n);
    n += h->name.n;
    head[n++] = h->type;
    if (width < 0) {
        wire_put32(head + n, (uint32_t)h->value.n);
        n += 4;
    }
    int r = buf_append(out, head, n);
    return r < 0 ? r : buf_append(out, h->value.p, h->value.n);
}

static int add_raw(const struct props *p, struct buf *out)
{
    if (!p->opaque)
        return 0;
    struct text cut = {p->raw.p, p->raw.n < RAW_KEPT ? p->raw.n : RAW_KEPT};
    struct header h = {text_of("x-harbinger-raw-properties"), 'x', cut};
    return add_header(&h, out);
}

static int put_table(const struct props *p, const struct props_edit *edit, struct buf *out)
{
    size_t start = out->n;
    int r = buf_append(out, "\0\0\0\0", 4);
    if (r == 0)
        r = copy_kept(props_field(p, PROP_HEADERS), edit, out);
    for (size_t i = 0; r == 0 && i < edit->n_add; i++)
        r = add_header(&edit->add[i], out);
    if (r == 0)
        r = add_raw(p, out);
    if (r < 0)
        return r;
    if (out->n - start - 4 > UINT32_MAX)
        return ERR_INVALID;
    wire_put32(out->p + start, (uint32_t)(out->n - start - 4));
    return 0;
}

/* One property as it is, with its length prefix. */
static int copy_property(const struct props *p, const bool keep[PROP_COUNT], unsigned prop,
                         struct buf *out)
{
    if (!keep[prop])
        return 0;
    size_t prefix = prefix_of(prop);
    struct text field = props_field(p, prop);
    return buf_append(out, field.p - prefix, field.n + prefix);
}

static int put_list(const struct props *p, const struct props_edit *edit,
                    const bool keep[PROP_COUNT], struct buf *out)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < PROP_COUNT; i++) {
        char priority = (char)edit->priority;
        if (i == PROP_HEADERS)
            r = keep[i] ? put_table(p, edit, out) : 0;
        else if (i == PROP_PRIORITY && edit->priority >= 0)
            r = buf_append(out, &priority, 1);
        else
            r = copy_property(p, keep, i, out);
    }
    return r;
}

int props_edit(const struct props *p, const struct props_edit *edit, struct buf *out)
{
    bool keep[PROP_COUNT];
    unsigned flags = 0;
    for (unsigned i = 0; i < PROP_COUNT; i++)
        keep[i] = props_field(p, i).p != NULL;
    keep[PROP_HEADERS] = keep[PROP_HEADERS] || edit->n_add > 0 || p->opaque;
    keep[PROP_PRIORITY] = keep[PROP_PRIORITY] || edit->priority >= 0;
    keep[PROP_USER_ID] = keep[PROP_USER_ID] && !edit->drop_user_id;
    for (unsigned i = 0; i < PROP_COUNT; i++)
        flags |= keep[i] ? flag_of(i) : 0;

    size_t start = out->n;
    char word[2];
    wire_put16(word, (uint16_t)flags);
    int r = edit->priority > 255 ? ERR_INVALID : buf_append(out, word, 2);
    if (r == 0)
        r = put_list(p, edit, keep, out);
    if (r < 0)
        out->n = start;
    return r;
}
