#include "amqp/link.h"

#include "amqp/backoff.h"
#include "amqp/clock.h"
#include "amqp/conn.h"
#include "amqp/life.h"
#include "amqp/uri.h"
#include "base/rng.h"
#include "base/sm.h"

#include <event2/event.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * stopped      no connection, none wanted
 * waiting      the timer runs until the next attempt
 * connecting   an attempt is under way
 * up           in use
 * closing      the polite close is under way; stopped comes next
 */
enum state { STOPPED, WAITING, CONNECTING, UP, CLOSING };

static const struct sm_state states[] = {
    [STOPPED] = {"stopped", SM_TO(WAITING)},
    [WAITING] = {"waiting", SM_TO(CONNECTING) | SM_TO(STOPPED) | SM_TO(WAITING)},
    [CONNECTING] = {"connecting", SM_TO(UP) | SM_TO(WAITING) | SM_TO(STOPPED)},
    [UP] = {"up", SM_TO(WAITING) | SM_TO(CLOSING)},
    [CLOSING] = {"closing", SM_TO(STOPPED)},
};

struct link {
    struct sm sm;
    struct life life;
    struct event_base *base;
    const struct log_sink *log;
    struct link_options o; /* texts are copied below */
    char name[64], connection_name[128], peer[URI_PRINT_MAX];
    struct uri *uris;
    size_t n_uris, at_uri;
    size_t n_tried; /* URIs that failed in a row */
    struct backoff backoff;
    struct rng rng;
    struct conn *conn;
    struct event *timer; /* the next attempt */
    struct event *kick;  /* news that must come from the loop */
    struct list users;
    bool blocked, stop_told;
    struct link_stats stats;
};

static void release(struct link *l)
{
    conn_free(l->conn);
    if (l->timer != NULL)
        event_free(l->timer);
    if (l->kick != NULL)
        event_free(l->kick);
    if (l->uris != NULL)
        explicit_bzero(l->uris, l->n_uris * sizeof *l->uris);
    free(l->uris);
    free(l);
}

static void leave(struct link *l)
{
    if (life_leave(&l->life))
        release(l);
}

void link_free(struct link *l)
{
    if (l != NULL && life_end(&l->life))
        release(l);
}

static void wait_for(struct link *l, mono_t delay)
{
    struct timeval tv = clock_timeval(delay);
    sm_move(&l->sm, WAITING);
    evtimer_add(l->timer, &tv);
}

/* Users. */

/* Tells each user whose view differs; any of them may leave meanwhile, so each search starts
 * afresh. */
static void tell_users(struct link *l, const struct loss *why)
{
    bool again = true;
    while (again && !l->life.dead) {
        again = false;
        for (struct list *n = l->users.next; n != &l->users; n = n->next) {
            struct link_user *u = LIST_ENTRY(n, struct link_user, node);
            bool up = link_conn(l) != NULL;
            if (u->told_up == up || (!up && why == NULL))
                continue;
            u->told_up = up;
            if (up)
                u->on_up(u);
            else
                u->on_down(u, why);
            again = true;
            break;
        }
    }
}

void link_join(struct link *l, struct link_user *u)
{
    u->told_up = false;
    list_push_back(&l->users, &u->node);
    event_active(l->kick, EV_TIMEOUT, 0);
}

void link_leave(struct link_user *u)
{
    list_remove(&u->node);
}

/* Losses. */

static mono_t next_delay(struct link *l, const struct loss *why, bool was_up)
{
    double unit = rng_unit(&l->rng);
    if (loss_is_refusal(why)) {
        l->stats.n_refused++;
        l->at_uri = (l->at_uri + 1) % l->n_uris;
        return (mono_t)((double)l->o.refused_backoff_for * (0.75 + unit / 2));
    }
    if (was_up) {
        l->n_tried = 0;
        return backoff_down(&l->backoff, clock_read(), unit);
    }
    /* The other URIs are tried soon; only when all failed does the delay grow. */
    l->at_uri = (l->at_uri + 1) % l->n_uris;
    if (++l->n_tried < l->n_uris)
        return (mono_t)((double)l->o.backoff_min_for * (0.5 + unit / 2));
    l->n_tried = 0;
    return backoff_down(&l->backoff, clock_read(), unit);
}

