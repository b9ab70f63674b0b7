/*
 * One gRPC call on an HTTP/2 stream:
 *
 *   headers ─► messages ─► client ended ─► (answer) ─► trailers
 *
 * An error before any message of ours is sent as trailers alone. Whatever is wrong with a request
 * is found when its headers are complete; what comes after a decision is read and dropped.
 */
#include "rpc/arena.h"
#include "rpc/rpc_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_MAX (16 << 10) /* bytes of a request's names and values */
#define TEXT_BYTES  256
#define MERGE_BYTES (16 << 10) /* of a message that others are added to */
#define KEEP_BYTES  (64 << 10) /* a larger buffer is not kept for the next message */

struct rpc_call *rpc_call_new(struct rpc_conn *conn, int32_t stream_id)
{
    struct rpc_call *c = malloc(sizeof *c); /* glibc's calloc is the slower one */
    if (c == NULL)
        return NULL;
    *c = (struct rpc_call){.conn = conn, .stream_id = stream_id};
    c->in.max = conn->server->options.max_message_bytes;
    c->deadline = MONO_NEVER;
    list_init(&c->wait);
    list_push_back(&conn->calls, &c->node);
    conn->n_calls++;
    conn->was_used = true;
    conn->server->stats.streams++;
    return c;
}

void rpc_call_clear_timer(struct rpc_call *c)
{
    if (c->timer != NULL)
        event_free(c->timer);
    c->timer = NULL;
}

void rpc_call_set_timer(struct rpc_call *c, mono_t at, event_callback_fn on_timer)
{
    mono_t left = at - rpc_now(c->conn->server);
    if (left < 0)
        left = 0;
    struct timeval wait = {.tv_sec = left / MONO_S, .tv_usec = left % MONO_S / 1000 + 1};
    rpc_call_clear_timer(c);
    c->timer = evtimer_new(c->conn->server->base, on_timer, c);
    if (c->timer == NULL || evtimer_add(c->timer, &wait) < 0)
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED, "the server is out of memory");
}

void rpc_call_free(struct rpc_call *c)
{
    if (c == NULL)
        return;
    struct rpc_conn *conn = c->conn;
    rpc_call_clear_timer(c);
    if (c->method != NULL && c->method->gone != NULL)
        c->method->gone(c);
    conn->server->stats.calls[c->finished ? c->status : GRPC_CANCELLED]++;
    conn->in_bytes -= c->in.buf.n;
    conn->out_bytes -= rpc_call_unsent(c);
    list_remove(&c->wait);
    list_remove(&c->node);
    conn->n_calls--;
    conn->server->stats.streams--;
    grpc_reader_fini(&c->in);
    buf_fini(&c->out);
    buf_fini(&c->text);
    free(c->held);
    free(c);
}

/* ---- out ---- */

