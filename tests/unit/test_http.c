#include "http/http.h"

#include "base/buf.h"
#include "base/err.h"
#include "lib/testmain.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LARGE (4u << 20)

static int fill_hello(void *ctx, struct buf *body)
{
    int *calls = ctx;
    ++*calls;
    return buf_printf(body, "hello\n") < 0 ? ERR_NOMEM : 200;
}

static int fill_unready(void *ctx, struct buf *body)
{
    (void)ctx;
    return buf_printf(body, "not ready\n") < 0 ? ERR_NOMEM : 503;
}

static int fill_failed(void *ctx, struct buf *body)
{
    (void)ctx;
    int r = buf_printf(body, "half a b");
    return r < 0 ? r : ERR_NOMEM;
}

static int fill_large(void *ctx, struct buf *body)
{
    (void)ctx;
    static const char block[4096] = {'x'};
    for (size_t n = 0; n < LARGE; n += sizeof block)
        if (buf_append(body, block, sizeof block) < 0)
            return ERR_NOMEM;
    return 200;
}

static const struct http_route routes[] = {
    {"/metrics", "text/plain; version=0.0.4", fill_hello},
    {"/readyz", "text/plain", fill_unready},
    {"/broken", "application/json", fill_failed},
    {"/large", "text/plain", fill_large},
};

static struct event_base *base;
static struct http *server;
static int calls;

static void start(struct http_options options)
{
    struct err e = {0};
    signal(SIGPIPE, SIG_IGN);
    calls = 0;
    options.listen = options.listen != NULL ? options.listen : "127.0.0.1:0";
    options.routes = routes;
    options.n_routes = ARRAY_SIZE(routes);
    options.ctx = &calls;
    base = event_base_new();
    ck_assert_msg(http_new(base, &options, &server, &e) == 0, "%s", e.msg);
}

static void stop(void)
{
    http_free(server);
    event_base_free(base);
}

/* A client on the same loop: sends its text, keeps what comes back. */
struct client {
    struct bufferevent *io;
    struct buf reply;
    bool closed, failed;
};

static void client_read(struct bufferevent *io, void *ctx)
{
    struct client *c = ctx;
    struct evbuffer *in = bufferevent_get_input(io);
    size_t n = evbuffer_get_length(in);
    ck_assert_int_eq(buf_append(&c->reply, evbuffer_pullup(in, -1), n), 0);
    evbuffer_drain(in, n);
}

static void client_event(struct bufferevent *io, short what, void *ctx)
{
    struct client *c = ctx;
    if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) == 0)
        return;
    client_read(io, ctx);
    c->closed = true;
    c->failed = (what & BEV_EVENT_ERROR) != 0;
}

