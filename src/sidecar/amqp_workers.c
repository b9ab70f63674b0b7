#include "sidecar/amqp_workers.h"

#include "rpc/pb.h"
#include "sidecar/lesson.h"
#include "sidecar/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct amqp_workers {
    struct amqp_workers_options options;
    struct proxy_server *server;
    struct buf props; /* of the latest delivery that a client submitted */
    bool asked;       /* since the last look at its slots */
    char vhost[256];
    char lesson[LESSON_BYTES]; /* of the latest delivery */
};

static struct hb_broker *broker_of(const struct amqp_workers *w)
{
    return station_broker(backend_harbinger_station(w->options.backend));
}

/* ---- a client's message ---- */

static void put_u32(char *p, size_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(v >> (24 - 8 * i));
}

static int put_header(struct buf *out, struct text name, struct text value)
{
    char *p = buf_extend(out, 1 + name.n + 1 + 4 + value.n);
    if (p == NULL)
        return ERR_NOMEM;
    *p++ = (char)name.n;
    memcpy(p, name.p, name.n);
    p += name.n;
    *p++ = 'S';
    put_u32(p, value.n);
    if (value.n > 0)
        memcpy(p + 4, value.p, value.n);
    return 0;
}

int amqp_workers_props(struct text headers, struct buf *out)
{
    static const char flags[] = {0x30, 0, 0,
                                 0,    0, 0}; /* headers, delivery mode; the table's size */
    static const char persistent[] = {2};
    struct text name, value;
    size_t at = out->n;
    int r = buf_append(out, flags, sizeof flags);
    while (r == 0 && pb_next_header(&headers, &name, &value))
        if (name.n > 0 && name.n <= 255)
            r = put_header(out, name, value);
    if (r == 0) {
        put_u32(out->p + at + 2, out->n - at - sizeof flags);
        r = buf_append(out, persistent, sizeof persistent);
    }
    return r;
}

/* ---- the station ---- */

static mono_t now(void *ctx)
{
    return loop_now();
}

static void of_the_intake(const struct held *h, struct proxy_delivery *out)
{
    const struct message *m = h->message;
    out->redelivered |= h->redelivered;
    out->exchange = m->exchange;
    out->routing_key = m->routing_key;
    out->props = m->props.raw;
    out->body = m->body;
}

/* Short of memory it goes out without headers. */
static void of_a_client(struct amqp_workers *w, const struct hb_delivery *d,
                        struct proxy_delivery *out)
{
    static const char none[] = {0, 0};
    buf_reset(&w->props);
    bool whole = amqp_workers_props((struct text){d->headers.p, d->headers.n}, &w->props) == 0;
    out->exchange = text_of("");
    out->routing_key = text_of(w->options.conf->work.queue);
    out->props = whole ? (struct text){w->props.p, w->props.n} : (struct text){none, sizeof none};
    out->body = (struct text){d->payload.p, d->payload.n};
}

static int pull(void *ctx, uint64_t consumer, struct proxy_delivery *out)
{
    struct amqp_workers *w = ctx;
    struct hb_delivery d;
    w->asked = true;
    int r = hb_broker_pull_unleased(broker_of(w), consumer, loop_now(), &d);
    if (r != HB_BROKER_OK)
        return r;
    *out = (struct proxy_delivery){.id = d.id,
                                   .token = d.token,
                                   .redelivered = d.redelivered,
                                   .lesson = {w->lesson, lesson_pack(&d.lesson, w->lesson)}};
    if (d.owner != NULL)
        of_the_intake(d.owner, out);
    else
        of_a_client(w, &d, out);
    return r;
}