/* `name` lives for ever; so does `value`, unless the flags are changed. */
static inline nghttp2_nv field(const char *name, const char *value, size_t n_value)
{
    union {
        const char *text;
        uint8_t *bytes;
    } n = {.text = name}, v = {.text = value}; /* nghttp2 does not write to them */
    return (nghttp2_nv){n.bytes, v.bytes, strlen(name), n_value,
                        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

/* grpc-status and, when there are words, grpc-message; returns how many fields. */
static size_t status_fields(const struct rpc_call *c, nghttp2_nv out[2])
{
    static const char *const digits[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                         "9", "10", "11", "12", "13", "14", "15", "16"};
    out[0] = field("grpc-status", digits[c->status], strlen(digits[c->status]));
    if (c->text.n == 0)
        return 1;
    out[1] = field("grpc-message", c->text.p, c->text.n);
    out[1].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    return 2;
}

static void drop(struct buf *b)
{
    if (b->cap > KEEP_BYTES)
        buf_fini(b);
    else
        buf_reset(b);
}

/* What is sent makes room. A stream that is always behind never comes to the end of its buffer: what
 * is left of it moves when that is less than half, so that a byte moves once. */
static void count_sent(struct rpc_call *c, size_t n)
{
    c->out_at += n;
    c->conn->out_bytes -= n;
    if (c->out_at == c->out.n) {
        drop(&c->out);
        c->out_at = 0;
    } else if (c->out_at >= KEEP_BYTES && c->out_at > c->out.n / 2) {
        c->out.n -= c->out_at;
        c->last = c->last > c->out_at ? c->last - c->out_at : 0;
        memmove(c->out.p, c->out.p + c->out_at, c->out.n);
        c->out_at = 0;
    }
}

static ssize_t on_read(nghttp2_session *s, int32_t stream_id, uint8_t *out, size_t n,
                       uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct rpc_call *c = source->ptr;
    size_t left = rpc_call_unsent(c);
    if (left == 0 && !c->finished)
        return NGHTTP2_ERR_DEFERRED;
    if (n > left)
        n = left;
    if (n > 0)
        memcpy(out, c->out.p + c->out_at, n);
    count_sent(c, n);
    if (rpc_call_unsent(c) == 0 && c->finished) {
        nghttp2_nv trailers[2];
        size_t n_trailers = status_fields(c, trailers);
        if (nghttp2_submit_trailer(s, stream_id, trailers, n_trailers) != 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    }
    return (ssize_t)n;
}

#define CONTENT_TYPE "application/grpc"

static void start(struct rpc_call *c)
{
    nghttp2_nv headers[] = {field(":status", "200", 3),
                            field("content-type", CONTENT_TYPE, sizeof CONTENT_TYPE - 1)};
    nghttp2_data_provider body = {.source.ptr = c, .read_callback = on_read};
    c->started = true;
    if (nghttp2_submit_response(c->conn->session, c->stream_id, headers, ARRAY_SIZE(headers),
                                &body) != 0)
        c->conn->broken = true;
}

/* Nothing of ours is out yet: status and words go in one block of headers, and no data follows. */
static void start_with_trailers(struct rpc_call *c)
{
    nghttp2_nv headers[4] = {field(":status", c->head.grpc ? "200" : "415", 3),
                             field("content-type", CONTENT_TYPE, sizeof CONTENT_TYPE - 1)};
    size_t n = 2 + status_fields(c, headers + 2);
    c->started = true;
    if (nghttp2_submit_response(c->conn->session, c->stream_id, headers, n, NULL) != 0)
        c->conn->broken = true;
}

uint8_t *rpc_call_extend(struct rpc_call *c, size_t n)
{
    if (c->finished)
        return NULL;
    uint8_t *p = (uint8_t *)buf_extend(&c->out, GRPC_PREFIX + n);
    if (p == NULL) {
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED, "the server is out of memory");
        return NULL;
    }
    grpc_put_prefix(p, (uint32_t)n);
    c->last = c->out.n - n - GRPC_PREFIX;
    c->conn->out_bytes += GRPC_PREFIX + n;
    c->queued += GRPC_PREFIX + n;
    if (!c->started)
        start(c);
    else
        nghttp2_session_resume_data(c->conn->session, c->stream_id);
    rpc_conn_touch(c->conn);
    return p + GRPC_PREFIX;
}

/* Of the latest message nothing is sent, and with n bytes more it is still small. */
static bool can_grow(const struct rpc_call *c, size_t n)
{
    return rpc_call_unsent(c) > 0 && c->out_at <= c->last && n <= MERGE_BYTES &&
           c->out.n - c->last + n <= MERGE_BYTES && !c->finished;
}

uint8_t *rpc_call_extend_more(struct rpc_call *c, size_t n)
{
    if (!can_grow(c, n))
        return rpc_call_extend(c, n);
    uint8_t *p = (uint8_t *)buf_extend(&c->out, n);
    if (p == NULL) {
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED, "the server is out of memory");
        return NULL;
    }
    grpc_put_prefix((uint8_t *)c->out.p + c->last, (uint32_t)(c->out.n - c->last - GRPC_PREFIX));
    c->conn->out_bytes += n;
    c->queued += n;
    return p;
}

void rpc_call_send_more(struct rpc_call *c, const ProtobufCMessage *m)
{
    uint8_t *p = rpc_call_extend_more(c, protobuf_c_message_get_packed_size(m));
    if (p != NULL)
        protobuf_c_message_pack(m, p);
}

void rpc_call_send(struct rpc_call *c, const ProtobufCMessage *m)
{
    uint8_t *p = rpc_call_extend(c, protobuf_c_message_get_packed_size(m));
    if (p != NULL)
        protobuf_c_message_pack(m, p);
}

static void finish(struct rpc_call *c, int status)
{
    c->finished = true;
    c->status = status;
    rpc_call_clear_timer(c);
    list_remove(&c->wait);
    if (!c->started)
        start_with_trailers(c);
    else
        nghttp2_session_resume_data(c->conn->session, c->stream_id);
    rpc_conn_touch(c->conn);
}

void rpc_call_finish(struct rpc_call *c, int status, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    if (c->finished)
        return;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n > 0 && grpc_percent_encode(&c->text, text, strlen(text)) < 0)
        buf_reset(&c->text);
    finish(c, status);
}

