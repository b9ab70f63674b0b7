#include "client/peer.h"

#include "base/err.h"
#include "base/num.h"
#include "client/dial.h"

#include <errno.h>
#include <limits.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_ADDRESS "127.0.0.1:50051"
#define DEFAULT_TIMEOUT (5 * MONO_S)
#define WINDOW_BYTES    (4 << 20)
#define MESSAGE_MAX     (64 << 20)     /* of what the server sends */
#define IDLE_FOR        (10 * MONO_MS) /* heard of so lately, a peer is taken to be there */
#define READ_BYTES      (64 << 10)
#define TOKEN_BYTES     4096
#define SERVICE         "/harbinger_rpc.Broker/"

struct peer {
    struct hb_client_options options;
    struct wire wire;
    nghttp2_session *session; /* NULL: not connected */
    struct list calls;        /* struct call, those with a stream */
    struct buf out;           /* bytes for the wire, from out_at on */
    size_t out_at;
    mono_t heard_at; /* the latest bytes */
    int wake_fd;
    bool heard;      /* the server has spoken HTTP/2 on this connection */
    bool going_away; /* the server takes no further calls on this connection */
    bool introduced; /* it was told who we are */
    uint64_t n_connections;
};

mono_t peer_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (mono_t)t.tv_sec * MONO_S + t.tv_nsec;
}

struct peer *peer_new(const struct hb_client_options *o)
{
    struct peer *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->options = *o;
    if (p->options.address == NULL)
        p->options.address = DEFAULT_ADDRESS;
    p->wire.fd = -1;
    p->wake_fd = -1;
    list_init(&p->calls);
    return p;
}

mono_t peer_timeout(const struct peer *p)
{
    return p->options.timeout_ms > 0 ? p->options.timeout_ms * MONO_MS : DEFAULT_TIMEOUT;
}

void peer_set_wake(struct peer *p, int fd)
{
    p->wake_fd = fd;
}

/* ---- how a call ends ---- */

static void end_call(struct call *c, int status, const char *text)
{
    if (c->ended)
        return;
    c->ended = true;
    c->status = status;
    if (text != NULL && c->text.n == 0 && buf_append(&c->text, text, strlen(text)) < 0)
        buf_reset(&c->text);
}

static void leave_session(struct call *c)
{
    list_remove(&c->node);
    if (c->peer->session != NULL)
        nghttp2_session_set_stream_user_data(c->peer->session, c->stream_id, NULL);
    c->stream_id = 0;
}

static void hang_up(struct peer *p, const char *why)
{
    while (!list_empty(&p->calls)) {
        struct call *c = LIST_ENTRY(list_first(&p->calls), struct call, node);
        end_call(c, GRPC_UNAVAILABLE, why);
        leave_session(c);
    }
    nghttp2_session_del(p->session);
    p->session = NULL;
    wire_close(&p->wire);
    buf_fini(&p->out);
    p->out_at = 0;
    p->going_away = false;
    p->heard = false;
    p->introduced = false;
}

static void hang_up_lost(struct peer *p)
{
    hang_up(p, p->heard ? "the connection is lost"
                        : "the connection ended before the server spoke HTTP/2");
}

void peer_free(struct peer *p)
{
    if (p == NULL)
        return;
    hang_up(p, "the client was freed");
    free(p);
}

int call_error(const struct call *c, int status, struct hb_rpc_error *e)
{
    int code = status != 0 ? status : c->status;
    if (e != NULL) {
        e->status = code;
        snprintf(e->text, sizeof e->text, "%s at %s: %s%s%.*s", c->method, c->peer->options.address,
                 grpc_status_name((unsigned)code), c->text.n > 0 ? ": " : "", (int)c->text.n,
                 c->text.n > 0 ? c->text.p : "");
    }
    return code;
}

/* ---- nghttp2's callbacks ---- */

static struct call *call_of(nghttp2_session *s, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(s, stream_id);
}

