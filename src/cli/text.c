/* Texts for people. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>

/* The length of the valid UTF-8 character at p, 0 when there is none: no overlong forms, no
 * surrogates, nothing above U+10FFFF; none of C1's control characters either. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t min;
    } forms[] = {{0xe0, 0xc0, 0xa0}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        uint32_t code = p[0] & (unsigned char)~forms[i].mask;
        size_t length = i + 2;
        if ((p[0] & forms[i].mask) != forms[i].lead || n < length)
            continue;
        for (size_t k = 1; k < length; k++) {
            if ((p[k] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (p[k] & 0x3f);
        }
        bool surrogate = code >= 0xd800 && code < 0xe000;
        return code >= forms[i].min && !surrogate && code <= 0x10ffff ? length : 0;
    }
    return 0;
}

size_t cli_print_text(const char *text, size_t n, size_t max)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0, columns = 0;
    while (i < n && i < max) {
        size_t length = p[i] >= 0x20 && p[i] < 0x7f ? 1 : utf8_length(p + i, n - i);
        if (length > 0)
            fwrite(p + i, 1, length, stdout);
        else
            printf("\\x%02x", p[i]);
        i += length > 0 ? length : 1;
        columns += length > 0 ? 1 : 4;
    }
    if (i == n)
        return columns;
    fputs("...", stdout);
    return columns + 3;
}

void cli_format_age(int64_t ms, char out[32])
{
    if (ms < 1000)
        snprintf(out, 32, "%" PRId64 " ms", ms);
    else if (ms < 120000)
        snprintf(out, 32, "%.1f s", (double)ms / 1000);
    else if (ms < 7200000)
        snprintf(out, 32, "%" PRId64 " min", ms / 60000);
    else
        snprintf(out, 32, "%" PRId64 " h", ms / 3600000);
}
