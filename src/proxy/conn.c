#include "proxy/conn.h"

#include "amqp/codec.h"
#include "base/err.h"
#include "proxy/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READS_A_TURN = 8,      /* then the others */
    KEEP_BYTES = 64 << 10, /* of an empty outbox's memory */
    SILENT_BEATS = 4,      /* two heartbeats: the other end is gone */
    FRAME_ERROR = 501,
    CONNECTION_FORCED = 320,
};

#define END_WITHIN (2 * MONO_S) /* for the last bytes and the other end's goodbye */

static enum side other(enum side side)
{
    return side == SIDE_CLIENT ? SIDE_UPSTREAM : SIDE_CLIENT;
}

static void arm(struct event *e, mono_t t)
{
    struct timeval wait = {.tv_sec = t / MONO_S, .tv_usec = t % MONO_S / 1000};
    (void)evtimer_add(e, &wait);
}

/* ---- the end ---- */

/* The session is over: what is left to be sent is, then both sockets go, at the deadline by force. */
static void end(struct proxy_conn *c, enum proxy_outcome outcome)
{
    session_end(&c->session, outcome);
    if (c->ending)
        return;
    c->ending = true;
    dial_free(c->dial);
    c->dial = NULL;
    (void)event_del(c->beat);
    arm(c->deadline, END_WITHIN);
}

static void broken(struct proxy_conn *c, enum side side, int r)
{
    struct proxy_stats *stats = &c->server->world.stats;
    struct buf *out = &c->session.out[SIDE_CLIENT].bytes;
    if (r == ERR_PROTOCOL) {
        stats->broken_clients += side == SIDE_CLIENT;
        stats->broken_upstreams += side == SIDE_UPSTREAM;
    }
    PROXY_LOG(c, LOG_WARN, "proxy.broken", "peer=%s user=" LOG_Q " side=%s reason=" LOG_Q, c->peer,
              c->session.user, side == SIDE_CLIENT ? "client" : "rabbitmq", c->session.why);
    if (session_state(&c->session) == SESSION_GREETING)
        r = buf_append(out, "AMQP\0\0\x09\x01", SPLIT_GREETING); /* what we speak */
    else
        r = session_refuse(&c->session, FRAME_ERROR, "FRAME_ERROR - the stream cannot be read on",
                           0);
    (void)r; /* out of memory: the end comes without words */
    end(c, side == SIDE_CLIENT ? PROXY_FAIL : PROXY_PUT_BACK);
}

/* A socket ended by itself. A worker that went without a goodbye may have failed at its job;
 * RabbitMQ's end is not its fault. */
static void lost(struct proxy_conn *c, enum side side)
{
    if (!c->ending && c->was_open && session_state(&c->session) == SESSION_OPEN)
        PROXY_LOG(c, side == SIDE_CLIENT ? LOG_INFO : LOG_WARN, "proxy.lost",
                  "peer=%s user=" LOG_Q " side=%s in_flight=%u", c->peer, c->session.user,
                  side == SIDE_CLIENT ? "client" : "rabbitmq", c->session.in_flight);
    stream_close(&c->stream[side]);
    end(c, side == SIDE_CLIENT ? PROXY_FAIL : PROXY_PUT_BACK);
}

/* ---- in ---- */

/* Reading stops while the other side does not take what came, and goes on at half of it. */
static void pause_or_resume(struct proxy_conn *c, enum side side)
{
    size_t held = outbox_bytes(&c->session.out[other(side)]);
    size_t most = c->server->world.options.max_connection_bytes;
    struct stream *s = &c->stream[side];
    if (s->state != STREAM_UP)
        return;
    if (!s->paused && held >= most) {
        c->server->world.stats.paused++;
        stream_pause(s, true);
    } else if (s->paused && held <= most / 2) {
        stream_pause(s, false);
    }
}

static void take_in(struct proxy_conn *c, enum side side, size_t n)
{
    struct proxy_server *s = c->server;
    if (side == SIDE_CLIENT)
        s->world.stats.bytes_in += n;
    c->n_silent[side] = 0;
    int r = session_input(&c->session, side, s->bytes, n);
    if (r < 0)
        broken(c, side, r);
    pause_or_resume(c, side);
}

