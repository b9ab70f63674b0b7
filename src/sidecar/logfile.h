/*
 * The daemon's log: lines on standard error, `time level=... event=... fields`. Never blocks and
 * never floods: at most LOGFILE_BURST lines per second and event name are written, and none when
 * the reader of a pipe does not keep up; what was dropped is counted and told by the next line.
 */
#ifndef HARBINGER_SIDECAR_LOGFILE_H
#define HARBINGER_SIDECAR_LOGFILE_H

#include "base/log.h"
#include "base/mono.h"

#include <stdint.h>

#define LOGFILE_BURST  20
#define LOGFILE_EVENTS 64

struct logfile {
    struct log_sink sink; /* what the others get */
    int fd;
    uint64_t n_written, n_dropped; /* lines */
    uint64_t n_dropped_told;
    struct {
        const char
            *event; /* by address: events are literals; a table that is full shares the last slot */
        mono_t second;
        unsigned n;
    } rate[LOGFILE_EVENTS];
};

void logfile_init(struct logfile *f, int fd, enum log_level level);

#endif