static bool is_name(const uint8_t *p, size_t n, const char *name)
{
    return n == strlen(name) && memcmp(p, name, n) == 0;
}

/* What a proxy or another kind of server may answer instead (gRPC's own table). */
static int status_of_http(uint64_t http)
{
    switch (http) {
    case 400: return GRPC_INTERNAL;
    case 401: return GRPC_UNAUTHENTICATED;
    case 403: return GRPC_PERMISSION_DENIED;
    case 404: return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504: return GRPC_UNAVAILABLE;
    default: return GRPC_UNKNOWN;
    }
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                     size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags, void *ctx)
{
    uint64_t number;
    if (name[0] != ':' && name[0] != 'g')
        return 0; /* content-type and what else is not looked at */
    struct call *c = call_of(s, frame->hd.stream_id);
    if (c == NULL)
        return 0;
    if (is_name(name, n_name, "grpc-message")) {
        buf_reset(&c->text);
        if (buf_append(&c->text, value, n_value) == 0)
            c->text.n = grpc_percent_decode(c->text.p, c->text.n);
    } else if (is_name(name, n_name, "grpc-status")) {
        bool known = num_parse_u64((const char *)value, n_value, &number) == 0 && number <= 16;
        c->status = known ? (int)number : GRPC_UNKNOWN;
    } else if (is_name(name, n_name, ":status") && !is_name(value, n_value, "200")) {
        if (num_parse_u64((const char *)value, n_value, &number) == 0)
            c->status = status_of_http(number);
    }
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t n, void *ctx)
{
    struct call *c = call_of(s, stream_id);
    if (c != NULL && grpc_reader_feed(&c->in, data, n) < 0)
        end_call(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    return 0;
}

static int on_close(nghttp2_session *s, int32_t stream_id, uint32_t code, void *ctx)
{
    struct call *c = call_of(s, stream_id);
    if (c == NULL)
        return 0;
    if (code == NGHTTP2_REFUSED_STREAM)
        end_call(c, GRPC_UNAVAILABLE, "the server refused the stream");
    else if (c->status >= 0)
        end_call(c, c->status, NULL);
    else if (code == NGHTTP2_CANCEL)
        end_call(c, GRPC_CANCELLED, "the server cancelled the stream");
    else
        end_call(c, GRPC_INTERNAL, "the stream ended without a status");
    leave_session(c);
    return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *ctx)
{
    struct peer *p = ctx;
    p->heard = true;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        p->going_away = true;
    return 0;
}

static ssize_t on_read(nghttp2_session *s, int32_t stream_id, uint8_t *out, size_t n,
                       uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct call *c = source->ptr;
    size_t left = c->out.n - c->out_at;
    if (left == 0 && !c->out_ends)
        return NGHTTP2_ERR_DEFERRED;
    if (n > left)
        n = left;
    if (n > 0)
        memcpy(out, c->out.p + c->out_at, n);
    c->out_at += n;
    if (c->out_at == c->out.n) {
        buf_reset(&c->out);
        c->out_at = 0;
        if (c->out_ends)
            *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

/* ---- the connection ---- */

/* What is wanted of an answer's headers is looked at in on_header; streams that are over are over.
 */
static int session_of(struct peer *p, const nghttp2_session_callbacks *callbacks,
                      nghttp2_session **out)
{
    nghttp2_option *o;
    if (nghttp2_option_new(&o) != 0)
        return ERR_NOMEM;
    nghttp2_option_set_no_http_messaging(o, 1);
    nghttp2_option_set_no_closed_streams(o, 1);
    int r = nghttp2_session_client_new2(out, callbacks, p, o);
    nghttp2_option_del(o);
    return r;
}

static nghttp2_session *session_new(struct peer *p)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *s = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    int r = session_of(p, callbacks, &s);
    nghttp2_session_callbacks_del(callbacks);
    if (r != 0)
        return NULL;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
    };
    if (nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) != 0 ||
        nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES) != 0) {
        nghttp2_session_del(s);
        return NULL;
    }
    return s;
}

