/*
 * proxy_server [NAME=VALUE...]: the AMQP proxy with a broker in one process and nothing else, for
 * tests and benchmarks. It obeys lines on standard input and answers each with one line; end of
 * input ends it. Prints "Ready port=N" first.
 *
 *   upstream=URI[,URI...] listen=ADDRESS:PORT work=QUEUE intake=QUEUE vhost=NAME
 *   certificate=FILE key=FILE upstream_ca=FILE max_connections=N max_channels=N max_consumers=N
 *   max_bytes=N window=N unlimited=N handshake_ms=MS connect_ms=MS early_ms=MS barrier=0 guest=1
 *
 * put COUNT BYTES [LEVEL]   messages with bodies "N:xxx", N counting from 1 at level 0..2 -> ok LAST
 * stats                     -> JSON of what the proxy and the broker count, and the clients
 * drain 0|1                 -> ok
 * shut                      -> ok
 * reload                    -> ok, or what is wrong
 */
#include "amqp/uri.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/num.h"
#include "proxy/server.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BODY_MAX = 16 << 20, N_URIS = 4 };

struct program {
    struct event_base *base;
    struct hb_broker *broker;
    struct proxy_server *server;
    struct event *in;
    uint64_t n_put;
    double taught_ms[8]; /* the latest durations */
    unsigned n_taught;
    bool draining;
    char line[256];
    size_t n_line;
};

static mono_t now_of(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (mono_t)t.tv_sec * MONO_S + t.tv_nsec;
}

/* ---- the station ---- */

static int pull(void *ctx, uint64_t consumer, struct proxy_delivery *out)
{
    static const char props[] = {0x10, 0, 2}; /* delivery mode 2 */
    struct program *p = ctx;
    struct hb_delivery d;
    int r = hb_broker_pull(p->broker, consumer, now_of(NULL), &d);
    if (r != HB_BROKER_OK)
        return r;
    *out = (struct proxy_delivery){
        .id = d.id,
        .token = d.token,
        .redelivered = d.attempt > 1,
        .exchange = text_of("shop"),
        .routing_key = text_of("orders.new"),
        .props = {props, sizeof props},
        .body = {d.payload.p, d.payload.n},
    };
    return r;
}

static int settle(void *ctx, const struct proxy_settlement *s)
{
    struct program *p = ctx;
    struct hb_settlement h = {
        .consumer = s->consumer, .id = s->id, .token = s->token, .duration_ms = s->duration_ms};
    if (s->outcome == PROXY_ACK && s->duration_ms >= 0)
        p->taught_ms[p->n_taught++ % 8] = s->duration_ms;
    switch (s->outcome) {
    case PROXY_FAIL: return hb_broker_nack(p->broker, &h, now_of(NULL));
    case PROXY_PUT_BACK: return hb_broker_return(p->broker, &h, now_of(NULL));
    default: return hb_broker_ack(p->broker, &h, now_of(NULL));
    }
}

static void touched(void *ctx)
{
    struct program *p = ctx;
    (void)hb_broker_tick(p->broker, now_of(NULL));
}

static bool draining(void *ctx)
{
    return ((struct program *)ctx)->draining;
}

static uint64_t waiting(void *ctx)
{
    struct hb_broker_stats s;
    hb_broker_stats(((struct program *)ctx)->broker, &s);
    return s.waiting;
}

static void available(void *ctx)
{
    struct program *p = ctx;
    if (p->server != NULL)
        proxy_server_pump(p->server);
}

/* ---- commands ---- */

static void put(struct program *p, uint64_t count, size_t bytes, unsigned level)
{
    static char body[BODY_MAX];
    memset(body, 'x', bytes);
    for (uint64_t i = 0; i < count; i++) {
        char number[24];
        int n = snprintf(number, sizeof number, "%llu:", (unsigned long long)++p->n_put);
        size_t size = bytes > (size_t)n ? bytes : (size_t)n;
        memcpy(body, number, (size_t)n);
        struct hb_submission s = {
            .payload = {body, size}, .level = level, .estimate_ms = -1, .ttl_ns = 0};
        if (hb_broker_submit(p->broker, &s, now_of(NULL), NULL, NULL) != HB_BROKER_OK)
            exit(3);
    }
    printf("ok %llu\n", (unsigned long long)p->n_put);
}