static void client_open(struct client *c, const char *send, size_t n)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(http_port(server))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *c = (struct client){0};
    c->io = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(c->io, client_read, NULL, client_event, c);
    ck_assert_int_eq(bufferevent_enable(c->io, EV_READ | EV_WRITE), 0);
    ck_assert_int_eq(bufferevent_socket_connect(c->io, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(evbuffer_add(bufferevent_get_output(c->io), send, n), 0);
}

static void client_close(struct client *c)
{
    bufferevent_free(c->io);
    buf_fini(&c->reply);
}

static void on_guard(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    *(bool *)ctx = true;
}

/* Runs the loop until the clients' connections are all closed by the server; fails after 20 s. */
static void run_until_closed(const struct client *c, size_t n)
{
    bool late = false;
    struct event *guard = evtimer_new(base, on_guard, &late);
    struct timeval limit = {.tv_sec = 20};
    evtimer_add(guard, &limit);
    for (size_t i = 0; i < n; i++)
        while (!c[i].closed && !late)
            ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    event_free(guard);
    ck_assert(!late);
}

static struct client ask(const char *request)
{
    struct client c;
    client_open(&c, request, strlen(request));
    /* `c` moves when it is returned: only after its callbacks are done. */
    run_until_closed(&c, 1);
    return c;
}

static bool begins(const struct client *c, const char *text)
{
    return c->reply.p != NULL && strncmp(c->reply.p, text, strlen(text)) == 0;
}

static const char *body(const struct client *c)
{
    const char *end = strstr(c->reply.p, "\r\n\r\n");
    return end != NULL ? end + 4 : "";
}

/* A route's status, type and body arrive whole, with a length. */
START_TEST(routes_are_answered)
{
    start((struct http_options){0});
    struct client c = ask("GET /metrics HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\n\r\n");
    ck_assert_str_eq(
        c.reply.p,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: 6\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\nhello\n");
    client_close(&c);
    c = ask("GET /readyz?verbose=1 HTTP/1.0\n\n");
    ck_assert(begins(&c, "HTTP/1.1 503 Service Unavailable\r\n"));
    ck_assert_str_eq(body(&c), "not ready\n");
    client_close(&c);
    stop();
}
END_TEST

/* HEAD gets GET's headers and nothing behind them. */
START_TEST(head_has_no_body)
{
    start((struct http_options){0});
    struct client c = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(c.reply.p, "Content-Length: 6\r\n"));
    ck_assert_str_eq(body(&c), "");
    client_close(&c);
    stop();
}
END_TEST

/* What is not there is answered with what is. */
START_TEST(index_and_unknown_paths_list_the_paths)
{
    static const char list[] = "/metrics\n/readyz\n/broken\n/large\n";
    start((struct http_options){0});
    struct client c = ask("GET / HTTP/1.1\r\n\r\n");
    ck_assert(begins(&c, "HTTP/1.1 200 OK\r\n"));
    ck_assert_ptr_nonnull(strstr(body(&c), list));
    client_close(&c);
    c = ask("GET /metric HTTP/1.1\r\n\r\n");
    ck_assert(begins(&c, "HTTP/1.1 404 Not Found\r\n"));
    ck_assert_ptr_nonnull(strstr(body(&c), list));
    client_close(&c);
    stop();
}
END_TEST

/* Other methods change nothing and are told which ones there are. */
START_TEST(other_methods_are_refused)
{
    static const char *const requests[] = {"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
                                           "get /metrics HTTP/1.1\r\n\r\n",
                                           "DELETE / HTTP/1.1\r\n\r\n"};
    start((struct http_options){0});
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        struct client c = ask(requests[i]);
        ck_assert(begins(&c, "HTTP/1.1 405 Method Not Allowed\r\n"));
        ck_assert_ptr_nonnull(strstr(c.reply.p, "Allow: GET, HEAD\r\n"));
        client_close(&c);
    }
    ck_assert_int_eq(calls, 0);
    stop();
}
END_TEST

/* A handler that fails half-way shows nothing of what it had written. */
START_TEST(failed_handlers_are_500)
{
    start((struct http_options){0});
    struct client c = ask("GET /broken HTTP/1.1\r\n\r\n");
    ck_assert(begins(&c, "HTTP/1.1 500 Internal Server Error\r\n"));
    ck_assert_str_eq(body(&c), "");
    client_close(&c);
    stop();
}
END_TEST

/* Garbage is answered with 400 and never reaches a handler. */
START_TEST(garbage_is_refused)
{
    static const char *const requests[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET /metrics\r\n\r\n",
        "GET /metrics HTTP/2.0\r\n\r\n",
        " /metrics HTTP/1.1\r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n",
        "GET metrics HTTP/1.1\r\n\r\n",
        "GET /metrics HTTP/1.1 x\r\n\r\n",
        "\x16\x03\x01\x02\n\n",
        "GET http://x/metrics HTTP/1.1\r\n\r\n",
    };
    start((struct http_options){0});
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
        struct client c = ask(requests[i]);
        ck_assert_msg(begins(&c, "HTTP/1.1 400 Bad Request\r\n"), "%zu: %s", i, c.reply.p);
        client_close(&c);
    }
    ck_assert_int_eq(calls, 0);
    stop();
}
END_TEST

