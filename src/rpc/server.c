#include "base/log.h"
#include "base/num.h"
#include "rpc/arena.h"
#include "rpc/rpc_internal.h"
#include "rpc/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG          512
#define DEFAULT_CONNS    1024
#define DEFAULT_STREAMS  2048
#define DEFAULT_MESSAGE  (4 << 20) /* gRPC's own */
#define DEFAULT_HELD     (16 << 20)
#define DEFAULT_PULL     (5 * MONO_S)
#define DEFAULT_IDLE     (900 * MONO_S)
#define ACCEPT_PAUSE_SEC 1

mono_t rpc_now(const struct rpc_server *s)
{
    return s->station.now(s->station.ctx);
}

void rpc_server_pump(struct rpc_server *s)
{
    if (s->pump)
        return;
    s->pump = true;
    event_active(s->end_of_turn, EV_TIMEOUT, 0);
}

/* What this turn has left to do: deliver, tell the daemon, send. Sending can make room, and so lead
 * to another pump in the next turn. */
static void on_end_of_turn(evutil_socket_t fd, short what, void *ctx)
{
    struct rpc_server *s = ctx;
    if (s->pump) {
        s->pump = false;
        if (!s->shut)
            rpc_pull_pump(s);
        s->station.touched(s->station.ctx);
    }
    struct list now;
    list_init(&now);
    while (!list_empty(&s->dirty)) {
        struct list *node = list_first(&s->dirty);
        list_remove(node);
        list_push_back(&now, node);
    }
    while (!list_empty(&now))
        rpc_conn_flush(LIST_ENTRY(list_first(&now), struct rpc_conn, dirty));
}

/* ---- listening ---- */

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *address, int n,
                      void *ctx)
{
    struct rpc_server *s = ctx;
    s->stats.accepted++;
    if (rpc_conn_new(s, fd) != NULL && s->stats.connections >= s->options.max_connections)
        evconnlistener_disable(l);
}

/* Out of descriptors: later. The listener would spin. */
static void on_resume(evutil_socket_t fd, short what, void *ctx)
{
    struct rpc_server *s = ctx;
    if (s->listener != NULL && s->stats.connections < s->options.max_connections)
        evconnlistener_enable(s->listener);
}

static void on_accept_error(struct evconnlistener *l, void *ctx)
{
    struct rpc_server *s = ctx;
    struct timeval pause = {.tv_sec = ACCEPT_PAUSE_SEC};
    int error = EVUTIL_SOCKET_ERROR();
    if (s->options.log != NULL)
        log_event(s->options.log, LOG_WARN, "rpc.accept", "reason=" LOG_Q, strerror(error));
    evconnlistener_disable(l);
    (void)evtimer_add(s->resume, &pause);
}

static void name_address(struct rpc_server *s)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at = {.six = {0}};
    socklen_t n = sizeof at;
    char text[INET6_ADDRSTRLEN] = "?";
    if (getsockname(evconnlistener_get_fd(s->listener), &at.any, &n) != 0)
        return;
    bool is_six = at.any.sa_family == AF_INET6;
    unsigned port = ntohs(is_six ? at.six.sin6_port : at.four.sin_port);
    if (is_six)
        (void)inet_ntop(AF_INET6, &at.six.sin6_addr, text, sizeof text);
    else
        (void)inet_ntop(AF_INET, &at.four.sin_addr, text, sizeof text);
    snprintf(s->address, sizeof s->address, is_six ? "[%s]:%u" : "%s:%u", text, port);
}

/* ADDRESS:PORT or [ADDRESS]:PORT, in numbers; port 0 lets the system choose. 0 or ERR_INVALID. */
static int parse_address(const char *text, struct sockaddr_storage *out, int *n)
{
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN];
    uint64_t port;
    if (colon == NULL || num_parse_u64(colon + 1, strlen(colon + 1), &port) < 0 || port > 65535)
        return ERR_INVALID;
    bool six = text[0] == '[' && colon[-1] == ']';
    int length = (int)(colon - text) - (six ? 2 : 0);
    if (length >= (int)sizeof host)
        return ERR_INVALID;
    snprintf(host, sizeof host, "%.*s", length, text + six);
    memset(out, 0, sizeof *out);
    if (six) {
        struct sockaddr_in6 *a = (struct sockaddr_in6 *)out;
        a->sin6_family = AF_INET6;
        a->sin6_port = htons((uint16_t)port);
        *n = sizeof *a;
        return inet_pton(AF_INET6, host, &a->sin6_addr) == 1 ? 0 : ERR_INVALID;
    }
    struct sockaddr_in *a = (struct sockaddr_in *)out;
    a->sin_family = AF_INET;
    a->sin_port = htons((uint16_t)port);
    *n = sizeof *a;
    return inet_pton(AF_INET, host, &a->sin_addr) == 1 ? 0 : ERR_INVALID;
}

