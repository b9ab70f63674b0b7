#include "http/http.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_CONNECTIONS 64
#define DEFAULT_TIMEOUT     (5 * MONO_S)
#define DEFAULT_HEAD_BYTES  8192
#define BACKLOG             512
#define CROWDED_FOR         (100 * MONO_MS) /* what a client may take for its request even then */

struct http {
    struct event_base *base;
    struct http_options options; /* with the defaults filled in */
    struct evconnlistener *listener;
    struct event *resume; /* accepting again after connections or descriptors ran out */
    struct list connections;
    struct http_stats stats;
    char address[64];
    uint16_t port;
};

struct connection {
    struct list node;
    struct http *http;
    struct bufferevent *io;
    struct event *deadline;
    bool replied;
    bool had_time;    /* it may be cut when another one needs the room */
    bool client_done; /* it has closed its sending side */
};

/* What was asked for; borrows the head. */
struct request {
    const char *method, *path;
    size_t n_method, n_path;
};

struct reply {
    int status;
    const char *content_type;
    const char *extra; /* further header lines, or "" */
    struct buf body;
};

static void connection_free(struct connection *c)
{
    struct http *h = c->http;
    list_remove(&c->node);
    if (c->deadline != NULL)
        event_free(c->deadline);
    if (c->io != NULL)
        bufferevent_free(c->io);
    free(c);
    h->stats.connections--;
    if (h->stats.connections + 1 == h->options.max_connections) {
        (void)evtimer_del(h->resume);
        evconnlistener_enable(h->listener);
    }
}

static const char *status_words(int status)
{
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
    }
}

/* "METHOD SP PATH[?QUERY] SP HTTP/1.x"; false when it is not of that form. */
static bool parse_request(const char *head, size_t n, struct request *out)
{
    const char *end = memchr(head, '\n', n);
    const char *stop = end != NULL ? end : head + n;
    if (stop > head && stop[-1] == '\r')
        stop--;
    const char *first = memchr(head, ' ', (size_t)(stop - head));
    const char *second = first != NULL ? memchr(first + 1, ' ', (size_t)(stop - first - 1)) : NULL;
    if (second == NULL || first == head || first[1] != '/' ||
        stop - second != sizeof " HTTP/1.1" - 1 || memcmp(second, " HTTP/1.", 8) != 0)
        return false;
    const char *query = memchr(first, '?', (size_t)(second - first));
    const char *path_end = query != NULL ? query : second;
    *out =
        (struct request){head, first + 1, (size_t)(first - head), (size_t)(path_end - first - 1)};
    return true;
}

