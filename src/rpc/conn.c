/*
 * One HTTP/2 connection: bytes to frames by nghttp2 and back. Answers are collected and written once
 * per turn of the loop. A connection is freed only between functions of nghttp2.
 */
#include "rpc/rpc_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WINDOW_BYTES  (1 << 20)
#define CHUNK_BYTES   (256 << 10) /* collected before it is written */
#define READ_BYTES    (64 << 10)
#define READS_A_TURN  8 /* then the others */
#define HEADERS_BYTES (16 << 10)
#define DELIVER_BYTES (1 << 20)     /* unsent: nothing more is delivered until some of it is */
#define FIRST_WITHIN  (10 * MONO_S) /* for the TLS handshake and the first frame */
#define ALIVE_AFTER   30            /* seconds of silence, then TCP asks the peer */
#define ALIVE_EVERY   10

/* ---- nghttp2's callbacks ---- */

/* Mostly the same one as before: a call's frames come in a row, and so do its header fields. */
static struct rpc_call *call_of(struct rpc_conn *conn, int32_t stream_id)
{
    if (conn->recent == NULL || conn->recent->stream_id != stream_id)
        conn->recent = nghttp2_session_get_stream_user_data(conn->session, stream_id);
    return conn->recent;
}

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *frame, void *ctx)
{
    struct rpc_conn *conn = ctx;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct rpc_call *c = rpc_call_new(conn, frame->hd.stream_id);
    if (c == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(s, frame->hd.stream_id, c);
    conn->recent = c;
    return 0;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                     size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags, void *ctx)
{
    struct rpc_call *c = call_of(ctx, frame->hd.stream_id);
    if (c == NULL || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    return rpc_call_header(c, (struct text){(const char *)name, n_name},
                           (struct text){(const char *)value, n_value});
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *ctx)
{
    struct rpc_conn *conn = ctx;
    conn->heard = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct rpc_call *c = call_of(conn, frame->hd.stream_id);
    if (c == NULL)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        rpc_call_headers_done(c);
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        rpc_call_client_ended(c);
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t n, void *ctx)
{
    struct rpc_call *c = call_of(ctx, stream_id);
    if (c != NULL)
        rpc_call_data(c, data, n);
    return 0;
}

/* The answer is out, but the client still sends: nobody reads that any more. */
static int on_sent(nghttp2_session *s, const nghttp2_frame *frame, void *ctx)
{
    if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        return 0;
    const struct rpc_call *c = call_of(ctx, frame->hd.stream_id);
    if (c != NULL && !c->client_ended)
        nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static int on_close(nghttp2_session *s, int32_t stream_id, uint32_t code, void *ctx)
{
    struct rpc_conn *conn = ctx;
    struct rpc_call *c = call_of(conn, stream_id);
    conn->recent = NULL;
    nghttp2_session_set_stream_user_data(s, stream_id, NULL);
    rpc_call_free(c);
    return 0;
}

/* A server of small calls has no use for a tree of priorities, nor for streams that are over; and
 * what it wants of a request's headers, call.c looks at itself. */
static int session_of(struct rpc_conn *c, const nghttp2_session_callbacks *callbacks)
{
    nghttp2_option *o;
    if (nghttp2_option_new(&o) != 0)
        return ERR_NOMEM;
    nghttp2_option_set_no_http_messaging(o, 1);
    nghttp2_option_set_no_closed_streams(o, 1);
    int r = nghttp2_session_server_new2(&c->session, callbacks, c, o);
    nghttp2_option_del(o);
    return r == 0 ? 0 : ERR_NOMEM;
}

static int session_new(struct rpc_conn *c)
{
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return ERR_NOMEM;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    int r = session_of(c, callbacks);
    nghttp2_session_callbacks_del(callbacks);
    if (r < 0)
        return r;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, c->server->options.max_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_BYTES},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    r = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
    if (r == 0)
        r = nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                                  4 * WINDOW_BYTES);
    return r == 0 ? 0 : ERR_NOMEM;
}

/* ---- out ---- */

void rpc_conn_touch(struct rpc_conn *c)
{
    if (!list_empty(&c->dirty))
        return;
    list_push_back(&c->server->dirty, &c->dirty);
    event_active(c->server->end_of_turn, EV_TIMEOUT, 0);
}

static size_t unwritten(const struct rpc_conn *c)
{
    return c->out.n - c->out_at;
}

bool rpc_conn_is_full(const struct rpc_conn *c)
{
    return c->out_bytes + unwritten(c) > DELIVER_BYTES;
}

bool rpc_conn_is_over(const struct rpc_conn *c)
{
    return c->out_bytes + unwritten(c) > c->server->options.max_connection_bytes;
}

/* What the session has to send, up to a chunk. */
static bool collect(struct rpc_conn *c)
{
    const uint8_t *data;
    ssize_t n = 0;
    if (c->out_at == c->out.n) {
        buf_reset(&c->out);
        c->out_at = 0;
    }
    c->in_session = true;
    while (c->out.n < CHUNK_BYTES && (n = nghttp2_session_mem_send(c->session, &data)) > 0)
        if (buf_append(&c->out, data, (size_t)n) < 0) {
            n = -1;
            break;
        }
    c->in_session = false;
    return n >= 0;
}

/* Reading stops while a client makes us hold too much, and goes on at half of it. */
static void pause_or_resume(struct rpc_conn *c)
{
    size_t held = c->out_bytes + unwritten(c), most = c->server->options.max_connection_bytes;
    if (!c->paused && rpc_conn_is_over(c)) {
        c->paused = true;
        c->server->stats.paused++;
        (void)event_del(c->read);
    } else if (c->paused && held <= most / 2) {
        c->paused = false;
        (void)event_add(c->read, NULL);
    }
}

static bool write_out(struct rpc_conn *c)
{
    do {
        if (!collect(c))
            return false;
        while (unwritten(c) > 0) {
            ssize_t n = wire_write(&c->wire, c->out.p + c->out_at, unwritten(c));
            if (n == WIRE_LATER)
                return event_add(c->write, NULL) == 0;
            if (n < 0)
                return false;
            c->out_at += (size_t)n;
        }
    } while (nghttp2_session_want_write(c->session));
    return true;
}

void rpc_conn_flush(struct rpc_conn *c)
{
    list_remove(&c->dirty);
    if (c->in_session || (c->shaking && !c->broken))
        return;
    if (c->broken || !write_out(c)) {
        rpc_conn_free(c);
        return;
    }
    if (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session) &&
        unwritten(c) == 0) {
        rpc_conn_free(c);
        return;
    }
    pause_or_resume(c);
    if (!list_empty(&c->blocked) && !rpc_conn_is_full(c))
        rpc_pull_unblock(c);
}