static void on_conn_closed(void *ctx, const struct loss *why)
{
    struct link *l = ctx;
    life_enter(&l->life);
    bool was_up = l->sm.state == UP;
    l->stats.bytes_in += conn_bytes_in(l->conn);
    l->stats.bytes_out += conn_bytes_out(l->conn);
    conn_free(l->conn);
    l->conn = NULL;
    l->stats.n_losses += was_up;
    char words[320];
    loss_format(why, words, sizeof words);
    if (l->sm.state == CLOSING) {
        sm_move(&l->sm, STOPPED);
        log_event(l->log, LOG_INFO, "link.stopped", "link=%s reason=" LOG_Q, l->name, words);
        event_active(l->kick, EV_TIMEOUT, 0);
    } else {
        mono_t delay = next_delay(l, why, was_up);
        log_event(l->log, LOG_WARN, "link.down", "link=%s peer=%s retry_ms=%.0f reason=" LOG_Q,
                  l->name, l->peer, mono_to_ms(delay), words);
        wait_for(l, delay);
    }
    tell_users(l, why);
    if (!l->life.dead && l->o.on_down != NULL)
        l->o.on_down(l->o.ctx, why);
    leave(l);
}

static void on_conn_up(void *ctx)
{
    struct link *l = ctx;
    life_enter(&l->life);
    sm_move(&l->sm, UP);
    l->stats.n_ups++;
    l->n_tried = 0;
    backoff_up(&l->backoff, clock_read());
    log_event(l->log, LOG_INFO, "link.up", "link=%s peer=%s", l->name, l->peer);
    if (l->o.on_up != NULL)
        l->o.on_up(l->o.ctx);
    tell_users(l, NULL);
    leave(l);
}

static void on_conn_blocked(void *ctx, bool blocked, const char *reason)
{
    struct link *l = ctx;
    life_enter(&l->life);
    l->blocked = blocked;
    log_event(l->log, blocked ? LOG_WARN : LOG_INFO, blocked ? "link.blocked" : "link.unblocked",
              "link=%s reason=" LOG_Q, l->name, reason);
    if (l->o.on_blocked != NULL)
        l->o.on_blocked(l->o.ctx, blocked, reason);
    leave(l);
}

/* Attempts. */

/* An attempt that cannot even begin counts as one that failed. */
static void fail_attempt(struct link *l, enum loss_kind kind, const char *text)
{
    struct loss why = {.kind = kind};
    snprintf(why.text, sizeof why.text, "%s", text);
    mono_t delay = next_delay(l, &why, false);
    log_event(l->log, LOG_WARN, "link.down", "link=%s peer=%s retry_ms=%.0f reason=" LOG_Q, l->name,
              l->peer, mono_to_ms(delay), text);
    wait_for(l, delay);
    if (l->o.on_down != NULL)
        l->o.on_down(l->o.ctx, &why);
}

static int make_conn(struct link *l, const char *password)
{
    struct conn_options options = {
        .uri = &l->uris[l->at_uri],
        .name = l->connection_name,
        .password = password,
        .connect_timeout_for = l->o.connect_timeout_for,
        .close_limit_for = l->o.close_limit_for,
        .heartbeat_s = l->o.heartbeat_s,
        .frame_max = l->o.frame_max,
        .on_up = on_conn_up,
        .on_blocked = on_conn_blocked,
        .on_closed = on_conn_closed,
        .ctx = l,
    };
    return conn_new(l->base, &options, &l->conn);
}

static void attempt(struct link *l)
{
    struct buf password = {0};
    int r = 0;
    uri_print(&l->uris[l->at_uri], l->peer, sizeof l->peer);
    if (l->o.password != NULL && l->o.password(l->o.ctx, &password) < 0) {
        fail_attempt(l, LOSS_ACCESS, "the password cannot be read");
    } else if ((r = make_conn(l, password.p)) == ERR_INVALID) {
        static_assert(CONN_PASSWORD_MAX == 3072, "the number below");
        fail_attempt(l, LOSS_ACCESS, "the password is over the limit of 3072 bytes");
    } else if (r < 0) {
        fail_attempt(l, LOSS_NOMEM, "no memory for a connection");
    } else {
        sm_move(&l->sm, CONNECTING);
        conn_start(l->conn);
    }
    if (password.p != NULL)
        explicit_bzero(password.p, password.cap);
    buf_fini(&password);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct link *l = arg;
    (void)fd;
    (void)what;
    life_enter(&l->life);
    if (l->sm.state == WAITING)
        attempt(l);
    leave(l);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
    struct link *l = arg;
    (void)fd;
    (void)what;
    life_enter(&l->life);
    tell_users(l, NULL);
    if (l->sm.state == STOPPED && !l->stop_told && !l->life.dead) {
        l->stop_told = true;
        if (l->o.on_stopped != NULL)
            l->o.on_stopped(l->o.ctx);
    }
    leave(l);
}

/* For the owner. */