static int settle(void *ctx, const struct proxy_settlement *s)
{
    static const char failed[] = "requeued by its worker, or the worker's connection broke";
    static const char refused[] = "by its worker, without requeue";
    const struct amqp_workers *w = ctx;
    struct hb_settlement h = {
        .consumer = s->consumer, .id = s->id, .token = s->token, .duration_ms = s->duration_ms};
    switch (s->outcome) {
    case PROXY_ACK: return hb_broker_ack(broker_of(w), &h, loop_now());
    case PROXY_FAIL:
        h.reason = (struct hb_bytes){failed, sizeof failed - 1};
        return hb_broker_nack(broker_of(w), &h, loop_now());
    case PROXY_DISCARD:
        h.reason = (struct hb_bytes){refused, sizeof refused - 1};
        return hb_broker_reject(broker_of(w), &h, loop_now());
    default: return hb_broker_return(broker_of(w), &h, loop_now());
    }
}

static void touched(void *ctx)
{
    const struct amqp_workers *w = ctx;
    backend_harbinger_touched(w->options.backend);
}

static bool draining(void *ctx)
{
    const struct amqp_workers *w = ctx;
    return w->options.stopping(w->options.ctx);
}

static uint64_t waiting(void *ctx)
{
    struct hb_broker_stats s;
    hb_broker_stats(broker_of(ctx), &s);
    return s.waiting;
}

static void learn(void *ctx, struct text packed, double duration_ms)
{
    const struct amqp_workers *w = ctx;
    struct hb_lesson lesson;
    if (!lesson_unpack(packed, &lesson))
        return;
    lesson.duration_ms = duration_ms;
    flow_learn(w->options.flow, &lesson, loop_now());
}

/* ---- the server ---- */

int amqp_workers_upstream(const char *text, struct uri *out, struct err *err)
{
    char uri[300];
    if (strpbrk(text, "/@?#") != NULL || strlen(text) > 260)
        return err_set(err, ERR_CONFIG, "'%.260s' is not HOST:PORT; example: rabbit.example:5672",
                       text);
    snprintf(uri, sizeof uri, "amqp://%s", text);
    return uri_parse(uri, out, err);
}

static int upstreams_of(const struct conf *c, struct uri out[PROXY_UPSTREAMS_MAX], size_t *n,
                        struct err *err)
{
    *n = 1;
    if (c->proxy.upstream[0] != '\0')
        return amqp_workers_upstream(c->proxy.upstream, &out[0], err);
    *n = c->amqp.uri.n < PROXY_UPSTREAMS_MAX ? c->amqp.uri.n : PROXY_UPSTREAMS_MAX;
    int r = 0;
    for (size_t i = 0; i < *n && r == 0; i++)
        r = uri_parse(c->amqp.uri.v[i], &out[i], err);
    return r;
}

static int listen_at(struct amqp_workers *w, struct event_base *base, const struct uri *upstreams,
                     size_t n, struct err *err)
{
    const struct conf *c = w->options.conf;
    struct proxy_options options = {
        .listen = c->proxy.listen,
        .certificate = c->proxy.certificate,
        .key = c->proxy.key,
        .upstreams = upstreams,
        .n_upstreams = n,
        .upstream_tls = c->proxy.upstream_tls,
        .upstream_ca = c->proxy.upstream_ca,
        .max_connections = c->proxy.max_connections,
        .max_connection_bytes = c->proxy.max_connection_bytes,
        .max_window = c->proxy.max_window,
        .no_barrier = !c->proxy.barrier,
        .guest_anyone = c->proxy.allow_guest,
        .seed = {loop_random(), loop_random()},
        .log = w->options.log,
    };
    struct proxy_station station = {
        .ctx = w,
        .vhost = w->vhost,
        .work = c->work.queue,
        .intake = c->intake.queue,
        .now = now,
        .pull = pull,
        .settle = settle,
        .touched = touched,
        .draining = draining,
        .waiting = waiting,
        .learn = learn,
    };
    return proxy_server_new(base, &options, &station, &w->server, err);
}