/* A head without end is cut off at the limit, with a reply that the client can still read. */
START_TEST(large_heads_are_refused)
{
    struct client c;
    struct buf request = {0};
    start((struct http_options){.max_head_bytes = 1000});
    ck_assert_int_eq(buf_printf(&request, "GET /metrics HTTP/1.1\r\nX: "), 0);
    while (request.n < 100000)
        ck_assert_int_eq(buf_append(&request, "yyyyyyyy", 8), 0);
    client_open(&c, request.p, request.n);
    run_until_closed(&c, 1);
    ck_assert(begins(&c, "HTTP/1.1 431 Request Header Fields Too Large\r\n"));
    client_close(&c);
    ck_assert_int_eq(calls, 0);
    buf_fini(&request);
    stop();
}
END_TEST

/* A request may come in pieces of any size. */
START_TEST(requests_may_come_byte_by_byte)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    struct client c;
    start((struct http_options){0});
    client_open(&c, request, 1);
    for (size_t i = 1; i < sizeof request - 1; i++) {
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
        ck_assert_int_eq(evbuffer_add(bufferevent_get_output(c.io), request + i, 1), 0);
    }
    run_until_closed(&c, 1);
    ck_assert_str_eq(body(&c), "hello\n");
    client_close(&c);
    stop();
}
END_TEST

/* Whoever says nothing, or does not read its reply, is cut off; meanwhile others are served. */
START_TEST(slow_clients_are_cut_off_and_hold_nobody_up)
{
    static const char large[] = "GET /large HTTP/1.1\r\n\r\n";
    struct client silent, lazy;
    start((struct http_options){.timeout = 300 * MONO_MS});
    client_open(&silent, "GET /met", 8);
    client_open(&lazy, large, sizeof large - 1);
    bufferevent_disable(lazy.io, EV_READ);
    struct client c = ask("GET /metrics HTTP/1.1\r\n\r\n");
    ck_assert_str_eq(body(&c), "hello\n");
    client_close(&c);
    ck_assert_uint_eq(http_stats(server).timed_out, 0);
    run_until_closed(&silent, 1);
    ck_assert_uint_eq(silent.reply.n, 0);
    while (http_stats(server).timed_out < 2)
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    ck_assert_uint_eq(http_stats(server).connections, 0);
    client_close(&silent);
    client_close(&lazy);
    stop();
}
END_TEST

/* A large reply arrives whole, also when the client has closed its sending side. */
START_TEST(large_replies_arrive_whole)
{
    struct client c = {0};
    start((struct http_options){0});
    c = ask("GET /large HTTP/1.1\r\n\r\n");
    ck_assert_uint_eq(c.reply.n - (size_t)(body(&c) - c.reply.p), LARGE);
    client_close(&c);
    client_open(&c, "GET /large HTTP/1.1\r\n\r\n", 23);
    while (http_stats(server).replied < 2)
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    ck_assert_int_eq(shutdown(bufferevent_getfd(c.io), SHUT_WR), 0);
    run_until_closed(&c, 1);
    ck_assert_uint_eq(c.reply.n - (size_t)(body(&c) - c.reply.p), LARGE);
    client_close(&c);
    stop();
}
END_TEST

/* More clients than connections are allowed wait, and all are served. */
START_TEST(many_clients_are_served_within_the_limit)
{
    enum { N = 300 };
    static struct client c[N];
    static const char request[] = "GET /metrics HTTP/1.1\r\n\r\n";
    start((struct http_options){.max_connections = 16});
    for (size_t i = 0; i < N; i++)
        client_open(&c[i], request, sizeof request - 1);
    for (size_t i = 0; i < N; i++) {
        run_until_closed(&c[i], 1);
        ck_assert_uint_le(http_stats(server).connections, 16);
        ck_assert_str_eq(body(&c[i]), "hello\n");
        client_close(&c[i]);
    }
    ck_assert_uint_eq(http_stats(server).replied, N);
    ck_assert_uint_gt(http_stats(server).paused, 0);
    stop();
}
END_TEST

