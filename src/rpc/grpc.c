#include "rpc/grpc.h"

#include "base/err.h"
#include "base/num.h"

#include <stdio.h>
#include <string.h>

const char *grpc_status_name(unsigned status)
{
    switch (status) {
#define GRPC_STATUS_CASE(name, value, text) \
    case name: return text;
        GRPC_STATUS_MAP(GRPC_STATUS_CASE)
#undef GRPC_STATUS_CASE
    default: return "UNKNOWN";
    }
}

void grpc_put_prefix(uint8_t out[GRPC_PREFIX], uint32_t n)
{
    out[0] = 0;
    out[1] = (uint8_t)(n >> 24);
    out[2] = (uint8_t)(n >> 16);
    out[3] = (uint8_t)(n >> 8);
    out[4] = (uint8_t)n;
}

int grpc_reader_feed(struct grpc_reader *r, const void *data, size_t n)
{
    if (r->at > 0) { /* mostly everything was taken, and nothing is to be moved */
        r->buf.n -= r->at;
        memmove(r->buf.p, r->buf.p + r->at, r->buf.n);
        r->at = 0;
    }
    return n > 0 ? buf_append(&r->buf, data, n) : 0;
}

enum grpc_next grpc_reader_next(struct grpc_reader *r, struct text *out)
{
    size_t left = r->buf.n - r->at;
    if (left < GRPC_PREFIX)
        return GRPC_MORE;
    const uint8_t *p = (const uint8_t *)r->buf.p + r->at;
    if (p[0] != 0)
        return GRPC_COMPRESSED;
    size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | (size_t)p[4];
    if (n > r->max)
        return GRPC_TOO_LONG;
    if (left - GRPC_PREFIX < n)
        return GRPC_MORE;
    *out = (struct text){r->buf.p + r->at + GRPC_PREFIX, n};
    r->at += GRPC_PREFIX + n;
    return GRPC_MESSAGE;
}

bool grpc_reader_partial(const struct grpc_reader *r)
{
    return r->buf.n > r->at;
}

void grpc_reader_fini(struct grpc_reader *r)
{
    buf_fini(&r->buf);
    r->at = 0;
}

static const struct unit {
    char letter;
    mono_t ns;
} units[] = {
    {'n', 1},      {'u', MONO_US},     {'m', MONO_MS},
    {'S', MONO_S}, {'M', 60 * MONO_S}, {'H', 3600 * MONO_S},
};

/* The finest unit with which it fits into eight digits, but nothing finer than a millisecond unless
 * it must be: so most calls have the same text, which HTTP/2 packs into one byte. */
void grpc_timeout_format(mono_t for_ns, char out[12])
{
    size_t i = for_ns > 0 && for_ns < MONO_MS ? 0 : 2;
    mono_t n = 0;
    for (; i < ARRAY_SIZE(units); i++) {
        n = for_ns / units[i].ns + (for_ns % units[i].ns != 0);
        if (n <= 99999999)
            break;
    }
    if (i == ARRAY_SIZE(units)) { /* 11,000 years: cannot be with mono_t */
        i--;
        n = 99999999;
    }
    char digits[12];
    size_t n_digits = 0, at = 0;
    do
        digits[n_digits++] = (char)('0' + n % 10);
    while ((n /= 10) > 0 && n_digits < sizeof digits - 3);
    while (n_digits > 0)
        out[at++] = digits[--n_digits];
    out[at++] = units[i].letter;
    out[at] = '\0';
}

int grpc_timeout_parse(const char *text, size_t n, mono_t *out_ns)
{
    uint64_t value;
    if (n < 2 || n > 9 || num_parse_u64(text, n - 1, &value) < 0)
        return ERR_INVALID;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (units[i].letter != text[n - 1])
            continue;
        mono_t unit = units[i].ns;
        *out_ns = (mono_t)value > MONO_NEVER / unit ? MONO_NEVER : (mono_t)value * unit;
        return 0;
    }
    return ERR_INVALID;
}

int grpc_percent_encode(struct buf *out, const char *text, size_t n)
{
    size_t from = 0; /* what needs no code goes in pieces */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= ' ' && c <= '~' && c != '%')
            continue;
        int r = i > from ? buf_append(out, text + from, i - from) : 0;
        if (r == 0)
            r = buf_printf(out, "%%%02X", c);
        if (r < 0)
            return r;
        from = i + 1;
    }
    return n > from ? buf_append(out, text + from, n - from) : 0;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t grpc_percent_decode(char *text, size_t n)
{
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '%' && n - i > 2 && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
            text[to++] = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
            i += 2;
        } else {
            text[to++] = text[i];
        }
    }
    return to;
}
