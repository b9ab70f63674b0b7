#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (e == NULL)
        return code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    e->code = code;
    return code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    if (e == NULL)
        return 0;
    char inner[sizeof e->msg];
    memcpy(inner, e->msg, sizeof inner);

    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->msg)
        snprintf(e->msg + n, sizeof e->msg - (size_t)n, ": %s", inner);
    return e->code;
}

const char *err_name(int code)
{
    switch (code) {
    case 0: return "ok";
#define ERR_CASE(name, value, text) \
    case name: return text;
        ERR_MAP(ERR_CASE)
#undef ERR_CASE
    default: return "unknown error";
    }
}
