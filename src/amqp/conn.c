#include "amqp/conn.h"

#include "amqp/channel.h"
#include "amqp/clock.h"
#include "amqp/codec.h"
#include "amqp/conn_internal.h"
#include "base/err.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/util.h>

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const struct sm_state states[] = {
    [CONN_IDLE] = {"idle", SM_TO(CONN_RESOLVING) | SM_TO(CONN_CLOSED)},
    [CONN_RESOLVING] = {"resolving", SM_TO(CONN_CONNECTING) | SM_TO(CONN_CLOSED)},
    [CONN_CONNECTING] = {"connecting", SM_TO(CONN_START) | SM_TO(CONN_CLOSED)},
    [CONN_START] = {"start", SM_TO(CONN_TUNE) | SM_TO(CONN_CLOSED)},
    [CONN_TUNE] = {"tune", SM_TO(CONN_OPEN) | SM_TO(CONN_CLOSED)},
    [CONN_OPEN] = {"open", SM_TO(CONN_UP) | SM_TO(CONN_CLOSED)},
    [CONN_UP] = {"up", SM_TO(CONN_CLOSING) | SM_TO(CONN_CLOSED)},
    [CONN_CLOSING] = {"closing", SM_TO(CONN_CLOSED)},
    [CONN_CLOSED] = {"closed", 0},
};

enum {
    RX_BYTES = 2 * CODEC_FRAME_MAX, /* one whole frame always fits behind a part of another */
    LIBEVENT_READ = 4096,           /* what libevent 2.1 reads at a time */
    READS_PER_TURN = 4,             /* then the other events of the loop get their turn */
    KEEP_OUTPUT_BYTES = 1 << 20,    /* a larger output buffer is given back after use */
};

static void connect_first(struct conn *c);

/* Life. */

static void drop_socket(struct conn *c)
{
    if (c->query != NULL)
        c->query->conn = NULL;
    c->query = NULL;
    if (c->bev != NULL)
        bufferevent_free(c->bev);
    c->bev = NULL;
    if (c->addresses != NULL)
        evutil_freeaddrinfo(c->addresses);
    c->addresses = c->address = NULL;
    /* Fails what is asked; the answer comes from the loop later and does not touch the base. (That
     * of a cancelled question would: libevent locks the base that it asked.) */
    if (c->dns != NULL)
        evdns_base_free(c->dns, 1);
    c->dns = NULL;
}

static void free_events(struct conn *c)
{
    struct event *events[] = {c->deadline, c->beat, c->turn};
    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        if (events[i] != NULL)
            event_free(events[i]);
}

static void release(struct conn *c)
{
    for (unsigned i = 1; i <= CONN_CHANNELS; i++)
        if (c->channels[i] != NULL)
            channel_orphan(c->channels[i]);
    drop_socket(c);
    free_events(c);
    empty_amqp_pool(&c->pool);
    buf_fini(&c->tx);
    free(c->rx);
    explicit_bzero(c->password, sizeof c->password);
    free(c);
}

static void leave(struct conn *c)
{
    if (life_leave(&c->life))
        release(c);
}

void conn_free(struct conn *c)
{
    if (c == NULL)
        return;
    bool now = life_end(&c->life);
    if (now)
        release(c);
}

static void arm(struct event *e, mono_t for_ns)
{
    struct timeval tv = clock_timeval(for_ns);
    evtimer_add(e, &tv);
}

/* The end. */

void conn_finish(struct conn *c, const struct loss *why)
{
    if (c->sm.state == CONN_CLOSED)
        return;
    struct loss kept = *why; /* `why` may live in what a callback frees */
    sm_move(&c->sm, CONN_CLOSED);
    drop_socket(c);
    evtimer_del(c->deadline);
    evtimer_del(c->beat);
    event_del(c->turn);
    explicit_bzero(c->password, sizeof c->password);
    for (unsigned i = 1; i <= CONN_CHANNELS && !c->life.dead; i++)
        if (c->channels[i] != NULL)
            channel_lost(c->channels[i], &kept);
    if (c->blocked && !c->life.dead && c->o.on_blocked != NULL)
        c->o.on_blocked(c->o.ctx, false, "");
    c->blocked = false;
    if (!c->life.dead)
        c->o.on_closed(c->o.ctx, &kept);
}