static int start_listening(struct rpc_server *s, struct err *e)
{
    struct sockaddr_storage address;
    int n;
    if (parse_address(s->options.listen, &address, &n) < 0)
        return err_set(e, ERR_INVALID, "'%s' is not of the form ADDRESS:PORT, in numbers",
                       s->options.listen);
    unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
    s->listener = evconnlistener_new_bind(s->base, on_accept, s, flags, BACKLOG,
                                          (struct sockaddr *)&address, n);
    if (s->listener == NULL)
        return err_set(e, ERR_SYSTEM, "cannot listen on %s: %s", s->options.listen,
                       strerror(errno));
    evconnlistener_set_error_cb(s->listener, on_accept_error);
    name_address(s);
    return 0;
}

/* ---- token ---- */

static int read_token(const char *path, char out[RPC_TOKEN_BYTES], struct err *e)
{
    out[0] = '\0';
    if (path == NULL || path[0] == '\0')
        return 0;
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return err_set(e, ERR_SYSTEM, "token file '%s': %s", path, strerror(errno));
    char *line = fgets(out, RPC_TOKEN_BYTES, f);
    fclose(f);
    if (line != NULL)
        out[strcspn(out, "\r\n")] = '\0';
    if (line == NULL || out[0] == '\0')
        return err_set(e, ERR_INVALID, "token file '%s': its first line is empty", path);
    return 0;
}

int rpc_server_reload(struct rpc_server *s, struct err *e)
{
    char token[RPC_TOKEN_BYTES];
    SSL_CTX *tls = NULL;
    int r = read_token(s->options.token_file, token, e);
    if (r == 0)
        r = tls_server_context(s->options.certificate, s->options.key, &tls, e);
    if (r < 0)
        return r;
    memcpy(s->token, token, sizeof token);
    SSL_CTX_free(s->tls);
    s->tls = tls;
    return 0;
}

/* ---- life ---- */

static void fill_in_defaults(struct rpc_options *o)
{
    if (o->max_connections == 0)
        o->max_connections = DEFAULT_CONNS;
    if (o->max_streams == 0)
        o->max_streams = DEFAULT_STREAMS;
    if (o->max_message_bytes == 0)
        o->max_message_bytes = DEFAULT_MESSAGE;
    if (o->max_connection_bytes == 0)
        o->max_connection_bytes = DEFAULT_HELD;
    if (o->max_pull_wait == 0)
        o->max_pull_wait = DEFAULT_PULL;
    if (o->idle_timeout == 0)
        o->idle_timeout = DEFAULT_IDLE;
}

int rpc_server_new(struct event_base *base, const struct rpc_options *o,
                   const struct rpc_station *station, struct rpc_server **out, struct err *e)
{
    struct rpc_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, ERR_NOMEM, "%s", err_name(ERR_NOMEM));
    s->base = base;
    s->options = *o;
    s->station = *station;
    fill_in_defaults(&s->options);
    list_init(&s->conns);
    list_init(&s->dirty);
    list_init(&s->parked);
    list_init(&s->workers);
    list_init(&s->watchers);
    s->arena = arena_new();
    s->end_of_turn = event_new(base, -1, 0, on_end_of_turn, s);
    s->resume = evtimer_new(base, on_resume, s);
    int r = s->arena != NULL && s->end_of_turn != NULL && s->resume != NULL ? 0 : ERR_NOMEM;
    if (r < 0)
        err_set(e, r, "%s", err_name(r));
    else
        r = rpc_server_reload(s, e);
    if (r == 0)
        r = start_listening(s, e);
    if (r < 0) {
        rpc_server_free(s);
        return r;
    }
    *out = s;
    return 0;
}

void rpc_server_free(struct rpc_server *s)
{
    if (s == NULL)
        return;
    if (s->listener != NULL)
        evconnlistener_free(s->listener);
    s->listener = NULL;
    while (!list_empty(&s->conns))
        rpc_conn_free(LIST_ENTRY(list_first(&s->conns), struct rpc_conn, node));
    if (s->end_of_turn != NULL)
        event_free(s->end_of_turn);
    if (s->resume != NULL)
        event_free(s->resume);
    SSL_CTX_free(s->tls);
    arena_free(s->arena);
    buf_fini(&s->headers);
    OPENSSL_cleanse(s->token, sizeof s->token);
    free(s);
}

void rpc_server_shut(struct rpc_server *s)
{
    if (s->shut)
        return;
    s->shut = true;
    evconnlistener_free(s->listener);
    s->listener = NULL;
    rpc_pull_release(s);
    rpc_work_release(s);
    rpc_health_tell(s);
    for (struct list *node = s->conns.next; node != &s->conns; node = node->next)
        rpc_conn_shut(LIST_ENTRY(node, struct rpc_conn, node));
}

const char *rpc_server_address(const struct rpc_server *s)
{
    return s->address;
}

struct rpc_stats rpc_server_stats(const struct rpc_server *s)
{
    return s->stats;
}