static const char large[] = "GET /large HTTP/1.1\r\n\r\n";

/* A client that asks for more than the kernel buffers, and does not read it. */
static void open_lazy(struct client *c)
{
    client_open(c, large, sizeof large - 1);
    bufferevent_disable(c->io, EV_READ);
}

/* 200 connections that never finish their request, or never read a reply, hold a probe up for about
 * a second at most. */
START_TEST(slow_clients_do_not_lock_a_probe_out)
{
    enum { N = 200, N_LAZY = 30 };
    static struct client slow[N];
    struct timeval began, ended, took;
    start((struct http_options){0});
    for (size_t i = 0; i < N_LAZY; i++)
        open_lazy(&slow[i]);
    while (http_stats(server).replied < N_LAZY)
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    for (size_t i = N_LAZY; i < N; i++)
        client_open(&slow[i], "GET /met", 8);
    evutil_gettimeofday(&began, NULL);
    struct client c = ask("GET /metrics HTTP/1.1\r\n\r\n");
    evutil_gettimeofday(&ended, NULL);
    evutil_timersub(&ended, &began, &took);
    ck_assert_str_eq(body(&c), "hello\n");
    ck_assert_msg(took.tv_sec < 2, "%ld.%06ld s", (long)took.tv_sec, (long)took.tv_usec);
    ck_assert_uint_eq(http_stats(server).timed_out, 0);
    ck_assert_uint_ge(http_stats(server).displaced, N + 1 - 64);
    ck_assert_uint_le(http_stats(server).connections, 64);
    client_close(&c);
    for (size_t i = 0; i < N; i++)
        client_close(&slow[i]);
    stop();
}
END_TEST

/* Room is made by one that has not asked, though others are older: their replies arrive whole. */
START_TEST(who_has_not_asked_makes_room_first)
{
    enum { N_LAZY = 3 };
    struct client lazy[N_LAZY], silent;
    start((struct http_options){.max_connections = N_LAZY + 1});
    for (size_t i = 0; i < N_LAZY; i++)
        open_lazy(&lazy[i]);
    while (http_stats(server).replied < N_LAZY)
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    client_open(&silent, "GET /met", 8);
    struct client c = ask("GET /metrics HTTP/1.1\r\n\r\n");
    ck_assert_str_eq(body(&c), "hello\n");
    ck_assert_uint_eq(http_stats(server).displaced, 1);
    for (size_t i = 0; i < N_LAZY; i++)
        bufferevent_enable(lazy[i].io, EV_READ);
    run_until_closed(lazy, N_LAZY);
    for (size_t i = 0; i < N_LAZY; i++) {
        ck_assert_uint_eq(lazy[i].reply.n - (size_t)(body(&lazy[i]) - lazy[i].reply.p), LARGE);
        client_close(&lazy[i]);
    }
    run_until_closed(&silent, 1);
    ck_assert_uint_eq(http_stats(server).timed_out, 0);
    client_close(&c);
    client_close(&silent);
    stop();
}
END_TEST

/* When all have asked, and do not read the reply, the oldest of them makes room. */
START_TEST(who_does_not_read_makes_room_too)
{
    enum { N = 4 };
    struct client lazy[N];
    start((struct http_options){.max_connections = N});
    for (size_t i = 0; i < N; i++)
        open_lazy(&lazy[i]);
    while (http_stats(server).replied < N)
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    struct client c = ask("GET /metrics HTTP/1.1\r\n\r\n");
    ck_assert_str_eq(body(&c), "hello\n");
    ck_assert_uint_eq(http_stats(server).displaced, 1);
    ck_assert_uint_eq(http_stats(server).timed_out, 0);
    client_close(&c);
    for (size_t i = 0; i < N; i++)
        client_close(&lazy[i]);
    stop();
}
END_TEST