void conn_fail(struct conn *c, enum loss_kind kind, const char *fmt, ...)
{
    struct loss why = {.kind = kind};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why.text, sizeof why.text, fmt, ap);
    va_end(ap);
    conn_finish(c, &why);
}

void conn_abort(struct conn *c, const struct loss *why)
{
    if (c->sm.state == CONN_CLOSED || c->abort_pending)
        return;
    c->abort_pending = true;
    c->abort_why = *why;
    event_active(c->turn, EV_TIMEOUT, 0);
}

/* Out. */

struct buf *conn_output(struct conn *c)
{
    return &c->tx;
}

void conn_wake(struct conn *c)
{
    if (!c->turn_pending && c->sm.state != CONN_CLOSED) {
        c->turn_pending = true;
        event_active(c->turn, EV_TIMEOUT, 0);
    }
}

/* Straight to the socket while nothing waits before it: saves libevent's round of epoll calls per
 * turn. Errors are left for libevent to see. */
static size_t send_now(struct conn *c)
{
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) > 0)
        return 0;
    ssize_t n = send(bufferevent_getfd(c->bev), c->tx.p, c->tx.n, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n > 0 ? (size_t)n : 0;
}

void conn_push_output(struct conn *c)
{
    if (c->tx.n == 0 || c->bev == NULL)
        return;
    size_t sent = send_now(c);
    if (sent < c->tx.n && bufferevent_write(c->bev, c->tx.p + sent, c->tx.n - sent) < 0) {
        conn_fail(c, LOSS_NOMEM, "no memory for %zu bytes of output", c->tx.n);
        return;
    }
    c->bytes_out += c->tx.n;
    c->wrote = true;
    if (c->tx.cap > KEEP_OUTPUT_BYTES)
        buf_fini(&c->tx);
    buf_reset(&c->tx);
}

static void begin_close(struct conn *c)
{
    if (conn_say_close(c) < 0) {
        conn_fail(c, LOSS_CLOSED, "no memory to say so");
        return;
    }
    sm_move(&c->sm, CONN_CLOSING);
    arm(c->deadline, c->o.close_limit_for);
}

/* The end of a turn's work: the channels' last words, then all of it to the socket at once. */
static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;
    (void)fd;
    (void)what;
    life_enter(&c->life);
    c->turn_pending = false;
    if (c->abort_pending)
        conn_finish(c, &c->abort_why);
    if (c->resolved && c->sm.state == CONN_RESOLVING)
        connect_first(c);
    for (unsigned i = 1; i <= CONN_CHANNELS && c->sm.state == CONN_UP && !c->life.dead; i++)
        if (c->channels[i] != NULL)
            channel_flush(c->channels[i], c->close_pending);
    if (c->close_pending && c->sm.state == CONN_UP && !c->life.dead)
        begin_close(c);
    if (c->sm.state != CONN_CLOSED && !c->life.dead)
        conn_push_output(c);
    leave(c);
}

/* In. */

static int handle_frame(struct conn *c, const struct codec_frame *f)
{
    if (f->type == AMQP_FRAME_HEARTBEAT)
        return f->channel == 0 ? 0 : ERR_PROTOCOL;
    if (f->channel == 0)
        return f->type == AMQP_FRAME_METHOD ? conn_handle(c, f) : ERR_PROTOCOL;
    if (f->channel > CONN_CHANNELS || c->sm.state < CONN_UP)
        return ERR_PROTOCOL;
    /* A channel that we have given up meanwhile may still be talking only if we said close: then it
     * is there. */
    struct channel *ch = c->channels[f->channel];
    return ch != NULL ? channel_input(ch, f, &c->pool) : ERR_PROTOCOL;
}

/* Room for the frame that has begun to come in: more than usual for a large one, and back again. */
static bool fit_frame(struct conn *c)
{
    size_t need = codec_frame_bytes((struct text){c->rx, c->n_rx});
    size_t want = need > RX_BYTES ? need : RX_BYTES;
    if (want == c->rx_bytes || c->n_rx > want)
        return true;
    char *rx = realloc(c->rx, want);
    if (rx != NULL) {
        c->rx = rx;
        c->rx_bytes = want;
    }
    return c->rx_bytes >= need;
}

