#include "base/num.h"

#include "base/err.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: formatting takes the first that divides. */
static const struct unit duration_units[] = {
    {"d", UINT64_C(86400000000000)},
    {"h", UINT64_C(3600000000000)},
    {"min", UINT64_C(60000000000)},
    {"s", UINT64_C(1000000000)},
    {"ms", UINT64_C(1000000)},
    {"us", UINT64_C(1000)},
    {"ns", UINT64_C(1)},
};

static const struct unit size_units[] = {
    {"GiB", UINT64_C(1) << 30},   {"MiB", UINT64_C(1) << 20}, {"KiB", UINT64_C(1) << 10},
    {"GB", UINT64_C(1000000000)}, {"MB", UINT64_C(1000000)},  {"kB", UINT64_C(1000)},
    {"B", UINT64_C(1)},
};

#define MAX_DURATION_NS (UINT64_C(365) * UINT64_C(86400000000000))

static const struct unit *unit_find(const struct unit *units, size_t n_units, const char *text,
                                    size_t n)
{
    for (size_t i = 0; i < n_units; i++)
        if (strlen(units[i].name) == n && memcmp(units[i].name, text, n) == 0)
            return &units[i];
    return NULL;
}

static size_t span_of(const char *text, size_t n, const char *set)
{
    size_t i = 0;
    while (i < n && text[i] != '\0' && strchr(set, text[i]) != NULL)
        i++;
    return i;
}

int num_parse_u64(const char *text, size_t n, uint64_t *out)
{
    if (n == 0)
        return ERR_INVALID;
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return ERR_INVALID;
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v))
            return ERR_INVALID;
    }
    *out = v;
    return 0;
}

int num_parse_i64(const char *text, size_t n, int64_t *out)
{
    int negative = n > 0 && text[0] == '-';
    uint64_t v;
    if (num_parse_u64(text + negative, n - (size_t)negative, &v) < 0)
        return ERR_INVALID;
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    if (v > limit)
        return ERR_INVALID;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return 0;
}

/* strtod also reads hexadecimal, "inf" and "nan", and skips leading blanks: only these characters
 * may pass. */
int num_parse_double(const char *text, size_t n, double *out)
{
    char copy[65];
    if (n == 0 || n >= sizeof copy || span_of(text, n, "0123456789+-.eE") != n)
        return ERR_INVALID;
    memcpy(copy, text, n);
    copy[n] = '\0';
    char *end;
    double v = strtod(copy, &end);
    if (*end != '\0' || !isfinite(v))
        return ERR_INVALID;
    *out = v;
    return 0;
}

int num_parse_duration(const char *text, size_t n, mono_t *out_ns)
{
    size_t digits = span_of(text, n, "0123456789.");
    double v;
    if (num_parse_double(text, digits, &v) < 0)
        return ERR_INVALID;
    if (digits == n) {
        if (v != 0)
            return ERR_INVALID;
        *out_ns = 0;
        return 0;
    }
    const struct unit *u =
        unit_find(duration_units, ARRAY_SIZE(duration_units), text + digits, n - digits);
    if (u == NULL || v * (double)u->factor > (double)MAX_DURATION_NS)
        return ERR_INVALID;
    *out_ns = (mono_t)llround(v * (double)u->factor);
    return 0;
}

int num_parse_size(const char *text, size_t n, uint64_t *out_bytes)
{
    size_t digits = span_of(text, n, "0123456789");
    uint64_t v;
    if (num_parse_u64(text, digits, &v) < 0)
        return ERR_INVALID;
    if (digits == n) {
        if (v != 0)
            return ERR_INVALID;
        *out_bytes = 0;
        return 0;
    }
    const struct unit *u = unit_find(size_units, ARRAY_SIZE(size_units), text + digits, n - digits);
    if (u == NULL || __builtin_mul_overflow(v, u->factor, &v))
        return ERR_INVALID;
    *out_bytes = v;
    return 0;
}

static void format_with(const struct unit *units, size_t n_units, uint64_t v, char *out,
                        size_t size)
{
    size_t i = 0;
    while (i + 1 < n_units && (v < units[i].factor || v % units[i].factor != 0))
        i++;
    snprintf(out, size, "%" PRIu64 "%s", v / units[i].factor, units[i].name);
}

void num_format_duration(mono_t ns, char *out, size_t size)
{
    if (ns == 0)
        snprintf(out, size, "0");
    else
        format_with(duration_units, ARRAY_SIZE(duration_units), (uint64_t)ns, out, size);
}

void num_format_size(uint64_t bytes, char *out, size_t size)
{
    if (bytes == 0)
        snprintf(out, size, "0");
    else
        format_with(size_units, ARRAY_SIZE(size_units), bytes, out, size);
}

void num_format_double(double v, char *out, size_t size)
{
    if (!isfinite(v)) {
        snprintf(out, size, "%s", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
        return;
    }
    /* Whole numbers as such: "10", where %g with one digit would say 1e+01. */
    if (fabs(v) < 1e15 && trunc(v) == v) {
        snprintf(out, size, "%.0f", v);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            return;
    }
}
