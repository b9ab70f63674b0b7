#include "sidecar/workers.h"

#include "sidecar/loop.h"

#include <stdlib.h>
#include <string.h>

struct workers {
    struct workers_options options;
    struct rpc_server *server;
    struct buf headers; /* of the latest view */
    uint64_t seen_pulls;
};

/* ---- a message of the intake ---- */

static const struct {
    enum prop which;
    const char *name;
} properties[] = {
    {PROP_CONTENT_TYPE, "content-type"},
    {PROP_CONTENT_ENCODING, "content-encoding"},
    {PROP_CORRELATION_ID, "correlation-id"},
    {PROP_REPLY_TO, "reply-to"},
    {PROP_MESSAGE_ID, "message-id"},
    {PROP_TYPE, "type"},
    {PROP_APP_ID, "app-id"},
};

static int put(struct buf *out, struct text name, struct text value)
{
    if (value.p == NULL || !rpc_is_utf8(name) || !rpc_is_utf8(value))
        return 0;
    return rpc_put_header(out, name, value);
}

int workers_headers(const struct message *m, struct buf *out)
{
    int r = 0;
    char scratch[HEADER_SCRATCH_BYTES];
    struct header h;
    size_t at = 0;
    for (size_t i = 0; i < ARRAY_SIZE(properties) && r == 0; i++)
        r = put(out, text_of(properties[i].name), props_text(&m->props, properties[i].which));
    while (r == 0 && props_header_next(&m->props, &at, &h))
        r = put(out, h.name, header_value(&h, scratch));
    return r;
}

/* Short of memory it goes out with fewer headers. */
static void view(void *ctx, void *owner, struct rpc_view *out)
{
    struct workers *w = ctx;
    const struct held *h = owner;
    buf_reset(&w->headers);
    if (workers_headers(h->message, &w->headers) < 0)
        log_event(w->options.log, LOG_WARN, "rpc.headers", "reason=" LOG_Q, err_name(ERR_NOMEM));
    *out = (struct rpc_view){
        .payload = {h->message->body.p, h->message->body.n},
        .headers = {w->headers.p, w->headers.n},
    };
}

/* ---- a client's message ---- */

static struct text job_header(const void *message, const char *name,
                              char scratch[JOB_SCRATCH_BYTES])
{
    return rpc_submission_header(message, name);
}

static int submit(void *ctx, const struct rpc_submission *s, uint64_t *id)
{
    struct workers *w = ctx;
    struct job job = {
        .app_id = s->producer,
        .body_bytes = s->payload.n,
        .message = s,
        .header = job_header,
    };
    struct station_message m = {
        .job = &job, .payload = s->payload, .headers = s->headers, .ttl_ns = s->ttl_ns};
    int r = station_submit(backend_harbinger_station(w->options.backend), &m, loop_now());
    *id = m.id;
    return r;
}

/* ---- the server ---- */

static mono_t now(void *ctx)
{
    return loop_now();
}

static void touched(void *ctx)
{
    struct workers *w = ctx;
    backend_harbinger_touched(w->options.backend);
}

static void drain(void *ctx)
{
    struct workers *w = ctx;
    w->options.drain(w->options.ctx);
}

static bool draining(void *ctx)
{
    struct workers *w = ctx;
    return w->options.draining(w->options.ctx);
}

static size_t amqp_clients(void *ctx, size_t limit,
                           void (*each)(void *each_ctx, const struct rpc_amqp_client *c),
                           void *each_ctx)
{
    const struct workers *w = ctx;
    return w->options.amqp_clients(w->options.ctx, limit, each, each_ctx);
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0;
}

static void tell_up(const struct workers *w)
{
    const struct conf *c = w->options.conf;
    const char *address = rpc_server_address(w->server);
    log_event(w->options.log, LOG_INFO, "rpc.up", "address=%s tls=%s token=%s", address,
              c->rpc.certificate[0] != '\0' ? "yes" : "no",
              c->rpc.token_file[0] != '\0' ? "yes" : "no");
    if (!is_loopback(address) && c->rpc.token_file[0] == '\0')
        log_event(w->options.log, LOG_WARN, "rpc.open", "address=%s fix=" LOG_Q, address,
                  "whoever reaches this address may take and submit messages: set rpc.token_file");
}

int workers_new(struct event_base *base, const struct workers_options *o, struct workers **out,
                struct err *err)
{
    const struct conf *c = o->conf;
    struct workers *w = calloc(1, sizeof *w);
    if (w == NULL)
        return err_set(err, ERR_NOMEM, "rpc: %s", err_name(ERR_NOMEM));
    w->options = *o;
    struct rpc_options options = {
        .listen = c->rpc.listen,
        .certificate = c->rpc.certificate,
        .key = c->rpc.key,
        .token_file = c->rpc.token_file,
        .max_connections = c->rpc.max_connections,
        .max_streams = c->rpc.max_streams,
        .max_message_bytes = c->rpc.max_message,
        .max_connection_bytes = c->rpc.max_connection_bytes,
        .max_pull_wait = c->rpc.max_pull_wait,
        .log = o->log,
    };
    struct rpc_station station = {
        .ctx = w,
        .broker = station_broker(backend_harbinger_station(o->backend)),
        .instance = loop_random(),
        .now = now,
        .submit = submit,
        .view = view,
        .touched = touched,
        .drain = drain,
        .draining = draining,
        .amqp_clients = amqp_clients,
    };
    int r = rpc_server_new(base, &options, &station, &w->server, err);
    if (r < 0) {
        workers_free(w);
        return r;
    }
    tell_up(w);
    *out = w;
    return 0;
}

void workers_free(struct workers *w)
{
    if (w == NULL)
        return;
    rpc_server_free(w->server);
    buf_fini(&w->headers);
    free(w);
}

void workers_pump(struct workers *w)
{
    rpc_server_pump(w->server);
}

void workers_shut(struct workers *w)
{
    rpc_server_shut(w->server);
}

void workers_reload(struct workers *w)
{
    struct err err = {0};
    if (rpc_server_reload(w->server, &err) < 0)
        log_event(w->options.log, LOG_ERROR, "rpc.reload", "reason=" LOG_Q " effect=" LOG_Q,
                  err.msg, "the old ones stay");
}

struct rpc_stats workers_stats(const struct workers *w)
{
    return rpc_server_stats(w->server);
}

uint64_t workers_slots(struct workers *w, bool *asked)
{
    struct rpc_stats s = rpc_server_stats(w->server);
    if (s.pulls != w->seen_pulls)
        *asked = true;
    w->seen_pulls = s.pulls;
    return s.parked_pulls + s.credit;
}

const char *workers_address(const struct workers *w)
{
    return rpc_server_address(w->server);
}