/* The virtual host is that of the sidecar's own connections, whatever the upstream. */
static int open_server(struct amqp_workers *w, struct event_base *base, struct err *err)
{
    struct uri own;
    struct uri *upstreams = calloc(PROXY_UPSTREAMS_MAX, sizeof *upstreams);
    size_t n;
    if (upstreams == NULL)
        return err_set(err, ERR_NOMEM, "proxy: %s", err_name(ERR_NOMEM));
    int r = uri_parse(w->options.conf->amqp.uri.v[0], &own, err);
    if (r == 0) {
        memcpy(w->vhost, own.vhost, sizeof w->vhost);
        r = upstreams_of(w->options.conf, upstreams, &n, err);
    }
    if (r == 0)
        r = listen_at(w, base, upstreams, n, err);
    explicit_bzero(&own, sizeof own);
    explicit_bzero(upstreams, PROXY_UPSTREAMS_MAX * sizeof *upstreams);
    free(upstreams);
    return r;
}

int amqp_workers_new(struct event_base *base, const struct amqp_workers_options *o,
                     struct amqp_workers **out, struct err *err)
{
    struct amqp_workers *w = calloc(1, sizeof *w);
    if (w == NULL)
        return err_set(err, ERR_NOMEM, "proxy: %s", err_name(ERR_NOMEM));
    w->options = *o;
    int r = open_server(w, base, err);
    if (r < 0) {
        amqp_workers_free(w);
        return r;
    }
    log_event(o->log, LOG_INFO, "proxy.up", "address=%s tls=%s queue=" LOG_Q " intake=" LOG_Q,
              amqp_workers_address(w), o->conf->proxy.certificate[0] != '\0' ? "yes" : "no",
              o->conf->work.queue, o->conf->intake.queue);
    *out = w;
    return 0;
}

void amqp_workers_free(struct amqp_workers *w)
{
    if (w == NULL)
        return;
    proxy_server_free(w->server);
    buf_fini(&w->props);
    free(w);
}

void amqp_workers_pump(struct amqp_workers *w)
{
    proxy_server_pump(w->server);
}

void amqp_workers_shut(struct amqp_workers *w)
{
    proxy_server_shut(w->server);
}

void amqp_workers_reload(struct amqp_workers *w)
{
    struct err err = {0};
    if (proxy_server_reload(w->server, &err) < 0)
        log_event(w->options.log, LOG_ERROR, "proxy.reload", "reason=" LOG_Q " effect=" LOG_Q,
                  err.msg, "the old ones stay");
}

const char *amqp_workers_address(const struct amqp_workers *w)
{
    return proxy_server_address(w->server);
}

struct proxy_stats amqp_workers_stats(const struct amqp_workers *w)
{
    return proxy_server_stats(w->server);
}

size_t amqp_workers_clients(const struct amqp_workers *w, size_t offset, size_t limit,
                            void (*each)(void *ctx, const struct proxy_client_row *row), void *ctx)
{
    return proxy_server_clients(w->server, offset, limit, each, ctx);
}

struct teller {
    void (*each)(void *ctx, const struct rpc_amqp_client *c);
    void *ctx;
};

static void tell_row(void *ctx, const struct proxy_client_row *r)
{
    const struct teller *t = ctx;
    struct rpc_amqp_client c = {
        .peer = r->peer,
        .user = r->user,
        .product = r->product,
        .state = r->state,
        .channels = r->channels,
        .consumers = r->consumers,
        .window = r->window != UINT32_MAX ? r->window : 0,
        .in_flight = r->in_flight,
        .delivered = r->delivered,
        .held_bytes = r->held_bytes,
    };
    t->each(t->ctx, &c);
}

size_t amqp_workers_tell(const struct amqp_workers *w, size_t limit,
                         void (*each)(void *ctx, const struct rpc_amqp_client *c), void *ctx)
{
    struct teller t = {each, ctx};
    proxy_server_clients(w->server, 0, limit, tell_row, &t);
    return proxy_server_stats(w->server).connections;
}

static void add_slots(void *ctx, const struct proxy_client_row *row)
{
    uint64_t *slots = ctx;
    if (row->consumers > 0 && row->window > row->in_flight)
        *slots += row->window - row->in_flight;
}

uint64_t amqp_workers_slots(struct amqp_workers *w, bool *asked)
{
    uint64_t slots = 0;
    if (w->asked)
        *asked = true;
    w->asked = false;
    proxy_server_clients(w->server, 0, SIZE_MAX, add_slots, &slots);
    return slots;
}