void rpc_call_finish_ok(struct rpc_call *c)
{
    if (!c->finished)
        finish(c, GRPC_OK);
}

void rpc_call_undecoded(struct rpc_call *c)
{
    rpc_call_finish(c, GRPC_INTERNAL, "the request cannot be decoded");
}

void rpc_call_answer(struct rpc_call *c, const ProtobufCMessage *m)
{
    rpc_call_send(c, m);
    rpc_call_finish_ok(c);
}

/* ---- in ---- */

static bool is(struct text t, const char *word)
{
    return text_equal(t, text_of(word));
}

static bool begins(struct text t, const char *word)
{
    size_t n = strlen(word);
    return t.n >= n && memcmp(t.p, word, n) == 0;
}

/* "application/grpc", "application/grpc+proto", "application/grpc; ...". */
static bool is_grpc(struct text type)
{
    size_t n = sizeof CONTENT_TYPE - 1;
    if (!begins(type, CONTENT_TYPE))
        return false;
    return type.n == n || type.p[n] == ';' || is((struct text){type.p + n, type.n - n}, "+proto");
}

static bool is_token(const struct rpc_server *s, struct text value)
{
    static const char scheme[] = "Bearer ";
    size_t n = strlen(s->token);
    return begins(value, scheme) && value.n - (sizeof scheme - 1) == n &&
           CRYPTO_memcmp(value.p + sizeof scheme - 1, s->token, n) == 0;
}

int rpc_call_header(struct rpc_call *c, struct text name, struct text value)
{
    struct rpc_server *s = c->conn->server;
    mono_t timeout;
    c->header_bytes += name.n + value.n;
    if (is(name, ":path"))
        c->method = rpc_method_find(value);
    else if (is(name, ":method"))
        c->head.post = is(value, "POST");
    else if (is(name, "content-type"))
        c->head.grpc = is_grpc(value);
    else if (is(name, "grpc-encoding"))
        c->head.compressed = !is(value, "identity");
    else if (is(name, "authorization"))
        c->head.authorized = s->token[0] != '\0' && is_token(s, value);
    else if (is(name, "grpc-timeout")) {
        c->head.bad_timeout = grpc_timeout_parse(value.p, value.n, &timeout) < 0;
        if (!c->head.bad_timeout)
            c->deadline = mono_add(rpc_now(s), timeout);
    }
    return 0;
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    rpc_call_finish(ctx, GRPC_DEADLINE_EXCEEDED, "the call's deadline has passed");
}