static void print_row(void *ctx, const struct proxy_client_row *r)
{
    bool *first = ctx;
    printf("%s{\"peer\":\"%s\",\"user\":\"%s\",\"product\":\"%s\",\"state\":\"%s\",\"channels\":%u,"
           "\"consumers\":%u,\"window\":%u,\"in_flight\":%u,\"delivered\":%llu,\"held\":%zu,"
           "\"paused_client\":%d,\"paused_upstream\":%d}",
           *first ? "" : ",", r->peer, r->user, r->product, r->state, r->channels, r->consumers,
           r->window, r->in_flight, (unsigned long long)r->delivered, r->held_bytes,
           r->paused_client, r->paused_upstream);
    *first = false;
}

static void print_stats(struct program *p)
{
    struct proxy_stats s = proxy_server_stats(p->server);
    struct hb_broker_stats b;
    hb_broker_stats(p->broker, &b);
    printf("{\"waiting\":%zu,\"broker_in_flight\":%zu,\"dead\":%zu", b.waiting, b.in_flight,
           b.dead);
#define NUMBER(name) printf(",\"" #name "\":%llu", (unsigned long long)s.name)
    NUMBER(accepted), NUMBER(connections), NUMBER(consumers), NUMBER(in_flight), NUMBER(refused);
    NUMBER(refused_guest), NUMBER(timed_out), NUMBER(upstream_failed), NUMBER(broken_clients);
    NUMBER(broken_upstreams), NUMBER(paused), NUMBER(delivered), NUMBER(stale), NUMBER(timed);
    NUMBER(early_acks), NUMBER(no_acks), NUMBER(wide_acks), NUMBER(unknown_tags);
    NUMBER(refused_tx), NUMBER(barriers), NUMBER(heartbeats), NUMBER(bytes_in), NUMBER(bytes_out);
#undef NUMBER
    printf(",\"acked\":%llu,\"failed\":%llu,\"discarded\":%llu,\"put_back\":%llu",
           (unsigned long long)s.settled[PROXY_ACK], (unsigned long long)s.settled[PROXY_FAIL],
           (unsigned long long)s.settled[PROXY_DISCARD],
           (unsigned long long)s.settled[PROXY_PUT_BACK]);
    printf(",\"taught_ms\":[");
    for (unsigned i = 0; i < p->n_taught && i < 8; i++)
        printf("%s%.3f", i > 0 ? "," : "", p->taught_ms[i]);
    printf("],\"clients\":[");
    bool first = true;
    proxy_server_clients(p->server, 0, 1000, print_row, &first);
    printf("]}\n");
}

static void obey(struct program *p)
{
    unsigned long long count = 0, bytes = 0, level = 0;
    if (sscanf(p->line, "put %llu %llu %llu", &count, &bytes, &level) >= 2 && bytes <= BODY_MAX &&
        level <= 2) {
        put(p, count, (size_t)bytes, (unsigned)level);
    } else if (strcmp(p->line, "stats") == 0) {
        print_stats(p);
    } else if (sscanf(p->line, "drain %llu", &count) == 1) {
        p->draining = count != 0;
        proxy_server_pump(p->server);
        printf("ok\n");
    } else if (strcmp(p->line, "shut") == 0) {
        proxy_server_shut(p->server);
        printf("ok\n");
    } else if (strcmp(p->line, "reload") == 0) {
        struct err e = {0};
        printf("%s\n", proxy_server_reload(p->server, &e) == 0 ? "ok" : e.msg);
    } else {
        printf("what?\n");
    }
    fflush(stdout);
}

static void on_input(evutil_socket_t fd, short what, void *ctx)
{
    struct program *p = ctx;
    char c;
    if (read(fd, &c, 1) != 1) {
        event_base_loopbreak(p->base);
        return;
    }
    if (c != '\n' && p->n_line < sizeof p->line - 1) {
        p->line[p->n_line++] = c;
        return;
    }
    p->line[p->n_line] = '\0';
    p->n_line = 0;
    obey(p);
}