static bool equals(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

static int list_paths(const struct http *h, const char *title, struct buf *body)
{
    int r = buf_printf(body, "%s\n\n", title);
    for (size_t i = 0; r == 0 && i < h->options.n_routes; i++)
        r = buf_printf(body, "%s\n", h->options.routes[i].path);
    return r;
}

static const struct http_route *find_route(const struct http *h, const struct request *q)
{
    for (size_t i = 0; i < h->options.n_routes; i++)
        if (equals(q->path, q->n_path, h->options.routes[i].path))
            return &h->options.routes[i];
    return NULL;
}

/* Status and body of a well-formed request. */
static void answer(struct http *h, const struct request *q, struct reply *a)
{
    const struct http_route *route = find_route(h, q);
    int r;
    if (!equals(q->method, q->n_method, "GET") && !equals(q->method, q->n_method, "HEAD")) {
        a->status = 405;
        a->extra = "Allow: GET, HEAD\r\n";
        r = buf_printf(&a->body, "only GET and HEAD\n");
    } else if (route != NULL) {
        a->content_type = route->content_type;
        a->status = r = route->fill(h->options.ctx, &a->body);
    } else if (equals(q->path, q->n_path, "/")) {
        a->status = 200;
        r = list_paths(h, "harbingerd", &a->body);
    } else {
        a->status = 404;
        r = list_paths(h, "no such path; there are:", &a->body);
    }
    if (r >= 0)
        return;
    a->status = 500;
    a->content_type = "text/plain";
    buf_reset(&a->body);
    log_event(h->options.log, LOG_ERROR, "http.failed", "path=" LOG_Q " reason=" LOG_Q,
              route != NULL ? route->path : "/", err_name(r));
}

/* HEAD gets the headers of GET, Content-Length included, and no body (RFC 9110, 9.3.2). */
static int queue_reply(struct connection *c, const struct reply *a, bool with_body)
{
    struct evbuffer *out = bufferevent_get_output(c->io);
    if (evbuffer_add_printf(out,
                            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                            "Cache-Control: no-store\r\nConnection: close\r\n%s\r\n",
                            a->status, status_words(a->status), a->content_type, a->body.n,
                            a->extra) < 0)
        return ERR_NOMEM;
    if (with_body && a->body.n > 0 && evbuffer_add(out, a->body.p, a->body.n) < 0)
        return ERR_NOMEM;
    return 0;
}

/* The connection is freed when even the reply cannot be queued. */
static void respond(struct connection *c, int status, const struct request *q)
{
    struct reply a = {.status = status, .content_type = "text/plain", .extra = ""};
    int r = 0;
    c->replied = true;
    c->http->stats.replied++;
    if (q != NULL)
        answer(c->http, q, &a);
    else
        r = buf_printf(&a.body, "%s\n", status_words(status));
    struct evbuffer *in = bufferevent_get_input(c->io);
    evbuffer_drain(in, evbuffer_get_length(in));
    if (r == 0)
        r = queue_reply(c, &a, q == NULL || !equals(q->method, q->n_method, "HEAD"));
    buf_fini(&a.body);
    if (r < 0)
        connection_free(c);
}

/* The length of the head with its blank line, 0 while it is incomplete. A bare LF is taken as a
 * line's end too. */
static size_t head_length(struct evbuffer *in)
{
    struct evbuffer_ptr crlf = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    struct evbuffer_ptr lf = evbuffer_search(in, "\n\n", 2, NULL);
    if (crlf.pos >= 0 && (lf.pos < 0 || crlf.pos < lf.pos))
        return (size_t)crlf.pos + 4;
    return lf.pos >= 0 ? (size_t)lf.pos + 2 : 0;
}

static void on_read(struct bufferevent *io, void *ctx)
{
    struct connection *c = ctx;
    struct evbuffer *in = bufferevent_get_input(io);
    size_t n_in = evbuffer_get_length(in), limit = c->http->options.max_head_bytes;
    if (c->replied) {
        evbuffer_drain(in, n_in);
        return;
    }
    size_t n = head_length(in);
    if (n == 0 && n_in < limit)
        return;
    struct request q;
    const char *head =
        n > 0 && n <= limit ? (const char *)evbuffer_pullup(in, (ev_ssize_t)n) : NULL;
    if (head == NULL)
        respond(c, 431, NULL);
    else if (!parse_request(head, n, &q))
        respond(c, 400, NULL);
    else
        respond(c, 200, &q);
}

/* All is handed to the kernel: say that nothing follows, and let the client close first. */
static void on_write(struct bufferevent *io, void *ctx)
{
    struct connection *c = ctx;
    if (c->replied && !c->client_done)
        (void)shutdown(bufferevent_getfd(io), SHUT_WR);
    else if (c->replied)
        connection_free(c);
}

static void on_event(struct bufferevent *io, short what, void *ctx)
{
    struct connection *c = ctx;
    c->client_done = true;
    /* A client that closes its sending side after the request still wants the reply. */
    if ((what & BEV_EVENT_EOF) == 0 || !c->replied ||
        evbuffer_get_length(bufferevent_get_output(io)) == 0)
        connection_free(c);
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct connection *c = ctx;
    c->http->stats.timed_out++;
    connection_free(c);
}

static struct timeval timeval_of(mono_t ns)
{
    return (struct timeval){.tv_sec = ns / MONO_S, .tv_usec = ns % MONO_S / MONO_US};
}

static void pause_accepting(struct http *h, mono_t duration)
{
    struct timeval limit = timeval_of(duration);
    h->stats.paused++;
    evconnlistener_disable(h->listener);
    (void)evtimer_add(h->resume, &limit);
}

static void on_resume(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct http *h = ctx;
    for (struct list *node = h->connections.next; node != &h->connections; node = node->next)
        LIST_ENTRY(node, struct connection, node)->had_time = true;
    evconnlistener_enable(h->listener);
}

/* Whom to cut: the oldest one that has not asked yet, else the oldest; NULL while all of them are
 * too young, so that a crowd of honest clients is served in turn. */
static struct connection *find_displaced(struct http *h)
{
    struct connection *oldest = NULL;
    for (struct list *node = h->connections.next; node != &h->connections; node = node->next) {
        struct connection *c = LIST_ENTRY(node, struct connection, node);
        if (c->had_time && !c->replied)
            return c;
        if (c->had_time && oldest == NULL)
            oldest = c;
    }
    return oldest;
}

static void make_room(struct http *h)
{
    struct connection *c = find_displaced(h);
    if (c == NULL)
        return;
    h->stats.displaced++;
    connection_free(c);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *peer,
                      int n, void *ctx)
{
    (void)peer;
    (void)n;
    struct http *h = ctx;
    struct connection *c = calloc(1, sizeof *c);
    struct timeval limit = timeval_of(h->options.timeout);
    h->stats.accepted++;
    if (c == NULL) {
        close(fd);
        return;
    }
    if (h->stats.connections >= h->options.max_connections)
        make_room(h);
    c->http = h;
    list_push_back(&h->connections, &c->node);
    if (++h->stats.connections >= h->options.max_connections && find_displaced(h) == NULL)
        pause_accepting(h, CROWDED_FOR);
    c->io = bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (c->io == NULL)
        close(fd);
    c->deadline = evtimer_new(h->base, on_deadline, c);
    if (c->io == NULL || c->deadline == NULL || evtimer_add(c->deadline, &limit) < 0) {
        connection_free(c);
        return;
    }
    /* on_read looks after each read, so a client cannot make us hold more than two heads. A watermark
     * would bound it too, but libevent dereferences NULL when it finds no memory for one. */
    (void)bufferevent_set_max_single_read(c->io, h->options.max_head_bytes);
    bufferevent_setcb(c->io, on_read, on_write, on_event, c);
    if (bufferevent_enable(c->io, EV_READ | EV_WRITE) < 0)
        connection_free(c);
}

/* Out of descriptors: the socket stays readable, so without a pause the loop would spin. */
static void on_accept_error(struct evconnlistener *listener, void *ctx)
{
    struct http *h = ctx;
    const char *reason = evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR());
    log_event(h->options.log, LOG_WARN, "http.accept_failed", "reason=" LOG_Q, reason);
    pause_accepting(h, MONO_S);
}

