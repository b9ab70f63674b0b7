#include "conf/conf_internal.h"

#include "base/err.h"

#include <string.h>

size_t conf_utf8_next(const char *p, size_t n, uint32_t *cp)
{
    /* Lead byte: payload mask and the smallest code point that needs this length (Unicode 15, table
     * 3-7). */
    static const struct {
        unsigned char lead_mask, lead;
        uint32_t smallest;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    unsigned char first = (unsigned char)p[0];
    size_t len = 1;
    while (len <= 4 && (first & forms[len - 1].lead_mask) != forms[len - 1].lead)
        len++;
    if (len > 4 || len > n)
        return 0;
    uint32_t v = first & (unsigned char)~forms[len - 1].lead_mask;
    for (size_t i = 1; i < len; i++) {
        unsigned char next = (unsigned char)p[i];
        if ((next & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (next & 0x3fu);
    }
    if (v < forms[len - 1].smallest || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return 0;
    *cp = v;
    return len;
}

/* Characters that YAML cannot hold unescaped, line separators included: none has a use in a name or
 * an address. */
static bool is_control(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029 || cp == 0xfeff ||
           cp == 0xfffe || cp == 0xffff;
}

const char *conf_text_problem(const char *p, size_t n)
{
    while (n > 0) {
        uint32_t cp;
        size_t len = conf_utf8_next(p, n, &cp);
        if (len == 0)
            return "is not UTF-8";
        if (is_control(cp))
            return "has a control character";
        p += len;
        n -= len;
    }
    return NULL;
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Narrow on purpose: what looks like a name, a path, an address or a URI stays plain, all else is
 * quoted. */
static bool is_plain(const char *text)
{
    size_t n = strlen(text);
    if (n == 0 || strspn(text, "/_.") == n || text[n - 1] == ':')
        return false;
    if (strcmp(text, "null") == 0 || strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0)
        return false;
    if (!is_alnum(text[0]) && strchr("/_.", text[0]) == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(text[i]) && strchr("-_./:@%+=&?*", text[i]) == NULL)
            return false;
    return true;
}

int conf_text_print(const char *text, struct buf *out)
{
    if (is_plain(text))
        return buf_printf(out, "%s", text);
    int r = buf_append(out, "\"", 1);
    for (; r == 0 && *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            r = buf_append(out, "\\", 1);
        if (r == 0)
            r = buf_append(out, text, 1);
    }
    return r < 0 ? r : buf_append(out, "\"", 1);
}
