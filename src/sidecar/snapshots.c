#include "sidecar/snapshots.h"

#include "base/buf.h"
#include "predict/snapshot.h"
#include "sidecar/loop.h"
#include "sidecar/rules.h"
#include "store/store.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "predictor.snapshot"

struct snapshots {
    const struct log_sink *log;
    const struct conf *conf;
    struct flow *flow;
    struct event *timer;
    char *path;         /* "" = off */
    struct buf context; /* what a snapshot must agree on */
    struct buf bytes;   /* kept between saves */
    struct snapshots_stats stats;
};

/* The configured path with `auto` resolved. NULL when memory is short. */
static char *resolve_path(const struct conf *c)
{
    const char *directory = getenv("STATE_DIRECTORY");
    if (strcmp(c->snapshot.path, CONF_PATH_AUTO) != 0)
        return strdup(c->snapshot.path);
    if (directory == NULL || directory[0] == '\0')
        return strdup("");
    struct buf b = {0};
    int n = (int)strcspn(directory, ":"); /* systemd gives a list; the first is ours */
    if (buf_printf(&b, "%.*s/%s", n, directory, FILE_NAME) < 0)
        buf_fini(&b);
    return b.p;
}

struct take {
    struct snapshots *s;
    struct snapshot_loaded loaded;
};

static int take(void *ctx, const void *bytes, size_t n, struct err *err)
{
    struct take *t = ctx;
    return snapshot_decode(flow_predictor(t->s->flow), t->s->context.p, loop_now(), bytes, n,
                           &t->loaded, err);
}

static void load(struct snapshots *s)
{
    struct take t = {.s = s};
    struct store_loaded result;
    store_load(s->path, take, &t, &result);
    s->stats.keys_loaded = t.loaded.keys;
    bool clean = result.source == STORE_CURRENT || result.source == STORE_ABSENT;
    log_event(s->log, clean ? LOG_INFO : LOG_WARN, "snapshot.load",
              "path=" LOG_Q " keys=%" PRIu32 " dropped=%" PRIu32 " note=" LOG_Q, s->path,
              t.loaded.keys, t.loaded.dropped, result.note);
}

void snapshots_save(struct snapshots *s)
{
    if (s->path[0] == '\0')
        return;
    struct err err = {0};
    buf_reset(&s->bytes);
    buf_reset(&s->context); /* a reload may have changed it */
    int r = rules_snapshot_context(s->conf, &s->context);
    if (r == 0)
        r = snapshot_encode(flow_predictor(s->flow), s->context.p, loop_now(), &s->bytes);
    if (r < 0)
        err_set(&err, r, "%s: %s", s->path, err_name(r));
    else
        r = store_save(s->path, s->bytes.p, s->bytes.n, &err);
    if (r == 0) {
        s->stats.saves++;
        return;
    }
    s->stats.failures++;
    log_event(s->log, LOG_ERROR, "snapshot.save", "reason=" LOG_Q, err.msg);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    snapshots_save(ctx);
}

static int start(struct snapshots *s, struct event_base *base)
{
    s->path = resolve_path(s->conf);
    if (s->path == NULL || rules_snapshot_context(s->conf, &s->context) < 0)
        return ERR_NOMEM;
    if (s->path[0] == '\0') {
        log_event(s->log, LOG_INFO, "snapshot.off", "reason=" LOG_Q,
                  s->conf->snapshot.path[0] == '\0' ? "snapshot.path is empty"
                                                    : "STATE_DIRECTORY is not set");
        return 0;
    }
    load(s);
    struct timeval interval = loop_timeval(s->conf->snapshot.interval);
    s->timer = event_new(base, -1, EV_PERSIST, on_timer, s);
    return s->timer == NULL || event_add(s->timer, &interval) < 0 ? ERR_NOMEM : 0;
}

int snapshots_new(struct event_base *base, const struct log_sink *log, const struct conf *conf,
                  struct flow *flow, struct snapshots **out)
{
    struct snapshots *s = calloc(1, sizeof *s);
    if (s == NULL)
        return ERR_NOMEM;
    *s = (struct snapshots){.log = log, .conf = conf, .flow = flow};
    if (start(s, base) < 0) {
        snapshots_free(s);
        return ERR_NOMEM;
    }
    *out = s;
    return 0;
}

void snapshots_free(struct snapshots *s)
{
    if (s == NULL)
        return;
    if (s->timer != NULL)
        event_free(s->timer);
    free(s->path);
    buf_fini(&s->context);
    buf_fini(&s->bytes);
    free(s);
}

void snapshots_stats(const struct snapshots *s, struct snapshots_stats *out)
{
    *out = s->stats;
}

const char *snapshots_path(const struct snapshots *s)
{
    return s->path;
}