int http_parse_address(const char *text, struct sockaddr_storage *out, socklen_t *out_len,
                       struct err *e)
{
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN];
    uint64_t port;
    if (colon == NULL || num_parse_u64(colon + 1, strlen(colon + 1), &port) < 0 || port > 65535)
        return err_set(e, ERR_INVALID, "'%s' is not ADDRESS:PORT", text);
    bool is_v6 = text[0] == '[' && colon[-1] == ']';
    size_t n = (size_t)(colon - text) - (is_v6 ? 2 : 0);
    snprintf(host, sizeof host, "%.*s", (int)(n < sizeof host ? n : sizeof host), text + is_v6);
    if (strcmp(host, "localhost") == 0)
        snprintf(host, sizeof host, "127.0.0.1");
    *out = (struct sockaddr_storage){0};
    if (is_v6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
        *out_len = sizeof *v6;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1)
            return 0;
    } else {
        struct sockaddr_in *v4 = (struct sockaddr_in *)out;
        *out_len = sizeof *v4;
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        if (inet_pton(AF_INET, host, &v4->sin_addr) == 1)
            return 0;
    }
    return err_set(e, ERR_INVALID, "'%s' is not an IP address in '%s' (IPv6 stands in brackets)",
                   host, text);
}

static void read_address(struct http *h)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.v6 = {0}};
    socklen_t n = sizeof at;
    char host[INET6_ADDRSTRLEN] = "?";
    if (getsockname(evconnlistener_get_fd(h->listener), &at.any, &n) < 0)
        return;
    bool is_v6 = at.any.sa_family == AF_INET6;
    h->port = ntohs(is_v6 ? at.v6.sin6_port : at.v4.sin_port);
    if (is_v6)
        (void)inet_ntop(AF_INET6, &at.v6.sin6_addr, host, sizeof host);
    else
        (void)inet_ntop(AF_INET, &at.v4.sin_addr, host, sizeof host);
    snprintf(h->address, sizeof h->address, is_v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)h->port);
}

static void set_options(struct http *h, const struct http_options *options)
{
    h->options = *options;
    if (h->options.max_connections == 0)
        h->options.max_connections = DEFAULT_CONNECTIONS;
    if (h->options.timeout == 0)
        h->options.timeout = DEFAULT_TIMEOUT;
    if (h->options.max_head_bytes == 0)
        h->options.max_head_bytes = DEFAULT_HEAD_BYTES;
}

int http_new(struct event_base *base, const struct http_options *options, struct http **out,
             struct err *e)
{
    struct sockaddr_storage at;
    socklen_t n = 0;
    int r = http_parse_address(options->listen, &at, &n, e);
    if (r < 0)
        return err_prefix(e, "http.listen");
    struct http *h = calloc(1, sizeof *h);
    if (h == NULL)
        return err_set(e, ERR_NOMEM, "http.listen: %s", err_name(ERR_NOMEM));
    h->base = base;
    list_init(&h->connections);
    set_options(h, options);
    h->resume = evtimer_new(base, on_resume, h);
    h->listener = evconnlistener_new_bind(
        base, on_accept, h, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
        BACKLOG, (struct sockaddr *)&at, (int)n);
    if (h->resume == NULL || h->listener == NULL) {
        r = h->resume == NULL ? ERR_NOMEM : ERR_SYSTEM;
        (void)err_set(e, r, "http.listen: cannot listen on %s: %s", options->listen,
                      h->resume == NULL ? err_name(r) : strerror(errno));
        http_free(h);
        return r;
    }
    evconnlistener_set_error_cb(h->listener, on_accept_error);
    read_address(h);
    *out = h;
    return 0;
}

void http_free(struct http *h)
{
    if (h == NULL)
        return;
    for (struct list *node = list_first(&h->connections); node != NULL;
         node = list_first(&h->connections))
        connection_free(LIST_ENTRY(node, struct connection, node));
    if (h->listener != NULL)
        evconnlistener_free(h->listener);
    if (h->resume != NULL)
        event_free(h->resume);
    free(h);
}

const char *http_address(const struct http *h)
{
    return h->address;
}

uint16_t http_port(const struct http *h)
{
    return h->port;
}

struct http_stats http_stats(const struct http *h)
{
    return h->stats;
}