void rpc_call_headers_done(struct rpc_call *c)
{
    const struct rpc_server *s = c->conn->server;
    if (c->header_bytes > HEADERS_MAX)
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED, "the request's headers exceed %d bytes",
                        HEADERS_MAX);
    else if (!c->head.post || !c->head.grpc)
        rpc_call_finish(c, GRPC_INVALID_ARGUMENT, "a POST of application/grpc is expected");
    else if (c->method == NULL)
        rpc_call_finish(c, GRPC_UNIMPLEMENTED, "there is no such method");
    else if (c->head.compressed)
        rpc_call_finish(c, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
    else if (s->token[0] != '\0' && !c->head.authorized && !c->method->is_open)
        rpc_call_finish(c, GRPC_UNAUTHENTICATED, "a valid bearer token is required");
    else if (c->head.bad_timeout)
        rpc_call_finish(c, GRPC_INVALID_ARGUMENT, "grpc-timeout cannot be read");
    else if (s->shut)
        rpc_call_finish(c, GRPC_UNAVAILABLE, RPC_SHUT_TEXT);
    else if (c->method->is_stream && c->deadline != MONO_NEVER)
        rpc_call_set_timer(c, c->deadline, on_deadline);
}

/* One message to the method. */
static void deliver(struct rpc_call *c, struct text body)
{
    struct rpc_server *s = c->conn->server;
    if (c->method->raw != NULL) {
        c->method->raw(c, body);
        return;
    }
    ProtobufCMessage *m = protobuf_c_message_unpack(c->method->request, arena_allocator(s->arena),
                                                    body.n, (const uint8_t *)body.p);
    if (m != NULL)
        c->method->message(c, m);
    else
        rpc_call_undecoded(c);
    arena_reset(s->arena);
}

/* The next complete message; what cannot be one ends the call. */
static bool next_message(struct rpc_call *c, struct text *out)
{
    switch (grpc_reader_next(&c->in, out)) {
    case GRPC_MESSAGE: return true;
    case GRPC_MORE: break;
    case GRPC_COMPRESSED:
        rpc_call_finish(c, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
        break;
    case GRPC_TOO_LONG:
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED, "a message exceeds %zu bytes", c->in.max);
        break;
    }
    return false;
}

/* Streams hand over each message as it comes; the one of a unary call waits for the end. */
static void take_messages(struct rpc_call *c)
{
    struct text body;
    while (!c->finished && next_message(c, &body))
        deliver(c, body);
    if (!grpc_reader_partial(&c->in) && c->in.buf.cap > KEEP_BYTES)
        grpc_reader_fini(&c->in);
}

void rpc_call_data(struct rpc_call *c, const uint8_t *data, size_t n)
{
    struct rpc_conn *conn = c->conn;
    if (c->finished)
        return;
    conn->in_bytes -= c->in.buf.n;
    if (conn->in_bytes + c->in.buf.n + n > conn->server->options.max_connection_bytes)
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED,
                        "the connection's requests exceed %zu bytes together",
                        conn->server->options.max_connection_bytes);
    else if (grpc_reader_feed(&c->in, data, n) < 0)
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED, "the server is out of memory");
    else if (c->method->is_stream)
        take_messages(c);
    if (c->finished)
        grpc_reader_fini(&c->in);
    conn->in_bytes += c->in.buf.n;
}

/* A unary request is complete: exactly one message. */
static void take_unary(struct rpc_call *c)
{
    struct text body, more;
    if (!next_message(c, &body)) {
        rpc_call_finish(c, GRPC_INTERNAL, "the request has no message");
        return;
    }
    if (next_message(c, &more) || grpc_reader_partial(&c->in))
        rpc_call_finish(c, GRPC_INTERNAL, "the request has more than one message");
    else if (rpc_conn_is_over(c->conn))
        rpc_call_finish(c, GRPC_RESOURCE_EXHAUSTED, "the connection's answers are not read");
    else if (c->deadline != MONO_NEVER && rpc_now(c->conn->server) >= c->deadline)
        rpc_call_finish(c, GRPC_DEADLINE_EXCEEDED, "the call's deadline has passed");
    else
        deliver(c, body);
}

void rpc_call_client_ended(struct rpc_call *c)
{
    c->client_ended = true;
    if (c->finished)
        return;
    if (!c->method->is_stream)
        take_unary(c);
    else if (grpc_reader_partial(&c->in))
        rpc_call_finish(c, GRPC_INTERNAL, "the stream ended inside a message");
    else if (c->method->client_ended != NULL)
        c->method->client_ended(c);
    else
        rpc_call_finish_ok(c);
}