/* Handles all whole frames in rx; what is left moves to its start. */
static void handle_input(struct conn *c)
{
    size_t at = 0;
    while (c->sm.state != CONN_CLOSED && !c->life.dead) {
        struct codec_frame f;
        size_t used;
        int r = codec_split((struct text){c->rx + at, c->n_rx - at}, c->frame_max, &f, &used);
        if (r == CODEC_MORE)
            break;
        if (r == 0) {
            at += used;
            r = handle_frame(c, &f);
            recycle_amqp_pool(&c->pool);
        }
        if (r < 0 && !c->life.dead)
            conn_fail(c, r == ERR_NOMEM ? LOSS_NOMEM : LOSS_PROTOCOL,
                      "in state %s: a frame that %s", sm_name(&c->sm),
                      r == ERR_NOMEM ? "found no memory" : "makes no sense");
    }
    c->n_rx -= at;
    if (at > 0 && c->n_rx > 0)
        memmove(c->rx, c->rx + at, c->n_rx);
    if (c->sm.state != CONN_CLOSED && !c->life.dead && !fit_frame(c))
        conn_fail(c, LOSS_NOMEM, "no memory for a frame");
}

static size_t fill_from_socket(struct conn *c)
{
    /* libevent 2.1 reads at most 4 KiB at a time. Its buffer is empty here, so what we read next
     * follows on; errors and the end of the stream are left for it to see. */
    ssize_t n =
        recv(bufferevent_getfd(c->bev), c->rx + c->n_rx, c->rx_bytes - c->n_rx, MSG_DONTWAIT);
    return n > 0 ? (size_t)n : 0;
}

static void take_in(struct conn *c, size_t n)
{
    c->n_rx += n;
    c->bytes_in += n;
    c->heard = true;
    handle_input(c);
}

static bool may_go_on(const struct conn *c)
{
    return c->sm.state != CONN_CLOSED && !c->life.dead;
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct conn *c = arg;
    size_t n, total = 0;
    life_enter(&c->life);
    while (may_go_on(c) &&
           (n = bufferevent_read(bev, c->rx + c->n_rx, c->rx_bytes - c->n_rx)) > 0) {
        total += n;
        take_in(c, n);
    }
    /* Less than libevent asks for: the socket was empty. */
    bool more = total >= LIBEVENT_READ;
    for (int i = 0; more && i < READS_PER_TURN && may_go_on(c); i++) {
        size_t room = c->rx_bytes - c->n_rx;
        n = fill_from_socket(c);
        more = n == room;
        if (n > 0)
            take_in(c, n);
    }
    leave(c);
}

/* Connecting. */

static void connect_next(struct conn *c);

static void on_connected(struct conn *c)
{
    int yes = 1;
    setsockopt(bufferevent_getfd(c->bev), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    sm_move(&c->sm, CONN_START);
    if (buf_append(&c->tx, "AMQP\0\0\x09\x01", 8) < 0)
        conn_fail(c, LOSS_NOMEM, "no memory for the protocol header");
    else
        conn_push_output(c);
}

static void on_socket_error(struct conn *c, short what)
{
    int error = EVUTIL_SOCKET_ERROR();
    if (c->sm.state == CONN_CONNECTING) {
        c->connect_error = error;
        connect_next(c);
        return;
    }
    const char *words = (what & BEV_EVENT_EOF) != 0 ? "the broker closed the socket"
                                                    : evutil_socket_error_to_string(error);
    if (c->sm.state == CONN_CLOSING)
        conn_fail(c, LOSS_CLOSED, "%s", words);
    else if (c->sm.state == CONN_START)
        conn_fail(c, LOSS_CONNECT, "%s before it said a word", words);
    else
        conn_fail(c, LOSS_SOCKET, "%s (in state %s)", words, sm_name(&c->sm));
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct conn *c = arg;
    (void)bev;
    life_enter(&c->life);
    if ((what & BEV_EVENT_CONNECTED) != 0)
        on_connected(c);
    else if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) != 0)
        on_socket_error(c, what);
    leave(c);
}

