#include "sidecar/backend_harbinger.h"

#include "sidecar/loop.h"

#include <event2/event.h>

#include <stdio.h>
#include <stdlib.h>

/*
 * The broker does overdue things in every call, so that a late tick changes no outcome: it is looked
 * at in these intervals while anything is in it, or sooner when it says so. A call by somebody else
 * can bring its next deadline nearer; this bounds how late that is seen.
 */
#define TICK_MOST  (100 * MONO_MS)
#define TICK_LEAST (1 * MONO_MS)

/* What a connection may hold unsent when the next message is put beside it, and its frames. */
#define UNSENT_BYTES ((1 << 20) + (32 << 10))

struct backend_harbinger {
    const struct log_sink *log;
    struct backend_harbinger_options options;
    struct station *station;
    struct parking *parking;
    struct event *tick, *room;
    struct list all;    /* struct held, by `link`: in the broker, the oldest first */
    struct list graves; /* struct grave */
    bool draining;
    bool refused; /* a submission, since the last on_room */
    uint64_t n_expired, n_begun_anew;
};

/* A dead message on its way to the parked queue. */
struct grave {
    struct list all;
    struct held *held;
    struct parking_job job;
};

static struct hb_broker *broker_of(const struct backend_harbinger *b)
{
    return station_broker(b->station);
}

/* ---- deadlines ---- */

static void arm(struct backend_harbinger *b, mono_t for_ns)
{
    struct timeval tv = loop_timeval(for_ns < TICK_LEAST  ? TICK_LEAST
                                     : for_ns > TICK_MOST ? TICK_MOST
                                                          : for_ns);
    evtimer_add(b->tick, &tv);
}

static void give_back_what_waits(struct backend_harbinger *b, uint32_t most_failures);

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
    struct backend_harbinger *b = ctx;
    struct hb_broker_stats s;
    mono_t now = loop_now();
    mono_t next = hb_broker_tick(broker_of(b), now);
    if (b->draining)
        give_back_what_waits(b, UINT32_MAX);
    hb_broker_stats(broker_of(b), &s);
    if (s.waiting + s.in_flight > 0)
        arm(b, next > now ? next - now : 0);
}

void backend_harbinger_touched(struct backend_harbinger *b)
{
    if (!evtimer_pending(b->tick, NULL))
        arm(b, TICK_MOST);
    if (b->options.used != NULL)
        b->options.used(b->options.ctx);
}

/* ---- the end of a message ---- */

static void grave_free(struct grave *g)
{
    parking_forget(&g->job);
    list_remove(&g->all);
    free(g);
}

static void grave_settle(struct grave *g, enum held_settlement how)
{
    struct held *h = g->held;
    grave_free(g);
    held_settle(h, how);
}

static void on_parked(void *ctx, struct parking_job *job)
{
    grave_settle(LIST_ENTRY(job, struct grave, job), HELD_ACK);
}

static bool is_useless(void *ctx, struct parking_job *job)
{
    const struct backend_harbinger *b = ctx;
    if (b->draining)
        grave_settle(LIST_ENTRY(job, struct grave, job), HELD_REQUEUE);
    return b->draining;
}

/* False when memory is short. */
static bool bury(struct backend_harbinger *b, struct held *h, const char *why)
{
    struct grave *g = malloc(sizeof *g);
    if (g == NULL)
        return false;
    *g = (struct grave){.held = h, .job = {.held = h}};
    list_init(&g->job.lane);
    list_push_back(&b->graves, &g->all);
    parking_put(b->parking, &g->job, why);
    return true;
}

static void bury_dead(struct backend_harbinger *b, struct held *h, const struct hb_end *end)
{
    char why[1400];
    snprintf(why, sizeof why, "%s: %s", hb_dead_reason_name(end->reason), end->details);
    if (bury(b, h, why))
        return;
    b->n_begun_anew++;
    held_settle(h, HELD_REQUEUE);
}

static bool has_expiration(const struct held *h)
{
    return held_lives_for(h, h->received_at) != MONO_NEVER;
}

static void on_ended(void *ctx, void *owner, const struct hb_end *end, int64_t now)
{
    struct backend_harbinger *b = ctx;
    struct held *h = owner;
    list_remove(&h->link);
    h->cookie = NULL;
    if (b->refused)
        event_active(b->room, EV_TIMEOUT, 0);
    if (end->how == HB_ENDED_ACKED) {
        held_settle(h, HELD_ACK);
    } else if (end->how == HB_ENDED_REJECTED) {
        held_settle(h, HELD_DISCARD);
    } else if (end->reason == HB_DEAD_TTL_EXPIRED && has_expiration(h)) {
        b->n_expired++;
        held_settle(h, HELD_DISCARD);
    } else {
        bury_dead(b, h, end);
    }
}

static void on_available(void *ctx)
{
    struct backend_harbinger *b = ctx;
    if (b->options.available != NULL)
        b->options.available(b->options.ctx);
}

/* The broker must not be called from within its own callbacks, so that room is told by the loop. */
static void on_room(evutil_socket_t fd, short what, void *ctx)
{
    struct backend_harbinger *b = ctx;
    b->refused = false;
    if (b->options.on_room != NULL)
        b->options.on_room(b->options.ctx);
}

/* ---- the intake's sink ---- */

/* No connection of a worker would hold it. */
static bool is_too_large(const struct backend_harbinger *b, const struct held *h)
{
    const struct conf *c = b->options.conf;
    return c->rpc.listen[0] != '\0' &&
           message_bytes(h->message) + UNSENT_BYTES > c->rpc.max_connection_bytes;
}

