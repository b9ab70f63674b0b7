#include "rpc/pb.h"

#include "base/err.h"
#include "rpc/service.h"

#include <string.h>

size_t pb_varint_bytes(uint64_t v)
{
    size_t n = 1;
    while (v >= 0x80) {
        v >>= 7;
        n++;
    }
    return n;
}

uint8_t *pb_put_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

size_t pb_field_bytes(size_t n)
{
    return 1 + pb_varint_bytes(n) + n;
}

uint8_t *pb_put_field(uint8_t *p, uint8_t tag, const void *data, size_t n)
{
    *p++ = tag;
    p = pb_put_varint(p, n);
    if (n > 0)
        memcpy(p, data, n);
    return p + n;
}

/* A map entry: key = 1, value = 2. */
int rpc_put_header(struct buf *out, struct text name, struct text value)
{
    size_t entry = pb_field_bytes(name.n) + pb_field_bytes(value.n);
    uint8_t *p = (uint8_t *)buf_extend(out, 1 + pb_varint_bytes(entry) + entry);
    if (p == NULL)
        return ERR_NOMEM;
    *p++ = PB_HEADERS_TAG;
    p = pb_put_varint(p, entry);
    p = pb_put_field(p, PB_BYTES(1), name.p, name.n);
    pb_put_field(p, PB_BYTES(2), value.p, value.n);
    return 0;
}

static bool take_varint(struct text *rest, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < rest->n && i < 10; i++) {
        uint8_t byte = (uint8_t)rest->p[i];
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *out = v;
            rest->p += i + 1;
            rest->n -= i + 1;
            return true;
        }
    }
    return false;
}

static bool take_field(struct text *rest, uint8_t tag, struct text *out)
{
    uint64_t n;
    struct text at = *rest;
    if (at.n == 0 || (uint8_t)at.p[0] != tag)
        return false;
    at.p++;
    at.n--;
    if (!take_varint(&at, &n) || n > at.n)
        return false;
    *out = (struct text){at.p, (size_t)n};
    *rest = (struct text){at.p + n, at.n - (size_t)n};
    return true;
}

bool pb_next_header(struct text *rest, struct text *name, struct text *value)
{
    struct text entry;
    return take_field(rest, PB_HEADERS_TAG, &entry) && take_field(&entry, PB_BYTES(1), name) &&
           take_field(&entry, PB_BYTES(2), value);
}

/* Tags are 32 bits wide, and no field has the number 0. */
static bool take_tag(struct text *rest, struct pb_field *out)
{
    uint64_t tag;
    if (!take_varint(rest, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return false;
    out->number = (uint32_t)tag >> 3;
    out->type = (uint32_t)tag & 7;
    return true;
}

enum pb_next pb_next_field(struct text *rest, struct pb_field *out)
{
    uint64_t n;
    if (rest->n == 0)
        return PB_END;
    if (!take_tag(rest, out))
        return PB_BAD;
    switch (out->type) {
    case PB_TYPE_VARINT: return take_varint(rest, &out->value) ? PB_FIELD : PB_BAD;
    case PB_TYPE_FIXED64: n = 8; break;
    case PB_TYPE_FIXED32: n = 4; break;
    case PB_TYPE_BYTES:
        if (take_varint(rest, &n))
            break;
        return PB_BAD;
    default: return PB_BAD; /* groups are no longer used */
    }
    if (n > rest->n)
        return PB_BAD;
    out->bytes = (struct text){rest->p, (size_t)n};
    rest->p += n;
    rest->n -= (size_t)n;
    return PB_FIELD;
}

struct text rpc_submission_header(const struct rpc_submission *s, const char *name)
{
    struct text rest = {s->headers.p, s->headers.n}, found_name, value, wanted = text_of(name);
    struct text found = {NULL, 0};
    while (pb_next_header(&rest, &found_name, &value))
        if (text_equal(found_name, wanted))
            found = value;
    return found;
}

/* How many bytes the sequence that begins with this byte has; 0: none begins so. */
static size_t utf8_length(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first < 0xe0)
        return 2;
    if ((first & 0xf0) == 0xe0)
        return 3;
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Surrogates, overlong forms and what lies over U+10FFFF show in the second byte. */
static bool utf8_second(uint8_t first, uint8_t second)
{
    switch (first) {
    case 0xe0: return second >= 0xa0;
    case 0xed: return second < 0xa0;
    case 0xf0: return second >= 0x90;
    case 0xf4: return second < 0x90;
    default: return true;
    }
}

/* Bytes of the valid sequence at p, with `left` bytes there; 0: there is none. */
static size_t utf8_here(const uint8_t *p, size_t left)
{
    size_t n = utf8_length(*p);
    if (n == 0 || n > left || (n > 1 && !utf8_second(p[0], p[1])))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

bool rpc_is_utf8(struct text t)
{
    const uint8_t *p = (const uint8_t *)t.p;
    for (size_t at = 0, n; at < t.n; at += n)
        if ((n = utf8_here(p + at, t.n - at)) == 0)
            return false;
    return true;
}

void pb_make_utf8(char *p, size_t n)
{
    for (size_t at = 0, k; at < n; at += k)
        if ((k = utf8_here((const uint8_t *)p + at, n - at)) == 0) {
            p[at] = '?';
            k = 1;
        }
}