static void read_in(struct proxy_conn *c, enum side side)
{
    struct stream *s = &c->stream[side];
    for (int i = 0; i < READS_A_TURN && !s->paused; i++) {
        ssize_t n = stream_read(s, c->server->bytes, PROXY_READ_BYTES);
        if (n == STREAM_LATER)
            return;
        if (n < 0) {
            lost(c, side);
            return;
        }
        if (s->state == STREAM_UP && !c->ending)
            take_in(c, side, (size_t)n);
        if (n < PROXY_READ_BYTES && s->ssl == NULL)
            return;
    }
}

static void on_io(struct proxy_conn *c, enum side side)
{
    struct stream *s = &c->stream[side];
    proxy_server_look_at_clock(c->server);
    session_touch(&c->session);
    proxy_server_wake(c->server);
    if (s->state == STREAM_SHAKING) {
        int r = stream_shake(s);
        if (r == STREAM_LOST)
            lost(c, side);
        if (r != 0)
            return;
    }
    read_in(c, side);
}

static void on_client_io(evutil_socket_t fd, short what, void *ctx)
{
    on_io(ctx, SIDE_CLIENT);
}

static void on_upstream_io(evutil_socket_t fd, short what, void *ctx)
{
    on_io(ctx, SIDE_UPSTREAM);
}

/* Room in the socket is used at the end of the turn; a handshake that could not write goes on. */
static void on_client_writable(evutil_socket_t fd, short what, void *ctx)
{
    on_io(ctx, SIDE_CLIENT);
}

static void on_upstream_writable(evutil_socket_t fd, short what, void *ctx)
{
    on_io(ctx, SIDE_UPSTREAM);
}

/* ---- RabbitMQ ---- */

static void upstream_failed(struct proxy_conn *c, size_t host, const char *error)
{
    const struct dial_host *h = &c->server->hosts[host];
    c->server->world.stats.upstream_failed++;
    PROXY_LOG(c, LOG_WARN, "proxy.upstream", "peer=%s host=%s port=%u reason=" LOG_Q, c->peer,
              h->host, h->port, error);
    end(c, PROXY_PUT_BACK);
}

static void on_dialed(void *ctx, int fd, size_t host, const char *error)
{
    struct proxy_conn *c = ctx;
    struct proxy_server *s = c->server;
    SSL *ssl = NULL;
    c->dial = NULL;
    session_touch(&c->session);
    proxy_server_wake(s);
    if (fd < 0) {
        upstream_failed(c, host, error);
        return;
    }
    if (s->upstream_tls != NULL &&
        (ssl = proxy_tls_connect(s->upstream_tls, s->hosts[host].host)) == NULL) {
        evutil_closesocket(fd);
        upstream_failed(c, host, strerror(ENOMEM));
        return;
    }
    struct stream_events events = {s->base, on_upstream_io, on_upstream_writable, c};
    if (stream_open(&c->stream[SIDE_UPSTREAM], fd, ssl, &events) < 0)
        upstream_failed(c, host, strerror(ENOMEM));
    else if (ssl != NULL)
        (void)event_add(c->stream[SIDE_UPSTREAM].write, NULL); /* the client speaks first */
}

/* Not before the client has said a word of AMQP: who only looks costs RabbitMQ nothing. */
static void dial(struct proxy_conn *c)
{
    struct proxy_server *s = c->server;
    struct dial_options o = {.base = s->base,
                             .dns = s->dns,
                             .hosts = s->hosts,
                             .n_hosts = s->world.options.n_upstreams,
                             .timeout = s->world.options.connect_timeout,
                             .done = on_dialed,
                             .ctx = c};
    c->dial = dial_new(&o);
    if (c->dial == NULL)
        end(c, PROXY_PUT_BACK);
}

