#include "proxy/server.h"

#include "amqp/uri.h"
#include "base/num.h"
#include "proxy/conn.h"
#include "proxy/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/dns.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG          512
#define ACCEPT_PAUSE_SEC 1
#define LINES_A_SECOND   5

/* ---- turns ---- */

void proxy_server_wake(struct proxy_server *s)
{
    event_active(s->end_of_turn, EV_TIMEOUT, 0);
}

void proxy_server_look_at_clock(struct proxy_server *s)
{
    s->world.now = s->world.station.now(s->world.station.ctx);
}

void proxy_server_pump(struct proxy_server *s)
{
    proxy_server_wake(s);
}

static void on_returns(evutil_socket_t fd, short what, void *ctx)
{
    proxy_server_wake(ctx);
}

static void end_returns(struct proxy_server *s)
{
    mono_t next = world_end_returns(&s->world);
    if (next == MONO_NEVER || evtimer_pending(s->returns, NULL))
        return;
    struct timeval wait = {.tv_usec = (suseconds_t)((next - s->world.now) / MONO_US) + 1};
    if (evtimer_add(s->returns, &wait) < 0)
        proxy_server_wake(s);
}

/* What this turn has left to do: deliver, send, tell the daemon. Sending can make room, and so lead
 * to another round in the next turn. */
static void on_end_of_turn(evutil_socket_t fd, short what, void *ctx)
{
    struct proxy_server *s = ctx;
    struct list now, *node;
    proxy_server_look_at_clock(s);
    end_returns(s);
    bool more = world_pump(&s->world);
    list_init(&now);
    while ((node = list_first(&s->world.dirty)) != NULL) {
        list_remove(node);
        list_push_back(&now, node);
    }
    while ((node = list_first(&now)) != NULL) {
        struct session *session = LIST_ENTRY(node, struct session, dirty);
        proxy_conn_flush(CONTAINER_OF(session, struct proxy_conn, session));
    }
    if (s->world.used)
        s->world.station.touched(s->world.station.ctx);
    s->world.used = false;
    if (more || !list_empty(&s->world.dirty))
        proxy_server_wake(s);
}

bool proxy_server_may_log(struct proxy_server *s)
{
    if (s->world.now - s->logged_at >= MONO_S) {
        if (s->n_unlogged > 0)
            log_event(s->world.options.log, LOG_WARN, "proxy.unlogged", "lines=%u", s->n_unlogged);
        s->logged_at = s->world.now;
        s->n_logged = s->n_unlogged = 0;
    }
    if (s->n_logged < LINES_A_SECOND) {
        s->n_logged++;
        return true;
    }
    s->n_unlogged++;
    return false;
}

/* ---- listening ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static void name_address(const union address *a, char out[PROXY_PEER_BYTES])
{
    char text[INET6_ADDRSTRLEN] = "?";
    bool is_six = a->any.sa_family == AF_INET6;
    unsigned port = ntohs(is_six ? a->six.sin6_port : a->four.sin_port);
    if (is_six)
        (void)inet_ntop(AF_INET6, &a->six.sin6_addr, text, sizeof text);
    else
        (void)inet_ntop(AF_INET, &a->four.sin_addr, text, sizeof text);
    snprintf(out, PROXY_PEER_BYTES, is_six ? "[%s]:%u" : "%s:%u", text, port);
}

static bool is_loopback(const union address *a)
{
    if (a->any.sa_family == AF_INET)
        return ntohl(a->four.sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &a->six.sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

static union address address_of(const struct sockaddr *from, size_t n)
{
    union address a = {.six = {0}};
    memcpy(&a, from, n < sizeof a ? n : sizeof a);
    return a;
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int n,
                      void *ctx)
{
    struct proxy_server *s = ctx;
    union address a = address_of(from, (size_t)n);
    char peer[PROXY_PEER_BYTES];
    name_address(&a, peer);
    proxy_server_look_at_clock(s);
    s->world.stats.accepted++;
    if (s->world.stats.connections < s->world.options.max_connections) {
        proxy_conn_new(s, fd, peer, is_loopback(&a));
        return;
    }
    s->world.stats.refused++;
    if (proxy_server_may_log(s))
        log_event(s->world.options.log, LOG_WARN, "proxy.full", "peer=%s connections=%u", peer,
                  s->world.stats.connections);
    evutil_closesocket(fd);
}

/* Out of descriptors: later. The listener would spin. */
static void on_resume(evutil_socket_t fd, short what, void *ctx)
{
    struct proxy_server *s = ctx;
    if (s->listener != NULL)
        evconnlistener_enable(s->listener);
}

