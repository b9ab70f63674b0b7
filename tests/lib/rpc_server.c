/*
 * rpc_server [NAME=VALUE...]: the gRPC face with flow and broker in one process and nothing else,
 * for tests and benchmarks. Prints "Ready port=N". SIGTERM shuts it down in order.
 *
 *   listen=ADDRESS:PORT certificate=FILE key=FILE token_file=FILE max_message=BYTES max_held=BYTES
 *   max_streams=N max_connections=N pull_ms=MS idle_ms=MS
 *   mode=static|predictive order=paper|fifo lease_ms=MS ttl_ms=MS max_attempts=N extendable=1
 *   aging_ms=MS weights=A,B,C max_messages=N max_dead=N
 */
#include "base/num.h"
#include "flow/station.h"
#include "rpc/server.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct program {
    struct event_base *base;
    struct event *timer, *term;
    struct flow *flow;
    struct station *station;
    struct rpc_server *server;
    bool draining;
};

static int64_t now_of(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * MONO_S + t.tv_nsec;
}

static struct text header(const void *message, const char *name, char scratch[JOB_SCRATCH_BYTES])
{
    return rpc_submission_header(message, name);
}

static int submit(void *ctx, const struct rpc_submission *s, uint64_t *id)
{
    struct program *p = ctx;
    struct job job = {
        .user_id = s->producer, .body_bytes = s->payload.n, .message = s, .header = header};
    struct station_message m = {
        .job = &job, .payload = s->payload, .headers = s->headers, .ttl_ns = s->ttl_ns};
    int r = station_submit(p->station, &m, now_of(NULL));
    *id = m.id;
    return r;
}

static void arm(struct program *p)
{
    int64_t now = now_of(NULL), at = hb_broker_tick(station_broker(p->station), now);
    if (at == INT64_MAX) {
        evtimer_del(p->timer);
        return;
    }
    int64_t left = at > now ? at - now : 0;
    struct timeval wait = {left / MONO_S, left % MONO_S / 1000 + 1};
    evtimer_add(p->timer, &wait);
}

static void touched(void *ctx)
{
    arm(ctx);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    arm(ctx);
}

static void available(void *ctx)
{
    struct program *p = ctx;
    if (p->server != NULL)
        rpc_server_pump(p->server);
}

static void drain(void *ctx)
{
    ((struct program *)ctx)->draining = true;
}

static bool draining(void *ctx)
{
    return ((struct program *)ctx)->draining;
}

/* First in order, then, a second later, at once. */
static void on_term(evutil_socket_t fd, short what, void *ctx)
{
    struct program *p = ctx;
    struct timeval second = {.tv_sec = 1};
    rpc_server_shut(p->server);
    event_base_loopexit(p->base, &second);
}

static const char *option(int argc, char **argv, const char *name)
{
    size_t n = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
            return argv[i] + n + 1;
    return NULL;
}

static int64_t number(int argc, char **argv, const char *name, int64_t otherwise)
{
    const char *text = option(argc, argv, name);
    int64_t v = otherwise;
    if (text != NULL && num_parse_i64(text, strlen(text), &v) < 0) {
        fprintf(stderr, "rpc_server: %s: not a number\n", name);
        exit(2);
    }
    return v;
}

static void broker_options(int argc, char **argv, struct hb_broker_options *o)
{
    const char *weights = option(argc, argv, "weights"), *order = option(argc, argv, "order");
    hb_broker_options_init(o);
    o->order = order != NULL && strcmp(order, "fifo") == 0 ? HB_ORDER_FIFO : HB_ORDER_PAPER;
    o->lease_ns = number(argc, argv, "lease_ms", 30000) * MONO_MS;
    o->ttl_ns = number(argc, argv, "ttl_ms", 0) * MONO_MS;
    o->max_attempts = (uint32_t)number(argc, argv, "max_attempts", 3);
    o->extendable_leases = number(argc, argv, "extendable", 0) != 0;
    o->aging_threshold_ns = number(argc, argv, "aging_ms", 0) * MONO_MS;
    o->aging_interval_ns = 10 * MONO_MS;
    o->max_messages = (uint64_t)number(argc, argv, "max_messages", 0);
    o->max_dead = (uint32_t)number(argc, argv, "max_dead", 10000);
    for (unsigned i = 0; weights != NULL && i < o->levels; i++) {
        o->weighted = true;
        o->weights[i] = (uint16_t)strtoul(weights, NULL, 10);
        weights = strchr(weights, ',') != NULL ? strchr(weights, ',') + 1 : "1";
    }
}

static void flow_options(int argc, char **argv, struct flow_options *o)
{
    static const struct key_source user = {KEY_USER_ID, NULL}, job_type = {KEY_HEADER, "job_type"};
    const char *mode = option(argc, argv, "mode");
    *o = (struct flow_options){.rules = {.mode = FLOW_PREDICTIVE, .max_duration_ms = 1e9}};
    if (mode != NULL && strcmp(mode, "static") == 0)
        o->rules.mode = FLOW_STATIC;
    o->rules.key.producer[0] = user;
    o->rules.key.label[0] = job_type;
    o->rules.key.n_producer = o->rules.key.n_label = 1;
    hb_predictor_options_init(&o->predictor);
}

static int make(struct program *p, int argc, char **argv, struct err *e)
{
    struct flow_options flow;
    flow_options(argc, argv, &flow);
    p->flow = flow_new(&flow, e);
    struct station_options station = {.flow = p->flow, .available = available, .ctx = p};
    broker_options(argc, argv, &station.broker);
    p->station = p->flow != NULL ? station_new(&station, e) : NULL;
    if (p->station == NULL)
        return e->code;
    const char *listen = option(argc, argv, "listen");
    struct rpc_options o = {
        .listen = listen != NULL ? listen : "127.0.0.1:0",
        .certificate = option(argc, argv, "certificate"),
        .key = option(argc, argv, "key"),
        .token_file = option(argc, argv, "token_file"),
        .max_connections = (unsigned)number(argc, argv, "max_connections", 0),
        .max_streams = (unsigned)number(argc, argv, "max_streams", 0),
        .max_message_bytes = (size_t)number(argc, argv, "max_message", 0),
        .max_connection_bytes = (size_t)number(argc, argv, "max_held", 0),
        .max_pull_wait = number(argc, argv, "pull_ms", 0) * MONO_MS,
        .idle_timeout = number(argc, argv, "idle_ms", 0) * MONO_MS,
    };
    struct rpc_station port = {.ctx = p,
                               .broker = station_broker(p->station),
                               .instance = (uint64_t)now_of(NULL),
                               .now = now_of,
                               .submit = submit,
                               .touched = touched,
                               .drain = drain,
                               .draining = draining};
    return rpc_server_new(p->base, &o, &port, &p->server, e);
}

int main(int argc, char **argv)
{
    struct program p = {.base = event_base_new()};
    struct err e = {0};
    signal(SIGPIPE, SIG_IGN);
    p.timer = evtimer_new(p.base, on_timer, &p);
    p.term = evsignal_new(p.base, SIGTERM, on_term, &p);
    event_add(p.term, NULL);
    int r = make(&p, argc, argv, &e);
    if (r == 0) {
        printf("Ready port=%s\n", strrchr(rpc_server_address(p.server), ':') + 1);
        fflush(stdout);
        event_base_dispatch(p.base);
    } else {
        fprintf(stderr, "rpc_server: %s\n", e.msg);
    }
    rpc_server_free(p.server);
    station_free(p.station);
    flow_free(p.flow);
    event_free(p.timer);
    event_free(p.term);
    event_base_free(p.base);
    return r == 0 ? 0 : 1;
}
