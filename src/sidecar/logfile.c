#include "sidecar/logfile.h"

#include "sidecar/loop.h"

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A pipe that polls writable takes PIPE_BUF bytes without blocking: lines stay below it. */
#define LINE_BYTES 2304

static bool within_rate(struct logfile *f, const char *event)
{
    mono_t second = loop_now() / MONO_S;
    size_t i = 0;
    while (i + 1 < LOGFILE_EVENTS && f->rate[i].event != NULL &&
           strcmp(f->rate[i].event, event) != 0)
        i++;
    if (f->rate[i].event == NULL)
        f->rate[i].event = event;
    if (f->rate[i].second != second) {
        f->rate[i].second = second;
        f->rate[i].n = 0;
    }
    return f->rate[i].n++ < LOGFILE_BURST;
}

static bool put(struct logfile *f, const char *line, size_t n)
{
    struct pollfd p = {.fd = f->fd, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0 && write(f->fd, line, n) == (ssize_t)n;
}

static size_t timestamp(char *out, size_t size)
{
    struct timespec t;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    size_t n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
    return n + (size_t)snprintf(out + n, size - n, ".%03ldZ", t.tv_nsec / 1000000);
}

static void write_event(void *ctx, enum log_level level, const char *event, const char *fields)
{
    struct logfile *f = ctx;
    char line[LINE_BYTES];
    if (!within_rate(f, event)) {
        f->n_dropped++;
        return;
    }
    size_t n = timestamp(line, sizeof line);
    if (f->n_dropped > f->n_dropped_told)
        n += (size_t)snprintf(line + n, sizeof line - n, " log_dropped=%" PRIu64,
                              f->n_dropped - f->n_dropped_told);
    int more = snprintf(line + n, sizeof line - n, " level=%s event=%s%s%s\n",
                        log_level_name(level), event, fields[0] != '\0' ? " " : "", fields);
    n = n + (size_t)more < sizeof line ? n + (size_t)more : sizeof line - 1;
    line[n - 1] = '\n';
    if (!put(f, line, n)) {
        f->n_dropped++;
        return;
    }
    f->n_written++;
    f->n_dropped_told = f->n_dropped;
}

void logfile_init(struct logfile *f, int fd, enum log_level level)
{
    *f = (struct logfile){.fd = fd};
    f->sink = (struct log_sink){.write = write_event, .ctx = f, .level = level};
}