/* Without descriptors accepting pauses instead of spinning, and goes on when there are some again.
 */
START_TEST(exhausted_descriptors_pause_accepting)
{
    struct rlimit before, low;
    struct client c;
    start((struct http_options){0});
    client_open(&c, "GET /metrics HTTP/1.1\r\n\r\n", 25);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)bufferevent_getfd(c.io) + 1;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (http_stats(server).paused == 0)
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    run_until_closed(&c, 1);
    ck_assert_str_eq(body(&c), "hello\n");
    ck_assert_uint_eq(http_stats(server).paused, 1);
    client_close(&c);
    stop();
}
END_TEST

/* Freeing the server cuts what is open, and frees it. */
START_TEST(free_cuts_connections)
{
    struct client c;
    start((struct http_options){0});
    client_open(&c, "GET ", 4);
    while (http_stats(server).connections == 0)
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE), 0);
    http_free(server);
    run_until_closed(&c, 1);
    client_close(&c);
    event_base_free(base);
}
END_TEST

/* Addresses are numbers with a port; anything else is refused with the reason. */
START_TEST(addresses_are_strict)
{
    static const char *const good[] = {"127.0.0.1:9690", "0.0.0.0:0", "[::1]:0", "[::]:65535",
                                       "localhost:80"};
    static const char *const bad[] = {
        "",
        "9690",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "::1:80",
        "[::1]",
        "[::1:80",
        "::1]:80",
        "example.org:80",
        "[127.0.0.1]:80",
        ":80",
        "[]:80",
        "1.2.3.4.5.6.7.8.9.1.2.3.4.5.6.7.8.9.1.2.3.4.5.6.7.8.9.1.2.3:80",
        "127.1:80"};
    struct sockaddr_storage at;
    socklen_t n;
    struct err e = {0};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        ck_assert_msg(http_parse_address(good[i], &at, &n, &e) == 0, "%s", good[i]);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(http_parse_address(bad[i], &at, &n, &e) == ERR_INVALID, "%s", bad[i]);
}
END_TEST

/* Port 0 becomes a real one; a port that is taken is an error with the address in it. */
START_TEST(ports_are_real)
{
    char expected[64], taken[64];
    struct http *second = NULL;
    struct err e = {0};
    start((struct http_options){0});
    ck_assert_uint_ne(http_port(server), 0);
    snprintf(expected, sizeof expected, "127.0.0.1:%u", (unsigned)http_port(server));
    ck_assert_str_eq(http_address(server), expected);
    snprintf(taken, sizeof taken, "%s", expected);
    ck_assert_int_eq(http_new(base, &(struct http_options){.listen = taken}, &second, &e),
                     ERR_SYSTEM);
    ck_assert_ptr_null(second);
    ck_assert_ptr_nonnull(strstr(e.msg, taken));
    ck_assert_int_eq(http_new(base, &(struct http_options){.listen = "nowhere"}, &second, &e),
                     ERR_INVALID);
    ck_assert_str_eq(e.msg, "http.listen: 'nowhere' is not ADDRESS:PORT");
    stop();
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {routes_are_answered,
                                  head_has_no_body,
                                  index_and_unknown_paths_list_the_paths,
                                  other_methods_are_refused,
                                  failed_handlers_are_500,
                                  garbage_is_refused,
                                  large_heads_are_refused,
                                  requests_may_come_byte_by_byte,
                                  slow_clients_are_cut_off_and_hold_nobody_up,
                                  large_replies_arrive_whole,
                                  many_clients_are_served_within_the_limit,
                                  slow_clients_do_not_lock_a_probe_out,
                                  who_has_not_asked_makes_room_first,
                                  who_does_not_read_makes_room_too,
                                  exhausted_descriptors_pause_accepting,
                                  free_cuts_connections,
                                  addresses_are_strict,
                                  ports_are_real,
                                  NULL};
    return suite_of("http", tests);
}
