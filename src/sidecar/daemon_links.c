/* The daemon's two connections and what must exist behind them. */
#include "sidecar/daemon_internal.h"
#include "sidecar/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_PASSWORD 4096

/* One event per line of a report. */
static void log_lines(struct daemon *d, enum log_level level, const char *event, const char *lines)
{
    while (*lines != '\0') {
        size_t n = strcspn(lines, "\n");
        log_event(&d->log.sink, level, event, "text=\"%.*s\"", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

/* No answer: a link that is still up would never come up again by itself, and the start would wait
 * for ever. */
static void ask_again(struct daemon *d)
{
    static const struct loss why = {.kind = LOSS_TIMEOUT, .text = "no answer about the topology"};
    if (d->sm.state == DAEMON_STARTING && link_is_up(d->consume))
        link_abort(d->consume, &why);
}

/* Found while running it stops nothing, but it does not go away by itself: it stays in sight. */
static void keep_problem(struct daemon *d, const char *problems)
{
    snprintf(d->topology_problem, sizeof d->topology_problem, "%.*s", (int)strcspn(problems, "\n"),
             problems);
}

static void on_topology(void *ctx, const struct topology_report *report)
{
    struct daemon *d = ctx;
    topology_free(d->topology);
    d->topology = NULL;
    if (report->result == TOPOLOGY_LOST) {
        ask_again(d);
        return;
    }
    log_lines(d, LOG_WARN, "topology.warning", report->warnings);
    log_lines(d, LOG_INFO, "topology.note", report->notes);
    bool first = d->sm.state == DAEMON_STARTING;
    log_lines(d, first ? LOG_ERROR : LOG_WARN, "topology.problem", report->problems);
    keep_problem(d, report->problems);
    if (!first) {
        daemon_intake_is(d, d->objects.types[0]);
        return;
    }
    if (report->result == TOPOLOGY_PROBLEMS) {
        log_event(&d->log.sink, LOG_ERROR, "topology.refused", "fix=" LOG_Q,
                  "change the configuration or what is there, or set amqp.topology: off");
        daemon_fail(d, ERR_CONFIG);
        return;
    }
    int r = daemon_start_running(d);
    if (r < 0)
        daemon_fail(d, r);
    else
        daemon_intake_is(d, d->objects.types[0]);
}

static enum topology_mode topology_mode(const struct conf *c)
{
    switch (c->amqp.topology) {
    case CONF_TOPOLOGY_CHECK: return TOPOLOGY_CHECK;
    case CONF_TOPOLOGY_OFF: return TOPOLOGY_OFF;
    case CONF_TOPOLOGY_DECLARE: break;
    }
    return TOPOLOGY_DECLARE;
}

/* Each time the link is up, and when something fails: what was there may be gone. */
void daemon_ask_topology(struct daemon *d)
{
    d->asked_at = loop_now();
    struct topology_job job = {
        .mode = topology_mode(&d->conf),
        .objects = d->objects.objects,
        .n_objects = d->objects.n,
        .types = d->objects.types,
        .done = on_topology,
        .ctx = d,
    };
    topology_free(d->topology);
    d->topology = NULL;
    if (topology_run(d->consume, &job, &d->topology) < 0)
        ask_again(d);
}

static void on_consume_up(void *ctx)
{
    struct daemon *d = ctx;
    d->lost[LINK_CONSUME][0] = '\0';
    daemon_ask_topology(d);
}

static void on_publish_up(void *ctx)
{
    struct daemon *d = ctx;
    d->lost[LINK_PUBLISH][0] = '\0';
}

static void tell_lost(struct daemon *d, int which, const struct link *l, const struct loss *why)
{
    char words[320];
    loss_format(why, words, sizeof words);
    snprintf(d->lost[which], sizeof d->lost[which], "no %s connection to %.150s: %s", link_name(l),
             link_peer(l), words);
}

static void on_consume_down(void *ctx, const struct loss *why)
{
    struct daemon *d = ctx;
    tell_lost(d, LINK_CONSUME, d->consume, why);
}

static void on_publish_down(void *ctx, const struct loss *why)
{
    struct daemon *d = ctx;
    tell_lost(d, LINK_PUBLISH, d->publish, why);
}

static void on_blocked(void *ctx, bool blocked, const char *reason)
{
    struct daemon *d = ctx;
    if (blocked)
        log_event(&d->log.sink, LOG_WARN, "publish.blocked", "reason=" LOG_Q,
                  reason != NULL ? reason : "");
    else
        log_event(&d->log.sink, LOG_INFO, "publish.unblocked", "%s", "");
}

/* The secret file is read at every login, so that a rotated password needs no restart. */
static int read_password(void *ctx, struct buf *out)
{
    struct daemon *d = ctx;
    char text[MAX_PASSWORD];
    int fd = open(d->conf.amqp.password_file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (n < 0)
        log_event(&d->log.sink, LOG_ERROR, "password_file", "path=" LOG_Q " reason=" LOG_Q,
                  d->conf.amqp.password_file, strerror(errno));
    if (fd >= 0)
        close(fd);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    int r = n < 0 ? ERR_SYSTEM : buf_append(out, text, (size_t)n);
    explicit_bzero(text, sizeof text);
    return r;
}

static void on_stopped(void *ctx)
{
    daemon_link_stopped(ctx);
}

int daemon_make_links(struct daemon *d, struct err *err)
{
    const struct conf *c = &d->conf;
    struct link_options o = {
        .name = "consume",
        .instance = d->instance,
        .uris = (const char *const *)c->amqp.uri.v,
        .n_uris = c->amqp.uri.n,
        .connect_timeout_for = c->amqp.connect_timeout,
        .backoff_min_for = c->amqp.reconnect_min,
        .backoff_max_for = c->amqp.reconnect_max,
        .heartbeat_s = (int)((c->amqp.heartbeat + MONO_S - 1) / MONO_S),
        .frame_max = (uint32_t)c->amqp.frame_max,
        .seed = loop_random(),
        .password = c->amqp.password_file[0] != '\0' ? read_password : NULL,
        .on_up = on_consume_up,
        .on_down = on_consume_down,
        .on_stopped = on_stopped,
        .ctx = d,
    };
    int r = link_new(d->base, &d->log.sink, &o, &d->consume, err);
    if (r < 0)
        return r;
    o.name = "publish";
    o.seed = loop_random();
    o.on_up = on_publish_up;
    o.on_down = on_publish_down;
    o.on_blocked = on_blocked;
    return link_new(d->base, &d->log.sink, &o, &d->publish, err);
}
