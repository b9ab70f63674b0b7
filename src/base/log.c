#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static void escape_controls(const char *in, char *out, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (; *in != '\0' && n + 5 < size; in++) {
        unsigned char c = (unsigned char)*in;
        if (c >= 0x20 && c != 0x7f) {
            out[n++] = (char)c;
        } else {
            out[n++] = '\\';
            out[n++] = 'x';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    out[n] = '\0';
}

void log_event(const struct log_sink *sink, enum log_level level, const char *event,
               const char *fmt, ...)
{
    if (sink == NULL || level > sink->level)
        return;
    char raw[2048], clean[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    escape_controls(raw, clean, sizeof clean);
    sink->write(sink->ctx, level, event, clean);
}

const char *log_level_name(enum log_level level)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    return names[level];
}