/* ---- in ---- */

static bool wait_for(struct rpc_conn *c, mono_t time)
{
    struct timeval wait = {.tv_sec = time / MONO_S, .tv_usec = time % MONO_S / 1000};
    return evtimer_add(c->patience, &wait) == 0;
}

/* Seen now and then instead of at each call: calls cost nothing so. */
static void on_patience(evutil_socket_t fd, short what, void *ctx)
{
    struct rpc_conn *c = ctx;
    if (c->heard && !c->was_used && c->n_calls == 0)
        rpc_conn_shut(c);
    c->was_used = false;
    if (!c->heard || !wait_for(c, c->server->options.idle_timeout))
        rpc_conn_free(c);
}

/* False when the connection is over. */
static bool shake(struct rpc_conn *c)
{
    ERR_clear_error();
    int r = SSL_accept(c->wire.ssl);
    if (r == 1) {
        c->shaking = false;
        return true;
    }
    int error = SSL_get_error(c->wire.ssl, r);
    if (error == SSL_ERROR_WANT_WRITE)
        return event_add(c->write, NULL) == 0;
    return error == SSL_ERROR_WANT_READ;
}

/* False when the connection is over. */
static bool take(struct rpc_conn *c, const uint8_t *data, size_t n)
{
    c->in_session = true;
    ssize_t r = nghttp2_session_mem_recv(c->session, data, n);
    c->in_session = false;
    return r >= 0 && !c->broken;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    struct rpc_conn *c = ctx;
    uint8_t bytes[READ_BYTES];
    bool ok = true;
    if (c->shaking)
        ok = shake(c);
    for (int i = 0; ok && !c->shaking && !c->paused && i < READS_A_TURN; i++) {
        ssize_t n = wire_read(&c->wire, bytes, sizeof bytes);
        if (n == WIRE_LATER)
            break;
        ok = n > 0 && take(c, bytes, (size_t)n);
        if (ok && (size_t)n < sizeof bytes && c->wire.ssl == NULL)
            break;
    }
    if (!ok)
        c->broken = true;
    /* What TLS has decrypted already makes no descriptor readable. */
    if (ok && c->wire.ssl != NULL && SSL_pending(c->wire.ssl) > 0)
        event_active(c->read, EV_READ, 0);
    rpc_conn_touch(c);
}

