/*
 * What the predictor learned, kept over restarts (paper 3.9): loaded once at the start, saved every
 * snapshot.interval and once at the end. A failure is logged and counted and changes nothing else.
 * Off, with a log line, where the path is `auto` and systemd gave no state directory.
 */
#ifndef HARBINGER_SIDECAR_SNAPSHOTS_H
#define HARBINGER_SIDECAR_SNAPSHOTS_H

#include "base/compiler.h"
#include "base/log.h"
#include "conf/conf.h"
#include "flow/flow.h"

#include <stdint.h>

struct event_base;
struct snapshots;

struct snapshots_stats {
    uint64_t saves, failures;
    uint32_t keys_loaded;
};

/* Loads. 0 or ERR_NOMEM; a snapshot that cannot be used is no error. `conf` and `flow` are
 * borrowed. */
int snapshots_new(struct event_base *base, const struct log_sink *log, const struct conf *conf,
                  struct flow *flow, struct snapshots **out) MUST_CHECK;
void snapshots_free(struct snapshots *s);

/* Saves now. */
void snapshots_save(struct snapshots *s);

void snapshots_stats(const struct snapshots *s, struct snapshots_stats *out);
/* Where, "" when off. */
const char *snapshots_path(const struct snapshots *s);

#endif