/* Tries the next address; each attempt has a bufferevent of its own. */
static void connect_next(struct conn *c)
{
    if (c->bev != NULL)
        bufferevent_free(c->bev);
    c->bev = NULL;
    while (c->address != NULL) {
        struct evutil_addrinfo *a = c->address;
        c->address = a->ai_next;
        c->bev = bufferevent_socket_new(c->base, -1, BEV_OPT_CLOSE_ON_FREE);
        if (c->bev == NULL)
            break;
        bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
        bufferevent_set_max_single_write(c->bev, 1 << 20);
        if (bufferevent_socket_connect(c->bev, a->ai_addr, (int)a->ai_addrlen) == 0)
            return;
        c->connect_error = EVUTIL_SOCKET_ERROR();
        bufferevent_free(c->bev);
        c->bev = NULL;
    }
    conn_fail(c, LOSS_CONNECT, "%s port %u: %s", c->uri.host, c->uri.port,
              evutil_socket_error_to_string(c->connect_error));
}

/* May come from inside the call that asked, and the resolver is still on the stack: the turn goes
 * on with it. */
static void on_resolved(int error, struct evutil_addrinfo *addresses, void *arg)
{
    struct conn_query *query = arg;
    struct conn *c = query->conn;
    free(query);
    if (c == NULL) {
        if (addresses != NULL)
            evutil_freeaddrinfo(addresses);
        return;
    }
    c->query = NULL;
    c->resolved = true;
    c->resolve_error = error;
    c->addresses = c->address = addresses;
    conn_wake(c);
}

static void connect_first(struct conn *c)
{
    if (c->resolve_error != 0) {
        conn_fail(c, LOSS_CONNECT, "%s: %s", c->uri.host, evutil_gai_strerror(c->resolve_error));
        return;
    }
    sm_move(&c->sm, CONN_CONNECTING);
    c->connect_error = ENOENT;
    connect_next(c);
}

/* Nameservers are read anew for each connection: a container's may change. Without any, /etc/hosts
 * still answers. */
static struct evdns_base *make_dns(struct conn *c)
{
    struct evdns_base *dns = evdns_base_new(c->base, EVDNS_BASE_INITIALIZE_NAMESERVERS |
                                                         EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (dns == NULL && (dns = evdns_base_new(c->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE)) != NULL)
        evdns_base_load_hosts(dns, "/etc/hosts");
    return dns;
}

static void resolve(struct conn *c)
{
    char port[8];
    struct evutil_addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_protocol = IPPROTO_TCP,
        .ai_flags = EVUTIL_AI_NUMERICHOST | EVUTIL_AI_NUMERICSERV,
    };
    snprintf(port, sizeof port, "%u", c->uri.port);
    sm_move(&c->sm, CONN_RESOLVING);
    if (evutil_getaddrinfo(c->uri.host, port, &hints, &c->addresses) == 0) {
        c->address = c->addresses;
        connect_first(c);
        return;
    }
    hints.ai_flags = EVUTIL_AI_NUMERICSERV;
    c->dns = make_dns(c);
    c->query = malloc(sizeof *c->query);
    if (c->dns == NULL || c->query == NULL) {
        free(c->query);
        c->query = NULL;
        conn_fail(c, LOSS_NOMEM, "no resolver");
        return;
    }
    c->query->conn = c;
    (void)evdns_getaddrinfo(c->dns, c->uri.host, port, &hints, on_resolved, c->query);
}

/* Deadlines. */

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;
    (void)fd;
    (void)what;
    life_enter(&c->life);
    if (c->sm.state == CONN_IDLE) {
        arm(c->deadline, c->timeout_for);
        resolve(c);
    } else if (c->sm.state == CONN_CLOSING) {
        conn_fail(c, LOSS_CLOSED, "the broker did not answer the close in time");
    } else {
        conn_fail(c, LOSS_TIMEOUT, "no connection within the limit (in state %s)", sm_name(&c->sm));
    }
    leave(c);
}

/* Twice per heartbeat interval. Life is counted in ticks that heard nothing, not in clock time:
 * after a suspended process wakes, the bytes that wait in the socket get their chance to be read
 * before four ticks have gone. */