static void on_accept_error(struct evconnlistener *l, void *ctx)
{
    struct proxy_server *s = ctx;
    struct timeval pause = {.tv_sec = ACCEPT_PAUSE_SEC};
    log_event(s->world.options.log, LOG_WARN, "proxy.accept", "reason=" LOG_Q,
              strerror(EVUTIL_SOCKET_ERROR()));
    evconnlistener_disable(l);
    (void)evtimer_add(s->resume, &pause);
}

/* ADDRESS:PORT or [ADDRESS]:PORT, in numbers; port 0 lets the system choose. 0 or ERR_INVALID. */
static int parse_address(const char *text, union address *out, int *n)
{
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN];
    uint64_t port;
    if (colon == NULL || num_parse_u64(colon + 1, strlen(colon + 1), &port) < 0 || port > 65535)
        return ERR_INVALID;
    bool six = text[0] == '[' && colon > text && colon[-1] == ']';
    int length = (int)(colon - text) - (six ? 2 : 0);
    if (length < 0 || length >= (int)sizeof host)
        return ERR_INVALID;
    snprintf(host, sizeof host, "%.*s", length, text + six);
    *out = (union address){.six = {0}};
    if (six) {
        out->six.sin6_family = AF_INET6;
        out->six.sin6_port = htons((uint16_t)port);
        *n = sizeof out->six;
        return inet_pton(AF_INET6, host, &out->six.sin6_addr) == 1 ? 0 : ERR_INVALID;
    }
    out->four.sin_family = AF_INET;
    out->four.sin_port = htons((uint16_t)port);
    *n = sizeof out->four;
    return inet_pton(AF_INET, host, &out->four.sin_addr) == 1 ? 0 : ERR_INVALID;
}

static int start_listening(struct proxy_server *s, struct err *e)
{
    const char *where = s->world.options.listen;
    union address a;
    int n;
    if (parse_address(where, &a, &n) < 0)
        return err_set(e, ERR_INVALID, "'%s' is not of the form ADDRESS:PORT, in numbers", where);
    unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
    s->listener = evconnlistener_new_bind(s->base, on_accept, s, flags, BACKLOG, &a.any, n);
    if (s->listener == NULL)
        return err_set(e, ERR_SYSTEM, "cannot listen on %s: %s", where, strerror(errno));
    evconnlistener_set_error_cb(s->listener, on_accept_error);
    socklen_t size = sizeof a;
    if (getsockname(evconnlistener_get_fd(s->listener), &a.any, &size) == 0)
        name_address(&a, s->address);
    return 0;
}

/* ---- life ---- */

static struct proxy_options with_defaults(const struct proxy_options *given)
{
    struct proxy_options o = *given;
    if (o.max_connections == 0)
        o.max_connections = 1024;
    if (o.max_channels == 0)
        o.max_channels = 2047;
    if (o.max_consumers == 0)
        o.max_consumers = 1024;
    if (o.max_connection_bytes == 0)
        o.max_connection_bytes = 1 << 20;
    if (o.unlimited_window == 0)
        o.unlimited_window = 250;
    if (o.connect_timeout == 0)
        o.connect_timeout = 5 * MONO_S;
    if (o.handshake_timeout == 0)
        o.handshake_timeout = 10 * MONO_S;
    if (o.early_ack == 0)
        o.early_ack = MONO_MS;
    o.upstreams = NULL;
    return o;
}