static mono_t or_default(mono_t given, mono_t usual)
{
    return given > 0 ? given : usual;
}

static int parse_uris(struct link *l, struct err *e)
{
    if (l->o.n_uris == 0)
        return err_set(e, ERR_CONFIG, "link %s: no broker address", l->name);
    l->uris = calloc(l->o.n_uris, sizeof *l->uris);
    if (l->uris == NULL)
        return err_set(e, ERR_NOMEM, "link %s: out of memory", l->name);
    l->n_uris = l->o.n_uris;
    for (size_t i = 0; i < l->n_uris; i++) {
        if (uri_parse(l->o.uris[i], &l->uris[i], e) < 0)
            return err_prefix(e, "link %s: broker address %zu", l->name, i + 1);
    }
    return 0;
}

int link_new(struct event_base *base, const struct log_sink *log,
             const struct link_options *options, struct link **out, struct err *e)
{
    struct link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return err_set(e, ERR_NOMEM, "out of memory for a link");
    sm_init(&l->sm, states, STOPPED);
    list_init(&l->users);
    l->base = base;
    l->log = log;
    l->o = *options;
    l->o.connect_timeout_for = or_default(options->connect_timeout_for, 10 * MONO_S);
    l->o.backoff_min_for = or_default(options->backoff_min_for, 250 * MONO_MS);
    l->o.backoff_max_for = or_default(options->backoff_max_for, 30 * MONO_S);
    l->o.refused_backoff_for = or_default(options->refused_backoff_for, 30 * MONO_S);
    l->o.close_limit_for = or_default(options->close_limit_for, 3 * MONO_S);
    l->stop_told = true;
    l->rng.state = options->seed;
    backoff_init(&l->backoff, l->o.backoff_min_for, l->o.backoff_max_for);
    snprintf(l->name, sizeof l->name, "%s", options->name);
    snprintf(l->connection_name, sizeof l->connection_name, "harbinger:%s:%s",
             options->instance != NULL ? options->instance : "-", options->name);
    l->timer = evtimer_new(base, on_timer, l);
    l->kick = event_new(base, -1, 0, on_kick, l);
    int r = l->timer == NULL || l->kick == NULL ? err_set(e, ERR_NOMEM, "out of memory for a link")
                                                : parse_uris(l, e);
    if (r < 0) {
        release(l);
        return r;
    }
    uri_print(&l->uris[0], l->peer, sizeof l->peer);
    *out = l;
    return 0;
}

void link_start(struct link *l)
{
    if (l->sm.state != STOPPED)
        return;
    l->stop_told = true; /* a start before on_stopped came takes the stop back */
    wait_for(l, 0);
}

void link_stop(struct link *l)
{
    l->stop_told = false;
    if (l->sm.state == UP) {
        sm_move(&l->sm, CLOSING);
        conn_close(l->conn);
        return;
    }
    if (l->sm.state == CLOSING)
        return;
    evtimer_del(l->timer);
    conn_free(l->conn);
    l->conn = NULL;
    if (l->sm.state != STOPPED)
        sm_move(&l->sm, STOPPED);
    event_active(l->kick, EV_TIMEOUT, 0);
}

void link_abort(struct link *l, const struct loss *why)
{
    if (l->conn != NULL)
        conn_abort(l->conn, why);
}

bool link_is_up(const struct link *l)
{
    return l->sm.state == UP;
}

bool link_is_stopped(const struct link *l)
{
    return l->sm.state == STOPPED && l->stop_told;
}

bool link_is_blocked(const struct link *l)
{
    return l->blocked;
}

const char *link_state_name(const struct link *l)
{
    return sm_name(&l->sm);
}

const char *link_peer(const struct link *l)
{
    return l->peer;
}

const char *link_name(const struct link *l)
{
    return l->name;
}

void link_stats(const struct link *l, struct link_stats *out)
{
    *out = l->stats;
    out->blocked = l->blocked;
    if (l->conn != NULL) {
        out->bytes_in += conn_bytes_in(l->conn);
        out->bytes_out += conn_bytes_out(l->conn);
    }
}

size_t link_pending_bytes(const struct link *l)
{
    return l->conn != NULL ? conn_pending_bytes(l->conn) : 0;
}

struct conn *link_conn(const struct link *l)
{
    return l->sm.state == UP && l->conn != NULL && conn_is_up(l->conn) ? l->conn : NULL;
}

struct event_base *link_base(const struct link *l)
{
    return l->base;
}

const struct log_sink *link_log(const struct link *l)
{
    return l->log;
}

double link_jitter(struct link *l)
{
    return rng_unit(&l->rng);
}