/* Collects what the session has to send; false when it is broken. */
static bool collect(struct peer *p)
{
    const uint8_t *data;
    ssize_t n;
    if (p->out_at == p->out.n) {
        buf_reset(&p->out);
        p->out_at = 0;
    }
    while (p->out.n < WINDOW_BYTES && (n = nghttp2_session_mem_send(p->session, &data)) != 0)
        if (n < 0 || buf_append(&p->out, data, (size_t)n) < 0)
            return false;
    return true;
}

static bool write_out(struct peer *p)
{
    do {
        if (!collect(p))
            return false;
        while (p->out_at < p->out.n) {
            ssize_t n = wire_write(&p->wire, p->out.p + p->out_at, p->out.n - p->out_at);
            if (n == WIRE_LATER)
                return true;
            if (n < 0)
                return false;
            p->out_at += (size_t)n;
        }
    } while (nghttp2_session_want_write(p->session));
    return nghttp2_session_want_read(p->session) != 0; /* else HTTP/2 was broken, and said so */
}

/* Reads what is there; false when the connection is over. */
static bool read_in(struct peer *p, bool patiently)
{
    uint8_t bytes[READ_BYTES];
    for (;;) {
        ssize_t n = patiently ? wire_read_patiently(&p->wire, bytes, sizeof bytes)
                              : wire_read(&p->wire, bytes, sizeof bytes);
        if (n == WIRE_LATER)
            return true;
        if (n < 0)
            return false;
        p->heard_at = peer_now();
        if (nghttp2_session_mem_recv(p->session, bytes, (size_t)n) < 0)
            return false;
        if ((size_t)n < sizeof bytes && p->wire.ssl == NULL)
            return true;
    }
}

/* While nothing was asked, nobody has listened: the server may have said goodbye. */
static void look_at_idle(struct peer *p)
{
    if (p->session == NULL || !list_empty(&p->calls))
        return;
    if (p->going_away || (peer_now() - p->heard_at > IDLE_FOR && !read_in(p, false)) ||
        p->going_away)
        hang_up_lost(p);
}

/* 0, or -1 with words in `why`. */
static int connect_peer(struct peer *p, mono_t until, char *why, size_t size)
{
    look_at_idle(p);
    if (p->session != NULL) {
        snprintf(why, size, "the server is going away");
        return p->going_away ? -1 : 0; /* not while other calls still run on it */
    }
    snprintf(why, size, "out of memory");
    if (dial(&p->options, until, &p->wire, why, size) < 0)
        return -1;
    p->session = session_new(p);
    if (p->session == NULL)
        wire_close(&p->wire);
    else
        p->n_connections++;
    return p->session != NULL ? 0 : -1;
}

bool peer_connected(struct peer *p)
{
    look_at_idle(p);
    return p->session != NULL;
}

uint64_t peer_connections(const struct peer *p)
{
    return p->n_connections;
}

