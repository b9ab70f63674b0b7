/*
 * Log events. One line = level, event name, key=value fields: `intake.paused queue=harbinger.work
 * reason=returned`. The layers that decide do not log; the others get a sink from whoever made
 * them. Control characters in a formatted line are escaped here (\xNN), so text from outside cannot
 * forge a second line; values that may hold spaces are written with LOG_Q around them: "key="
 * LOG_Q.
 */
#ifndef HARBINGER_BASE_LOG_H
#define HARBINGER_BASE_LOG_H

#include "base/compiler.h"

#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

#define LOG_Q "\"%s\""

struct log_sink {
    /* `event` is terminated, `fields` is terminated and may be empty; both are valid during the
     * call only. */
    void (*write)(void *ctx, enum log_level level, const char *event, const char *fields);
    void *ctx;
    enum log_level level; /* events above it are not formatted */
};

/* Formats and hands on one event; never fails (a line over 2 KiB is cut). `sink` may be NULL:
 * nothing is logged. */
void log_event(const struct log_sink *sink, enum log_level level, const char *event,
               const char *fmt, ...) PRINTF_LIKE(4, 5);

/* "error", "warning", "info", "debug". */
const char *log_level_name(enum log_level level);

#endif