static int park_too_large(struct backend_harbinger *b, struct held *h)
{
    char why[120];
    snprintf(why, sizeof why, "its %zu bytes are too many for rpc.max_connection_bytes",
             message_bytes(h->message));
    return bury(b, h, why) ? 0 : ERR_NOMEM;
}

static int submit(void *ctx, struct held *h, const struct job *job, mono_t now)
{
    struct backend_harbinger *b = ctx;
    mono_t lives_for = held_lives_for(h, now);
    struct station_message m = {
        .job = job,
        .owner = h,
        .ttl_ns = lives_for != MONO_NEVER ? lives_for : HB_TTL_DEFAULT,
    };
    if (b->draining)
        return BACKEND_FULL;
    if (is_too_large(b, h))
        return park_too_large(b, h);
    int r = station_submit(b->station, &m, now);
    if (r != 0) {
        b->refused = true;
        return r;
    }
    h->cookie = m.message;
    list_push_back(&b->all, &h->link);
    if (!evtimer_pending(b->tick, NULL))
        arm(b, TICK_MOST);
    return 0;
}

static bool waits(void *ctx, const struct held *h)
{
    return h->cookie != NULL && hb_broker_waits(h->cookie);
}

static bool withdraw(void *ctx, struct held *h)
{
    struct backend_harbinger *b = ctx;
    if (h->cookie == NULL || hb_broker_withdraw(broker_of(b), h->cookie) != HB_BROKER_OK)
        return false;
    list_remove(&h->link);
    h->cookie = NULL;
    return true;
}

static void hold(void *ctx, struct held *h)
{
    const struct backend_harbinger *b = ctx;
    if (h->cookie != NULL)
        (void)hb_broker_hold(broker_of(b), h->cookie);
}

static void release(void *ctx, struct held *h)
{
    const struct backend_harbinger *b = ctx;
    if (h->cookie != NULL)
        hb_broker_release(broker_of(b), h->cookie);
}

struct intake_sink backend_harbinger_sink(struct backend_harbinger *b)
{
    return (struct intake_sink){
        .submit = submit,
        .waits = waits,
        .withdraw = withdraw,
        .hold = hold,
        .release = release,
        .ctx = b,
    };
}

/* ---- life ---- */

static void give_back_what_waits(struct backend_harbinger *b, uint32_t most_failures)
{
    for (struct list *node = b->all.next, *next; node != &b->all; node = next) {
        struct held *h = LIST_ENTRY(node, struct held, link);
        next = node->next;
        if (hb_broker_failures(h->cookie) <= most_failures && withdraw(b, h))
            held_settle(h, HELD_REQUEUE);
    }
}

void backend_harbinger_give_back(struct backend_harbinger *b)
{
    give_back_what_waits(b, 0);
}

void backend_harbinger_drain(struct backend_harbinger *b)
{
    b->draining = true;
    give_back_what_waits(b, UINT32_MAX);
    parking_drop_useless(b->parking);
}

int backend_harbinger_new(struct link *l, const struct log_sink *log,
                          const struct backend_harbinger_options *o, struct backend_harbinger **out,
                          struct err *err)
{
    struct backend_harbinger *b = calloc(1, sizeof *b);
    if (b == NULL)
        return err_set(err, ERR_NOMEM, "broker: %s", err_name(ERR_NOMEM));
    b->log = log;
    b->options = *o;
    list_init(&b->all);
    list_init(&b->graves);
    struct station_options station = {
        .flow = o->flow, .ended = on_ended, .available = on_available, .ctx = b};
    struct parking_options parking = {
        .conf = o->conf, .done = on_parked, .useless = is_useless, .ctx = b};
    conf_broker_options(o->conf, &station.broker);
    station.broker.seed[0] = loop_random();
    station.broker.seed[1] = loop_random();
    int r = ERR_NOMEM;
    b->tick = evtimer_new(link_base(l), on_tick, b);
    b->room = event_new(link_base(l), -1, 0, on_room, b);
    b->station = station_new(&station, err);
    if (b->station == NULL)
        r = err->code;
    else if (b->tick != NULL && b->room != NULL)
        r = parking_new(l, log, &parking, &b->parking);
    if (r < 0 && b->station != NULL)
        (void)err_set(err, r, "broker: %s", err_name(r));
    if (r < 0) {
        backend_harbinger_free(b);
        return r;
    }
    *out = b;
    return 0;
}

/* The broker goes first: it tells no ends then. */
void backend_harbinger_free(struct backend_harbinger *b)
{
    if (b == NULL)
        return;
    parking_free(b->parking);
    station_free(b->station);
    while (!list_empty(&b->graves))
        grave_settle(LIST_ENTRY(list_first(&b->graves), struct grave, all), HELD_REQUEUE);
    while (!list_empty(&b->all)) {
        struct held *h = LIST_ENTRY(list_first(&b->all), struct held, link);
        list_remove(&h->link);
        held_settle(h, HELD_REQUEUE);
    }
    if (b->tick != NULL)
        event_free(b->tick);
    if (b->room != NULL)
        event_free(b->room);
    free(b);
}

struct station *backend_harbinger_station(struct backend_harbinger *b)
{
    return b->station;
}

void backend_harbinger_stats(const struct backend_harbinger *b, struct backend_harbinger_stats *out)
{
    *out = (struct backend_harbinger_stats){.expired = b->n_expired, .begun_anew = b->n_begun_anew};
    parking_stats(b->parking, &out->parking);
}