/* ---- time ---- */

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    struct proxy_conn *c = ctx;
    proxy_server_look_at_clock(c->server);
    session_touch(&c->session);
    proxy_server_wake(c->server);
    if (c->ending || session_state(&c->session) == SESSION_REFUSED) {
        session_end(&c->session, PROXY_FAIL);
        stream_close(&c->stream[SIDE_CLIENT]);
        stream_close(&c->stream[SIDE_UPSTREAM]);
        c->ending = true;
        return;
    }
    c->server->world.stats.timed_out++;
    PROXY_LOG(c, LOG_INFO, "proxy.timeout", "peer=%s state=%s", c->peer, sm_name(&c->session.sm));
    end(c, PROXY_PUT_BACK);
}

/* A side that is not read cannot be heard. */
static bool is_silent(struct proxy_conn *c, enum side side)
{
    if (c->stream[side].paused)
        c->n_silent[side] = 0;
    return ++c->n_silent[side] > SILENT_BEATS;
}

/*
 * Each end counts any byte as life, so what the proxy swallows makes RabbitMQ hear nothing of a busy
 * client, and what it injects makes a client hear nothing amiss of a dead RabbitMQ. So it beats in
 * the client's place when nothing else goes there, and listens to both itself.
 */
static void on_beat(evutil_socket_t fd, short what, void *ctx)
{
    struct proxy_conn *c = ctx;
    proxy_server_look_at_clock(c->server);
    session_touch(&c->session);
    proxy_server_wake(c->server);
    if (is_silent(c, SIDE_CLIENT)) {
        lost(c, SIDE_CLIENT);
        return;
    }
    if (is_silent(c, SIDE_UPSTREAM)) {
        lost(c, SIDE_UPSTREAM);
        return;
    }
    struct outbox *out = &c->session.out[SIDE_UPSTREAM];
    if (!c->wrote_upstream && outbox_bytes(out) == 0 && codec_put_heartbeat(&out->bytes) == 0)
        c->server->world.stats.heartbeats++;
    c->wrote_upstream = false;
}

static void opened(struct proxy_conn *c)
{
    mono_t half = (mono_t)c->session.heartbeat_s * MONO_S / 2;
    struct timeval every = {.tv_sec = half / MONO_S, .tv_usec = half % MONO_S / 1000};
    c->was_open = true;
    (void)evtimer_del(c->deadline);
    if (half > 0)
        (void)event_add(c->beat, &every);
}

/* ---- out ---- */

/* False when the side is lost. */
static bool write_out(struct proxy_conn *c, enum side side)
{
    struct outbox *o = &c->session.out[side];
    struct stream *s = &c->stream[side];
    while (s->state == STREAM_UP && outbox_bytes(o) > 0) {
        ssize_t n = stream_write(s, o->bytes.p + o->at, outbox_bytes(o));
        if (n == STREAM_LATER)
            break;
        if (n < 0)
            return false;
        o->at += (size_t)n;
        if (side == SIDE_UPSTREAM)
            c->wrote_upstream = true;
        else
            c->server->world.stats.bytes_out += (size_t)n;
    }
    if (outbox_bytes(o) > 0)
        return true;
    o->at = 0;
    if (o->bytes.cap > KEEP_BYTES)
        buf_fini(&o->bytes);
    buf_reset(&o->bytes);
    return true;
}

/* What was sent makes room at the front; it is used when it is the larger part, so that each byte is
 * moved once at most. */
static void close_ranks(struct outbox *o)
{
    size_t left = outbox_bytes(o);
    if (o->at <= left || left == 0)
        return;
    memmove(o->bytes.p, o->bytes.p + o->at, left);
    o->bytes.n = left;
    o->at = 0;
}

static void send_side(struct proxy_conn *c, enum side side)
{
    if (!write_out(c, side))
        lost(c, side);
    close_ranks(&c->session.out[side]);
    pause_or_resume(c, other(side));
}

/* A side that has nothing more to get is told so, and its socket goes when it has said the same. */
static void finish_side(struct proxy_conn *c, enum side side)
{
    struct stream *s = &c->stream[side];
    if (s->state == STREAM_SHAKING)
        stream_close(s);
    if (s->state == STREAM_UP && outbox_bytes(&c->session.out[side]) == 0)
        stream_finish(s);
}

static bool is_gone(const struct stream *s)
{
    return s->state == STREAM_NONE || s->state == STREAM_CLOSED;
}