/* For poll(): rounded up, and never more than an int holds. */
static int poll_ms(mono_t left)
{
    mono_t ms = left <= 0 ? 0 : left / MONO_MS + 1;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* A busy peer answers soon: waiting in recv() saves a poll() each time. Whoever wants to wake us up
 * waits that long at most. */
static bool may_wait_patiently(const struct peer *p, mono_t until)
{
    mono_t patience = DIAL_PATIENCE_MS * MONO_MS, now = peer_now();
    return p->wire.ssl == NULL && p->out_at == p->out.n && now - p->heard_at < patience &&
           (until == MONO_NEVER || until - now > patience);
}

/* One poll() and what follows from it. `until` is MONO_NEVER for no limit. Returns true when the
 * wake descriptor is readable. */
static bool turn(struct peer *p, mono_t until)
{
    if (!write_out(p)) {
        hang_up_lost(p);
        return false;
    }
    mono_t heard_at = p->heard_at;
    if (may_wait_patiently(p, until)) {
        if (!read_in(p, true))
            hang_up_lost(p);
        if (p->session == NULL || p->heard_at != heard_at)
            return false;
    }
    struct pollfd fds[2] = {
        {.fd = p->wire.fd, .events = (short)(POLLIN | (p->out_at < p->out.n ? POLLOUT : 0))},
        {.fd = p->wake_fd, .events = POLLIN}};
    int wait_ms = until != MONO_NEVER ? poll_ms(until - peer_now()) : -1;
    if (poll(fds, p->wake_fd >= 0 ? 2 : 1, wait_ms) < 0)
        return false;
    if (fds[0].revents != 0 && !read_in(p, false))
        hang_up_lost(p);
    return p->wake_fd >= 0 && fds[1].revents != 0;
}

void peer_sleep(const struct peer *p, mono_t for_ns)
{
    struct pollfd wake = {.fd = p->wake_fd, .events = POLLIN};
    mono_t until = peer_now() + for_ns;
    for (mono_t left = for_ns; left > 0; left = until - peer_now())
        if (poll(&wake, p->wake_fd >= 0 ? 1 : 0, poll_ms(left)) > 0)
            return;
}

/* ---- calls ---- */

/* `name` lives for ever; `value` is copied. */
static inline nghttp2_nv field(const char *name, const char *value)
{
    union {
        const char *text;
        uint8_t *bytes;
    } n = {.text = name}, v = {.text = value}; /* nghttp2 does not write to them */
    return (nghttp2_nv){n.bytes, v.bytes, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

static inline nghttp2_nv constant(const char *name, const char *value)
{
    nghttp2_nv nv = field(name, value);
    nv.flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    return nv;
}

/* "Submit" is one of the broker's; a path is itself. */
static void put_path(char *out, size_t size, const char *method)
{
    size_t n = strlen(method), n_service = method[0] == '/' ? 0 : sizeof SERVICE - 1;
    if (n > size - 1 - n_service)
        n = size - 1 - n_service;
    memcpy(out, SERVICE, n_service);
    memcpy(out + n_service, method, n);
    out[n_service + n] = '\0';
}

/* "Bearer ..." from the first line of the token file; "" when none is configured. */
static int read_token(const struct peer *p, char *out, size_t size, char *why, size_t n_why)
{
    out[0] = '\0';
    if (p->options.token_file == NULL)
        return 0;
    char line[TOKEN_BYTES] = "";
    FILE *f = fopen(p->options.token_file, "re");
    if (f == NULL || fgets(line, sizeof line, f) == NULL || line[strcspn(line, "\r\n")] == '\0') {
        snprintf(why, n_why, "cannot read a token from '%s'", p->options.token_file);
        if (f != NULL)
            fclose(f);
        return -1;
    }
    fclose(f);
    line[strcspn(line, "\r\n")] = '\0';
    snprintf(out, size, "Bearer %s", line);
    return 0;
}

static int submit_stream(struct call *c, mono_t until, const char *bearer)
{
    struct peer *p = c->peer;
    char path[128], timeout[12];
    put_path(path, sizeof path, c->method);
    nghttp2_nv fields[9] = {
        constant(":method", "POST"), constant(":scheme", p->wire.ssl != NULL ? "https" : "http"),
        field(":path", path),        constant(":authority", p->options.address),
        constant("te", "trailers"),  constant("content-type", "application/grpc"),
    };
    size_t n = 6;
    if (!p->introduced) /* once a connection: it costs both sides time with each call */
        fields[n++] = constant("user-agent", "harbinger-c");
    p->introduced = true;
    if (until != MONO_NEVER) {
        mono_t left = until - peer_now();
        grpc_timeout_format(left > MONO_MS ? left : MONO_MS, timeout);
        fields[n++] = field("grpc-timeout", timeout);
    }
    if (bearer[0] != '\0')
        fields[n++] = field("authorization", bearer);
    nghttp2_data_provider body = {.source.ptr = c, .read_callback = on_read};
    return nghttp2_submit_request(p->session, NULL, fields, n, &body, c);
}

int call_start(struct call *c, struct peer *p, const char *method, mono_t until,
               struct hb_rpc_error *e)
{
    char why[256] = "", bearer[TOKEN_BYTES + 8];
    *c = (struct call){.peer = p, .method = method, .status = -1, .in.max = MESSAGE_MAX};
    list_init(&c->node);
    mono_t connect_until = until != MONO_NEVER ? until : peer_now() + peer_timeout(p);
    int status = GRPC_UNAVAILABLE;
    if (read_token(p, bearer, sizeof bearer, why, sizeof why) < 0)
        status = GRPC_UNAUTHENTICATED;
    else if (connect_peer(p, connect_until, why, sizeof why) == 0) {
        c->stream_id = submit_stream(c, until, bearer);
        if (c->stream_id > 0) {
            list_push_back(&p->calls, &c->node);
            return HB_RPC_OK;
        }
        status = GRPC_INTERNAL;
        snprintf(why, sizeof why, "%s", nghttp2_strerror(c->stream_id));
    }
    c->stream_id = 0;
    end_call(c, status, why);
    call_error(c, 0, e);
    call_fini(c);
    return status;
}

void call_send(struct call *c, const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    if (c->ended || c->stream_id == 0)
        return;
    uint8_t *at = n <= UINT32_MAX ? (uint8_t *)buf_extend(&c->out, GRPC_PREFIX + n) : NULL;
    if (at != NULL) {
        grpc_put_prefix(at, (uint32_t)n);
        protobuf_c_message_pack(m, at + GRPC_PREFIX);
    } else {
        end_call(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    }
    nghttp2_session_resume_data(c->peer->session, c->stream_id);
}

void call_send_end(struct call *c)
{
    c->out_ends = true;
    if (c->stream_id != 0)
        nghttp2_session_resume_data(c->peer->session, c->stream_id);
}

void call_queue(struct call *c)
{
    if (c->stream_id != 0 && !collect(c->peer))
        hang_up_lost(c->peer);
}

void call_flush(struct call *c)
{
    if (c->stream_id != 0 && !write_out(c->peer))
        hang_up_lost(c->peer);
}

size_t call_unsent(const struct call *c)
{
    return c->out.n - c->out_at;
}

/* Whether a message is there; what cannot be read as one ends the call. */
static bool next_message(struct call *c, struct text *message)
{
    switch (grpc_reader_next(&c->in, message)) {
    case GRPC_MESSAGE: return true;
    case GRPC_MORE: break;
    case GRPC_COMPRESSED: end_call(c, GRPC_INTERNAL, "the answer is compressed"); break;
    case GRPC_TOO_LONG: end_call(c, GRPC_RESOURCE_EXHAUSTED, "the answer is too long"); break;
    }
    return false;
}

enum call_event call_wait(struct call *c, mono_t until, struct text *message)
{
    for (;;) {
        if (next_message(c, message))
            return CALL_MESSAGE;
        if (c->ended)
            return CALL_ENDED;
        if (turn(c->peer, until))
            return next_message(c, message) ? CALL_MESSAGE : CALL_WOKEN;
        if (!c->ended && until != MONO_NEVER && peer_now() >= until)
            return next_message(c, message) ? CALL_MESSAGE : CALL_LATE;
    }
}

void call_fini(struct call *c)
{
    if (c->peer == NULL)
        return;
    if (c->stream_id != 0) {
        struct peer *p = c->peer;
        int32_t id = c->stream_id;
        leave_session(c);
        nghttp2_submit_rst_stream(p->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        if (!write_out(p))
            hang_up_lost(p);
    }
    buf_fini(&c->out);
    buf_fini(&c->text);
    grpc_reader_fini(&c->in);
    c->peer = NULL;
}
