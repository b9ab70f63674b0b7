#include "amqp/header.h"

#include "amqp/wire.h"
#include "base/err.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int header_width(char type)
{
    switch (type) {
    case 'V': return 0;
    case 't':
    case 'b':
    case 'B': return 1;
    case 's':
    case 'u': return 2;
    case 'I':
    case 'i':
    case 'f': return 4;
    case 'D': return 5;
    case 'l':
    case 'L':
    case 'd':
    case 'T': return 8;
    case 'S':
    case 'x':
    case 'A':
    case 'F': return -1;
    default: return -2;
    }
}

int header_next(struct text table, bool named, size_t *at, struct header *out)
{
    size_t i = *at;
    if (i == table.n)
        return HEADER_END;
    struct header h = {.name = {"", 0}};
    if (named) {
        size_t n = (unsigned char)table.p[i++];
        if (n > table.n - i)
            return ERR_PROTOCOL;
        h.name = (struct text){table.p + i, n};
        i += n;
    }
    if (i == table.n)
        return ERR_PROTOCOL;
    h.type = table.p[i++];
    int width = header_width(h.type);
    if (width == -2)
        return ERR_PROTOCOL;
    size_t n = (size_t)width;
    if (width < 0) {
        if (table.n - i < 4)
            return ERR_PROTOCOL;
        n = wire_get32(table.p + i);
        i += 4;
    }
    if (n > table.n - i)
        return ERR_PROTOCOL;
    h.value = (struct text){table.p + i, n};
    *at = i + n;
    *out = h;
    return 0;
}

static double get_float(const char *p)
{
    uint32_t bits = wire_get32(p);
    float v;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

static double get_double(const char *p)
{
    uint64_t bits = wire_get64(p);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Scale (decimal places) and an unsigned value. One division, so that it is rounded once: powers of
 * ten are exact up to 10^22. */
static double get_decimal(const char *p)
{
    double power = 1;
    for (unsigned scale = (unsigned char)p[0]; scale > 0; scale--)
        power *= 10;
    return (double)wire_get32(p + 1) / power;
}

bool header_number(const struct header *h, double *out)
{
    const char *p = h->value.p;
    switch (h->type) {
    case 't': *out = p[0] != 0; return true;
    case 'b': *out = (int8_t)p[0]; return true;
    case 'B': *out = (uint8_t)p[0]; return true;
    case 's': *out = (int16_t)wire_get16(p); return true;
    case 'u': *out = wire_get16(p); return true;
    case 'I': *out = (int32_t)wire_get32(p); return true;
    case 'i': *out = wire_get32(p); return true;
    case 'l': *out = (double)(int64_t)wire_get64(p); return true;
    case 'L':
    case 'T': *out = (double)wire_get64(p); return true;
    case 'f': *out = get_float(p); return true;
    case 'd': *out = get_double(p); return true;
    case 'D': *out = get_decimal(p); return true;
    default: return false;
    }
}

/* A double holds every type but the integers of 64 bits. */
struct text header_value(const struct header *h, char scratch[HEADER_SCRATCH_BYTES])
{
    double number;
    if (h->type == 'S' || h->type == 'x')
        return h->value;
    if (h->type == 'l')
        snprintf(scratch, HEADER_SCRATCH_BYTES, "%" PRId64, (int64_t)wire_get64(h->value.p));
    else if (h->type == 'L' || h->type == 'T')
        snprintf(scratch, HEADER_SCRATCH_BYTES, "%" PRIu64, wire_get64(h->value.p));
    else if (header_number(h, &number))
        num_format_double(number, scratch, HEADER_SCRATCH_BYTES);
    else
        return (struct text){NULL, 0};
    return text_of(scratch);
}

void header_print(const struct header *h, char *out, size_t size)
{
    double number;
    switch (h->type) {
    case 'S':
    case 'x': {
        int n = h->value.n < size ? (int)h->value.n : (int)size;
        snprintf(out, size, "%.*s", n, h->value.p);
        return;
    }
    case 'F': snprintf(out, size, "(table)"); return;
    case 'A': snprintf(out, size, "(array)"); return;
    case 'V': snprintf(out, size, "(void)"); return;
    case 't': snprintf(out, size, "%s", h->value.p[0] != 0 ? "true" : "false"); return;
    case 'l': snprintf(out, size, "%" PRId64, (int64_t)wire_get64(h->value.p)); return;
    case 'L':
    case 'T': snprintf(out, size, "%" PRIu64, wire_get64(h->value.p)); return;
    default:
        if (header_number(h, &number))
            snprintf(out, size, "%.17g", number);
        else
            snprintf(out, size, "(?)");
    }
}