static bool is_number(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static int copy_hosts(struct proxy_server *s, const struct proxy_options *o, struct err *e)
{
    bool names = false;
    if (o->n_upstreams == 0 || o->n_upstreams > PROXY_UPSTREAMS_MAX)
        return err_set(e, ERR_INVALID, "upstreams: 1 to %d of them", PROXY_UPSTREAMS_MAX);
    for (size_t i = 0; i < o->n_upstreams; i++) {
        snprintf(s->hosts[i].host, sizeof s->hosts[i].host, "%s", o->upstreams[i].host);
        s->hosts[i].port = o->upstreams[i].port;
        names = names || !is_number(s->hosts[i].host);
    }
    if (!names)
        return 0;
    s->dns = evdns_base_new(s->base,
                            EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (s->dns == NULL && (s->dns = evdns_base_new(s->base, EVDNS_BASE_DISABLE_WHEN_INACTIVE)))
        evdns_base_load_hosts(s->dns, "/etc/hosts");
    return s->dns != NULL ? 0 : err_set(e, ERR_NOMEM, "%s", err_name(ERR_NOMEM));
}

int proxy_server_reload(struct proxy_server *s, struct err *e)
{
    const struct proxy_options *o = &s->world.options;
    SSL_CTX *tls = NULL, *upstream_tls = NULL;
    int r = proxy_tls_listener(o->certificate, o->key, &tls, e);
    if (r == 0 && o->upstream_tls)
        r = proxy_tls_upstream(o->upstream_ca, &upstream_tls, e);
    if (r < 0) {
        SSL_CTX_free(tls);
        return r;
    }
    SSL_CTX_free(s->tls);
    SSL_CTX_free(s->upstream_tls);
    s->tls = tls;
    s->upstream_tls = upstream_tls;
    return 0;
}

int proxy_server_new(struct event_base *base, const struct proxy_options *o,
                     const struct proxy_station *station, struct proxy_server **out, struct err *e)
{
    struct proxy_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, ERR_NOMEM, "%s", err_name(ERR_NOMEM));
    struct proxy_options options = with_defaults(o);
    s->base = base;
    world_init(&s->world, &options, station);
    list_init(&s->conns);
    s->end_of_turn = event_new(base, -1, 0, on_end_of_turn, s);
    s->returns = evtimer_new(base, on_returns, s);
    s->resume = evtimer_new(base, on_resume, s);
    int r = s->end_of_turn && s->returns && s->resume ? 0 : ERR_NOMEM;
    if (r < 0)
        err_set(e, r, "%s", err_name(r));
    else
        r = copy_hosts(s, o, e);
    if (r == 0)
        r = proxy_server_reload(s, e);
    if (r == 0)
        r = start_listening(s, e);
    if (r < 0) {
        proxy_server_free(s);
        return r;
    }
    *out = s;
    return 0;
}

void proxy_server_free(struct proxy_server *s)
{
    struct list *node;
    if (s == NULL)
        return;
    if (s->listener != NULL)
        evconnlistener_free(s->listener);
    while ((node = list_first(&s->conns)) != NULL)
        proxy_conn_free(LIST_ENTRY(node, struct proxy_conn, node));
    if (s->end_of_turn != NULL)
        event_free(s->end_of_turn);
    if (s->returns != NULL)
        event_free(s->returns);
    if (s->resume != NULL)
        event_free(s->resume);
    if (s->dns != NULL)
        evdns_base_free(s->dns, 1);
    SSL_CTX_free(s->tls);
    SSL_CTX_free(s->upstream_tls);
    world_fini(&s->world);
    free(s);
}

void proxy_server_shut(struct proxy_server *s)
{
    if (s->world.shut)
        return;
    s->world.shut = true;
    evconnlistener_free(s->listener);
    s->listener = NULL;
    for (struct list *node = s->conns.next; node != &s->conns; node = node->next)
        session_touch(&LIST_ENTRY(node, struct proxy_conn, node)->session);
    proxy_server_wake(s);
}

/* ---- what goes on ---- */

const char *proxy_server_address(const struct proxy_server *s)
{
    return s->address;
}

struct proxy_stats proxy_server_stats(const struct proxy_server *s)
{
    return s->world.stats;
}

static struct proxy_client_row row_of(const struct proxy_conn *c)
{
    const struct session *s = &c->session;
    return (struct proxy_client_row){
        .peer = c->peer,
        .user = s->user,
        .product = s->product,
        .state = sm_name(&s->sm),
        .channels = s->n_open,
        .consumers = s->n_takers,
        .window = session_window(s),
        .in_flight = s->in_flight,
        .delivered = s->delivered,
        .held_bytes = session_held_bytes(s),
        .paused_client = c->stream[SIDE_CLIENT].paused,
        .paused_upstream = c->stream[SIDE_UPSTREAM].paused,
    };
}

size_t proxy_server_clients(const struct proxy_server *s, size_t offset, size_t limit,
                            void (*each)(void *ctx, const struct proxy_client_row *row), void *ctx)
{
    size_t i = 0, n = 0;
    for (const struct list *node = s->conns.next; node != &s->conns && n < limit;
         node = node->next, i++) {
        if (i < offset)
            continue;
        struct proxy_client_row row =
            row_of((const struct proxy_conn *)(const void *)((const char *)node -
                                                             offsetof(struct proxy_conn, node)));
        each(ctx, &row);
        n++;
    }
    return n;
}
