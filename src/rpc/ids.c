#include "rpc/ids.h"

#include "base/num.h"

static char *put_hex(char *p, uint64_t v)
{
    static const char digits[] = "0123456789abcdef";
    int shift = 60;
    while (shift > 0 && v >> shift == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *p++ = digits[v >> shift & 15];
    return p;
}

static char *put_decimal(char *p, uint64_t v)
{
    char reversed[20];
    int n = 0;
    do
        reversed[n++] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    while (n > 0)
        *p++ = reversed[--n];
    return p;
}

size_t ids_print(uint64_t instance, uint64_t number, char out[IDS_BYTES])
{
    char *p = put_hex(out, instance);
    *p++ = '-';
    p = put_decimal(p, number);
    *p = '\0';
    return (size_t)(p - out);
}

uint64_t ids_parse(uint64_t instance, struct text id)
{
    char prefix[IDS_BYTES];
    size_t n = (size_t)(put_hex(prefix, instance) - prefix);
    uint64_t number = 0;
    if (id.n <= n + 1 || memcmp(id.p, prefix, n) != 0 || id.p[n] != '-' || id.p[n + 1] == '0' ||
        num_parse_u64(id.p + n + 1, id.n - n - 1, &number) < 0)
        return 0;
    return number;
}

bool ids_token_is_well_formed(struct text token)
{
    if (token.n == 0 || token.n > IDS_TOKEN_MAX)
        return false;
    for (size_t i = 0; i < token.n; i++) {
        char c = token.p[i];
        bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!ok && c != '-')
            return false;
    }
    return true;
}

bool ids_client(struct text id, const char *prefix, uint64_t n, uint64_t *out)
{
    size_t n_prefix = strlen(prefix);
    uint64_t number;
    if (id.n <= n_prefix || memcmp(id.p, prefix, n_prefix) != 0 ||
        (id.p[n_prefix] == '0' && id.n > n_prefix + 1) ||
        num_parse_u64(id.p + n_prefix, id.n - n_prefix, &number) < 0 || number >= n)
        return false;
    *out = number;
    return true;
}