/* ---- the program ---- */

static void log_line(void *ctx, enum log_level level, const char *event, const char *fields)
{
    fprintf(stderr, "%s %s %s\n", log_level_name(level), event, fields);
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
        fprintf(stderr, "proxy_server: %s: not a number\n", name);
        exit(2);
    }
    return v;
}

static size_t parse_upstreams(const char *text, struct uri *out)
{
    size_t n = 0;
    char all[2000];
    snprintf(all, sizeof all, "%s", text != NULL ? text : "amqp://");
    for (char *save = NULL, *one = strtok_r(all, ",", &save); one != NULL && n < N_URIS;
         one = strtok_r(NULL, ",", &save)) {
        struct err e = {0};
        if (uri_parse(one, &out[n++], &e) < 0) {
            fprintf(stderr, "proxy_server: %s\n", e.msg);
            exit(2);
        }
    }
    return n;
}

static int make(struct program *p, int argc, char **argv, struct err *e)
{
    static const struct log_sink sink = {log_line, NULL, LOG_DEBUG};
    static struct uri uris[N_URIS];
    const char *listen = option(argc, argv, "listen"), *vhost = option(argc, argv, "vhost");
    struct proxy_options o = {
        .listen = listen != NULL ? listen : "127.0.0.1:0",
        .certificate = option(argc, argv, "certificate"),
        .key = option(argc, argv, "key"),
        .upstreams = uris,
        .n_upstreams = parse_upstreams(option(argc, argv, "upstream"), uris),
        .upstream_tls = option(argc, argv, "upstream_ca") != NULL,
        .upstream_ca = option(argc, argv, "upstream_ca"),
        .max_connections = (unsigned)number(argc, argv, "max_connections", 0),
        .max_channels = (unsigned)number(argc, argv, "max_channels", 0),
        .max_consumers = (unsigned)number(argc, argv, "max_consumers", 0),
        .max_connection_bytes = (size_t)number(argc, argv, "max_bytes", 0),
        .max_window = (uint32_t)number(argc, argv, "window", 0),
        .unlimited_window = (uint32_t)number(argc, argv, "unlimited", 0),
        .connect_timeout = number(argc, argv, "connect_ms", 0) * MONO_MS,
        .handshake_timeout = number(argc, argv, "handshake_ms", 0) * MONO_MS,
        .early_ack = number(argc, argv, "early_ms", 0) * MONO_MS,
        .no_barrier = number(argc, argv, "barrier", 1) == 0,
        .guest_anyone = number(argc, argv, "guest", 0) != 0,
        .log = &sink,
    };
    struct proxy_station station = {
        .ctx = p,
        .vhost = vhost != NULL ? vhost : "/",
        .work = option(argc, argv, "work"),
        .intake = option(argc, argv, "intake"),
        .now = now_of,
        .pull = pull,
        .settle = settle,
        .touched = touched,
        .draining = draining,
        .waiting = waiting,
    };
    if (station.work == NULL)
        station.work = "work";
    return proxy_server_new(p->base, &o, &station, &p->server, e);
}

int main(int argc, char **argv)
{
    struct program p = {.base = event_base_new()};
    struct hb_broker_options o;
    struct hb_broker_events events = {.available = available, .ctx = &p};
    struct err e = {0};
    signal(SIGPIPE, SIG_IGN);
    hb_broker_options_init(&o);
    o.lease_ns = 0;
    p.broker = hb_broker_new(&o, &events);
    p.in = event_new(p.base, 0, EV_READ | EV_PERSIST, on_input, &p);
    event_add(p.in, NULL);
    int r = make(&p, argc, argv, &e);
    if (r == 0) {
        printf("Ready port=%s\n", strrchr(proxy_server_address(p.server), ':') + 1);
        fflush(stdout);
        event_base_dispatch(p.base);
    } else {
        fprintf(stderr, "proxy_server: %s\n", e.msg);
    }
    proxy_server_free(p.server);
    hb_broker_free(p.broker);
    event_free(p.in);
    event_base_free(p.base);
    return r == 0 ? 0 : 1;
}