static void on_beat(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;
    (void)fd;
    (void)what;
    life_enter(&c->life);
    c->n_silent = c->heard ? 0 : c->n_silent + 1;
    c->heard = false;
    bool idle =
        !c->wrote && c->tx.n == 0 && evbuffer_get_length(bufferevent_get_output(c->bev)) == 0;
    c->wrote = false;
    if (c->n_silent >= 4)
        conn_fail(c, LOSS_HEARTBEAT, "nothing received for two heartbeat intervals of %d s",
                  c->heartbeat_s);
    else if (idle && codec_put_heartbeat(&c->tx) < 0)
        conn_fail(c, LOSS_NOMEM, "no memory for a heartbeat");
    else
        conn_push_output(c);
    leave(c);
}

void conn_start_beat(struct conn *c)
{
    struct timeval half = clock_timeval((mono_t)c->heartbeat_s * MONO_S / 2);
    if (c->heartbeat_s > 0)
        event_add(c->beat, &half);
}

/* For the owner. */

int conn_new(struct event_base *base, const struct conn_options *options, struct conn **out)
{
    const char *password = options->password != NULL ? options->password : options->uri->password;
    if (strlen(password) > CONN_PASSWORD_MAX)
        return ERR_INVALID;
    struct conn *c = calloc(1, sizeof *c);
    if (c == NULL)
        return ERR_NOMEM;
    sm_init(&c->sm, states, CONN_IDLE);
    c->base = base;
    c->o = *options;
    c->uri = *options->uri;
    c->frame_max = CODEC_FRAME_MAX;
    c->timeout_for = c->uri.connection_timeout_ms > 0 ? c->uri.connection_timeout_ms * MONO_MS
                                                      : options->connect_timeout_for;
    snprintf(c->name, sizeof c->name, "%s", options->name);
    snprintf(c->password, sizeof c->password, "%s", password);
    explicit_bzero(c->uri.password, sizeof c->uri.password);
    c->o.uri = NULL;
    c->o.password = c->o.name = NULL;
    init_amqp_pool(&c->pool, 4096);
    c->deadline = evtimer_new(base, on_deadline, c);
    c->beat = event_new(base, -1, EV_PERSIST, on_beat, c);
    c->turn = event_new(base, -1, 0, on_turn, c);
    c->rx = malloc(RX_BYTES);
    c->rx_bytes = RX_BYTES;
    if (c->deadline == NULL || c->beat == NULL || c->turn == NULL || c->rx == NULL) {
        release(c);
        return ERR_NOMEM;
    }
    *out = c;
    return 0;
}

void conn_start(struct conn *c)
{
    assert(c->sm.state == CONN_IDLE);
    arm(c->deadline, 0);
}

void conn_close(struct conn *c)
{
    if (c->sm.state == CONN_CLOSED || c->sm.state == CONN_CLOSING)
        return;
    if (c->sm.state != CONN_UP) {
        struct loss why = {.kind = LOSS_CLOSED};
        conn_abort(c, &why);
        return;
    }
    /* At the end of the turn: what the channels have gathered goes first. */
    c->close_pending = true;
    conn_wake(c);
}

bool conn_is_up(const struct conn *c)
{
    return c->sm.state == CONN_UP;
}

size_t conn_pending_bytes(const struct conn *c)
{
    return c->tx.n + (c->bev != NULL ? evbuffer_get_length(bufferevent_get_output(c->bev)) : 0);
}

uint64_t conn_bytes_in(const struct conn *c)
{
    return c->bytes_in;
}

uint64_t conn_bytes_out(const struct conn *c)
{
    return c->bytes_out;
}

uint32_t conn_frame_max(const struct conn *c)
{
    return c->frame_max;
}

uint16_t conn_attach(struct conn *c, struct channel *ch)
{
    for (uint16_t i = 1; c->sm.state == CONN_UP && i <= c->channel_max; i++) {
        if (c->channels[i] == NULL) {
            c->channels[i] = ch;
            return i;
        }
    }
    return 0;
}

void conn_detach(struct conn *c, uint16_t number)
{
    c->channels[number] = NULL;
}