static void follow_state(struct proxy_conn *c)
{
    switch (session_state(&c->session)) {
    case SESSION_GREETING: break;
    case SESSION_TUNNEL:
    case SESSION_HANDSHAKE:
        if (c->dial == NULL && c->stream[SIDE_UPSTREAM].state == STREAM_NONE && !c->ending)
            dial(c);
        if (session_state(&c->session) == SESSION_TUNNEL &&
            c->stream[SIDE_UPSTREAM].state == STREAM_UP && !c->was_open)
            opened(c);
        break;
    case SESSION_OPEN:
    case SESSION_CLOSING:
        if (!c->was_open)
            opened(c);
        break;
    case SESSION_REFUSED:
        dial_free(c->dial);
        c->dial = NULL;
        finish_side(c, SIDE_UPSTREAM);
        if (!evtimer_pending(c->deadline, NULL))
            arm(c->deadline, END_WITHIN);
        break;
    case SESSION_ENDED:
        if (!c->ending)
            end(c, PROXY_FAIL);
        break;
    }
}

void proxy_conn_flush(struct proxy_conn *c)
{
    list_remove(&c->session.dirty);
    if (c->server->world.shut)
        proxy_conn_shut(c);
    follow_state(c);
    send_side(c, SIDE_UPSTREAM);
    send_side(c, SIDE_CLIENT);
    if (session_drained(&c->session))
        proxy_server_wake(c->server); /* this turn's pump was before */
    if (c->ending) {
        finish_side(c, SIDE_CLIENT);
        finish_side(c, SIDE_UPSTREAM);
        if (is_gone(&c->stream[SIDE_CLIENT]) && is_gone(&c->stream[SIDE_UPSTREAM]))
            proxy_conn_free(c);
    }
}

void proxy_conn_shut(struct proxy_conn *c)
{
    enum session_state state = session_state(&c->session);
    if (state == SESSION_OPEN && c->session.in_flight == 0) {
        if (session_refuse(&c->session, CONNECTION_FORCED,
                           "CONNECTION_FORCED - the proxy is going down", 0) < 0)
            end(c, PROXY_PUT_BACK);
    } else if (state == SESSION_GREETING || state == SESSION_HANDSHAKE || state == SESSION_TUNNEL) {
        end(c, PROXY_PUT_BACK);
    }
}

/* ---- life ---- */

static int start(struct proxy_conn *c, int fd)
{
    struct proxy_server *s = c->server;
    SSL *ssl = s->tls != NULL ? proxy_tls_accept(s->tls) : NULL;
    struct stream_events events = {s->base, on_client_io, on_client_writable, c};
    if (s->tls != NULL && ssl == NULL) {
        evutil_closesocket(fd);
        return ERR_NOMEM;
    }
    int r = stream_open(&c->stream[SIDE_CLIENT], fd, ssl, &events);
    c->deadline = evtimer_new(s->base, on_deadline, c);
    c->beat = event_new(s->base, -1, EV_PERSIST, on_beat, c);
    if (r < 0 || c->deadline == NULL || c->beat == NULL)
        return ERR_NOMEM;
    arm(c->deadline, s->world.options.handshake_timeout);
    return 0;
}

void proxy_conn_new(struct proxy_server *s, int fd, const char *peer, bool local)
{
    struct proxy_conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        evutil_closesocket(fd);
        return;
    }
    c->server = s;
    session_init(&c->session, &s->world, local);
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    list_push_back(&s->conns, &c->node);
    s->world.stats.connections++;
    if (start(c, fd) < 0)
        proxy_conn_free(c);
}

void proxy_conn_free(struct proxy_conn *c)
{
    session_end(&c->session, PROXY_PUT_BACK);
    session_fini(&c->session);
    dial_free(c->dial);
    stream_close(&c->stream[SIDE_CLIENT]);
    stream_close(&c->stream[SIDE_UPSTREAM]);
    if (c->deadline != NULL)
        event_free(c->deadline);
    if (c->beat != NULL)
        event_free(c->beat);
    list_remove(&c->node);
    c->server->world.stats.connections--;
    free(c);
}
