#include "proxy/dial.h"

#include <errno.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A question to the resolver outlives who asked it. */
struct question {
    struct dial *dial; /* NULL: given up */
};

struct dial {
    struct dial_options o;
    size_t host; /* the one that is tried */
    struct evutil_addrinfo *addresses, *address;
    struct question *question;
    int fd;
    struct event *event; /* connected, too late, or time to begin */
    const char *error;
};

static void try_host(struct dial *d);

static struct timeval timeval_of(mono_t t)
{
    return (struct timeval){.tv_sec = t / MONO_S, .tv_usec = t % MONO_S / 1000};
}

static void drop_event(struct dial *d)
{
    if (d->event != NULL)
        event_free(d->event);
    d->event = NULL;
}

static void drop_addresses(struct dial *d)
{
    if (d->addresses != NULL)
        evutil_freeaddrinfo(d->addresses);
    d->addresses = d->address = NULL;
}

void dial_free(struct dial *d)
{
    if (d == NULL)
        return;
    if (d->question != NULL)
        d->question->dial = NULL;
    drop_event(d);
    drop_addresses(d);
    if (d->fd >= 0)
        close(d->fd);
    free(d);
}

static void end(struct dial *d, int fd)
{
    struct dial_options o = d->o;
    size_t host = d->host;
    const char *error = d->error;
    d->fd = -1;
    dial_free(d);
    o.done(o.ctx, fd, host, error);
}

static void try_address(struct dial *d);

/* ---- one address ---- */

static void next_address(struct dial *d)
{
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
    drop_event(d);
    d->address = d->address->ai_next;
    try_address(d);
}

static void on_connected(evutil_socket_t fd, short what, void *ctx)
{
    struct dial *d = ctx;
    int error = ETIMEDOUT;
    socklen_t n = sizeof error;
    if ((what & EV_TIMEOUT) == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
        error = errno;
    if (error == 0) {
        end(d, d->fd);
        return;
    }
    d->error = strerror(error);
    next_address(d);
}

/* False when it failed at once. */
static bool begin_connect(struct dial *d)
{
    const struct evutil_addrinfo *a = d->address;
    struct timeval limit = timeval_of(d->o.timeout);
    d->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->fd < 0 ||
        (connect(d->fd, a->ai_addr, (socklen_t)a->ai_addrlen) != 0 && errno != EINPROGRESS)) {
        d->error = strerror(errno);
        return false;
    }
    d->event = event_new(d->o.base, d->fd, EV_WRITE, on_connected, d);
    if (d->event == NULL || event_add(d->event, &limit) < 0) {
        d->error = strerror(ENOMEM);
        return false;
    }
    return true;
}

static void next_host(struct dial *d)
{
    drop_addresses(d);
    if (++d->host < d->o.n_hosts) {
        try_host(d);
        return;
    }
    d->host = d->o.n_hosts - 1;
    end(d, -1);
}

static void try_address(struct dial *d)
{
    while (d->address != NULL && !begin_connect(d)) {
        if (d->fd >= 0)
            close(d->fd);
        d->fd = -1;
        drop_event(d);
        d->address = d->address->ai_next;
    }
    if (d->address == NULL)
        next_host(d);
}

/* ---- one host ---- */

static void on_resolved(int r, struct evutil_addrinfo *addresses, void *ctx)
{
    struct question *q = ctx;
    struct dial *d = q->dial;
    free(q);
    if (d == NULL) {
        if (addresses != NULL)
            evutil_freeaddrinfo(addresses);
        return;
    }
    d->question = NULL;
    if (r != 0)
        d->error = evutil_gai_strerror(r);
    d->addresses = d->address = r == 0 ? addresses : NULL;
    try_address(d);
}

static void try_host(struct dial *d)
{
    const struct dial_host *h = &d->o.hosts[d->host];
    char port[8];
    struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_protocol = IPPROTO_TCP,
                                    .ai_flags = EVUTIL_AI_NUMERICHOST | EVUTIL_AI_NUMERICSERV};
    snprintf(port, sizeof port, "%u", h->port);
    if (evutil_getaddrinfo(h->host, port, &hints, &d->addresses) == 0) {
        d->address = d->addresses;
        try_address(d);
        return;
    }
    d->addresses = NULL;
    hints.ai_flags = EVUTIL_AI_NUMERICSERV;
    struct question *q = malloc(sizeof *q);
    if (q == NULL || d->o.dns == NULL) {
        free(q);
        d->error = "no resolver";
        next_host(d);
        return;
    }
    q->dial = d;
    d->question = q;
    (void)evdns_getaddrinfo(d->o.dns, h->host, port, &hints, on_resolved, q);
}

/* From the loop: what fails at once must not be told before dial_new has returned. */
static void on_begin(evutil_socket_t fd, short what, void *ctx)
{
    struct dial *d = ctx;
    drop_event(d);
    try_host(d);
}

struct dial *dial_new(const struct dial_options *o)
{
    struct dial *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->o = *o;
    d->fd = -1;
    d->error = "no address";
    d->event = event_new(o->base, -1, EV_TIMEOUT, on_begin, d);
    if (d->event == NULL) {
        dial_free(d);
        return NULL;
    }
    event_active(d->event, EV_TIMEOUT, 0);
    return d;
}
