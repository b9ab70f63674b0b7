#include "fuzz/rpc_world.h"

#include "broker/broker_check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 16 << 10, TURNS = 2 /* what one turn wakes, the next one does */ };

void must(bool holds)
{
    if (!holds)
        abort();
}

static struct event_base *base_of(void)
{
    static struct event_base *base;
    if (base == NULL)
        base = event_base_new();
    must(base != NULL);
    return base;
}

/* ---- the station ---- */

static mono_t now_of(void *ctx)
{
    return ((struct rpc_world *)ctx)->now;
}

static int submit(void *ctx, const struct rpc_submission *s, uint64_t *id)
{
    struct rpc_world *w = ctx;
    must(rpc_submission_header(s, "__producer_id").p != NULL);
    struct hb_submission m = {
        .payload = s->payload, .headers = s->headers, .ttl_ns = s->ttl_ns, .estimate_ms = -1};
    return hb_broker_submit(w->broker, &m, w->now, id, NULL);
}

static void touched(void *ctx)
{
}

static void drain(void *ctx)
{
    ((struct rpc_world *)ctx)->draining = true;
}

static bool draining(void *ctx)
{
    return ((struct rpc_world *)ctx)->draining;
}

static void available(void *ctx)
{
    struct rpc_world *w = ctx;
    if (w->server != NULL)
        rpc_server_pump(w->server);
}

/* ---- the world ---- */

static struct hb_broker *make_broker(struct rpc_world *w)
{
    struct hb_broker_events events = {.available = available, .ctx = w};
    struct hb_broker_options o;
    hb_broker_options_init(&o);
    o.extendable_leases = true;
    o.max_messages = 200;
    o.max_dead = 20;
    o.max_attempts = 2;
    return hb_broker_new(&o, &events);
}

static void connect_client(struct rpc_world *w)
{
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    w->client = ends[0];
    must(rpc_conn_new(w->server, ends[1]) != NULL);
}

void rpc_world_init(struct rpc_world *w)
{
    struct err e = {0};
    *w = (struct rpc_world){.now = MONO_S};
    w->broker = make_broker(w);
    must(w->broker != NULL);
    struct rpc_options o = {.listen = "127.0.0.1:0",
                            .max_streams = 64,
                            .max_message_bytes = 64 << 10,
                            .max_connection_bytes = 256 << 10};
    struct rpc_station station = {.ctx = w,
                                  .broker = w->broker,
                                  .instance = 1,
                                  .now = now_of,
                                  .submit = submit,
                                  .touched = touched,
                                  .drain = drain,
                                  .draining = draining};
    must(rpc_server_new(base_of(), &o, &station, &w->server, &e) == 0);
    w->server->n_producers = w->server->n_consumers = 2;
    connect_client(w);
}

static void turn(struct rpc_world *w)
{
    char answer[PIECE];
    for (int i = 0; i < TURNS; i++) {
        event_base_loop(base_of(), EVLOOP_NONBLOCK);
        while (w->client >= 0 && !w->deaf && read(w->client, answer, sizeof answer) > 0)
            ;
    }
    must(hb_broker_check(w->broker) == NULL);
}

void rpc_world_feed(struct rpc_world *w, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0 && w->client >= 0) {
        ssize_t sent = send(w->client, p, n < PIECE ? n : PIECE, MSG_NOSIGNAL);
        turn(w);
        if (sent <= 0)
            return; /* cut, or not read from */
        p += sent;
        n -= (size_t)sent;
    }
}

void rpc_world_pass(struct rpc_world *w, mono_t time)
{
    w->now += time;
    hb_broker_tick(w->broker, w->now);
    turn(w);
}

static void nothing_is_lost(const struct rpc_world *w)
{
    struct hb_broker_stats b;
    hb_broker_stats(w->broker, &b);
    uint64_t died = 0;
    for (int i = 0; i < HB_N_DEAD_REASONS; i++)
        died += b.died[i];
    must(b.submitted + b.redriven == b.acked + died + b.waiting + b.in_flight);
}

void rpc_world_fini(struct rpc_world *w)
{
    close(w->client);
    w->client = -1;
    turn(w);
    const struct rpc_server *s = w->server;
    must(s->stats.connections == 0 && s->stats.streams == 0 && s->stats.parked_pulls == 0);
    must(s->stats.work_streams == 0 && list_empty(&s->dirty) && list_empty(&s->parked));
    must(list_empty(&s->workers) && list_empty(&s->watchers));
    nothing_is_lost(w);
    rpc_server_free(w->server);
    hb_broker_free(w->broker);
}