/* A handshake that could not write goes on as one that could not read does. */
static void on_writable(evutil_socket_t fd, short what, void *ctx)
{
    struct rpc_conn *c = ctx;
    if (c->shaking)
        on_readable(fd, what, c);
    else
        rpc_conn_flush(c);
}

/* ---- life ---- */

static int make_events(struct rpc_conn *c)
{
    c->read = event_new(c->server->base, c->wire.fd, EV_READ | EV_PERSIST, on_readable, c);
    c->write = event_new(c->server->base, c->wire.fd, EV_WRITE, on_writable, c);
    c->patience = evtimer_new(c->server->base, on_patience, c);
    if (c->read == NULL || c->write == NULL || c->patience == NULL ||
        event_add(c->read, NULL) < 0 ||
        !wait_for(c, mono_min(FIRST_WITHIN, c->server->options.idle_timeout)))
        return ERR_NOMEM;
    return 0;
}

static int make_tls(struct rpc_conn *c)
{
    if (c->server->tls == NULL)
        return 0;
    c->wire.ssl = SSL_new(c->server->tls);
    if (c->wire.ssl == NULL || SSL_set_fd(c->wire.ssl, c->wire.fd) != 1)
        return ERR_NOMEM;
    SSL_set_accept_state(c->wire.ssl);
    c->shaking = true;
    return 0;
}

static void set_socket_options(int fd)
{
    int one = 1, after = ALIVE_AFTER, every = ALIVE_EVERY;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &after, sizeof after);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
}

struct rpc_conn *rpc_conn_new(struct rpc_server *s, int fd)
{
    struct rpc_conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        evutil_closesocket(fd);
        return NULL;
    }
    set_socket_options(fd);
    c->server = s;
    c->wire.fd = fd;
    list_init(&c->dirty);
    list_init(&c->calls);
    list_init(&c->blocked);
    list_push_back(&s->conns, &c->node);
    s->stats.connections++;
    if (make_tls(c) < 0 || make_events(c) < 0 || session_new(c) < 0) {
        rpc_conn_free(c);
        return NULL;
    }
    rpc_conn_touch(c);
    return c;
}

void rpc_conn_free(struct rpc_conn *c)
{
    if (c->in_session) { /* whoever is in there sees it and comes back */
        c->broken = true;
        rpc_conn_touch(c);
        return;
    }
    while (!list_empty(&c->calls)) {
        struct rpc_call *call = LIST_ENTRY(list_first(&c->calls), struct rpc_call, node);
        if (c->session != NULL)
            nghttp2_session_set_stream_user_data(c->session, call->stream_id, NULL);
        rpc_call_free(call);
    }
    c->recent = NULL;
    nghttp2_session_del(c->session);
    struct event *const events[] = {c->read, c->write, c->patience};
    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        if (events[i] != NULL)
            event_free(events[i]);
    wire_close(&c->wire);
    buf_fini(&c->out);
    list_remove(&c->dirty);
    list_remove(&c->node);
    if (c->server->stats.connections-- == c->server->options.max_connections &&
        c->server->listener != NULL)
        evconnlistener_enable(c->server->listener);
    free(c);
}

void rpc_conn_shut(struct rpc_conn *c)
{
    if (c->shut)
        return;
    c->shut = true;
    int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);
    nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
    rpc_conn_touch(c);
}
