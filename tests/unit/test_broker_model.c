/*
 * The delivery core against a slow and obvious model of it: after every operation both have told
 * the same, count the same, and want to be called next at the same time; and the core's own
 * invariants hold.
 *
 * HARBINGER_TEST_LONG=1 makes 10,000,000 operations of it.
 */
#include "lib/broker_model.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "lib/brokers.h"
#include "lib/testmain.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 10000, LONG_STEPS = 10 * 1000 * 1000, KEYS = 9, MOST = 120, RECENT = 64 };

/* The owner of a message, which remembers what the core calls it. */
struct owner {
    uint64_t number, id;
    struct hb_message *message;
    struct owner *next;
};

struct pair {
    const char *name;
    struct hb_broker *b;
    struct broker_model *m;
    bool paper_order; /* the policy has times of its own */
    bool leaps;       /* the clock goes far ahead at times, and back for a single call */
    struct model_events events;
    struct rng rng;
    int64_t now, latest;
    uint64_t n_owners, last_id;
    struct owner *owners;
    struct hb_settlement recent[RECENT]; /* deliveries, settled ones too */
    unsigned n_recent;
    uint64_t step;
};

static uint64_t below(struct pair *p, uint64_t n)
{
    return rng_next(&p->rng) % n;
}

/* ---- what the core tells ---- */

static void note(struct pair *p, char what, uint64_t who, double ms)
{
    if (p->events.n < MODEL_EVENTS_MAX)
        p->events.at[p->events.n++] = (struct model_event){what, who, ms};
}

static uint64_t key_number(struct hb_key k)
{
    return k.n > 0 ? (uint64_t)(k.p[1] - '0') : 0;
}

static void on_learn(void *ctx, const struct hb_lesson *l, int64_t now)
{
    note(ctx, 'l', key_number(l->key), l->duration_ms);
}

static void on_censor(void *ctx, struct hb_key key, struct hb_key parent, int64_t now)
{
    note(ctx, 'c', key_number(key), 0);
}

static void drop_owner(struct pair *p, struct owner *o)
{
    struct owner **at = &p->owners;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    free(o);
}

static void on_ended(void *ctx, void *owner, const struct hb_end *end, int64_t now)
{
    struct pair *p = ctx;
    struct owner *o = owner;
    char dead = end->reason == HB_DEAD_TTL_EXPIRED ? 't' : 'r';
    const char what[] = {[HB_ENDED_ACKED] = 'd', [HB_ENDED_REJECTED] = 'j', [HB_ENDED_DEAD] = dead};
    note(p, what[end->how], o->number, end->failures);
    drop_owner(p, o);
}

/* ---- comparing ---- */

/* Check writes to a file at each of its assertions: only the one that fails is made. */
#define SAME(a, b)                                                                 \
    do {                                                                           \
        if ((a) != (b))                                                            \
            ck_abort_msg("%s, step %llu: %s is %llu, not %llu", p->name,           \
                         (unsigned long long)p->step, #a, (unsigned long long)(a), \
                         (unsigned long long)(b));                                 \
    } while (0)

static void same_events(struct pair *p)
{
    const struct model_events *expected = broker_model_events(p->m);
    SAME(p->events.n, expected->n);
    for (unsigned i = 0; i < expected->n; i++) {
        SAME(p->events.at[i].what, expected->at[i].what);
        SAME(p->events.at[i].who, expected->at[i].who);
        if (p->events.at[i].ms != expected->at[i].ms)
            ck_abort_msg("another number was told");
    }
    p->events.n = 0;
}

static void same_stats(struct pair *p)
{
    struct hb_broker_stats got, expected;
    hb_broker_stats(p->b, &got);
    broker_model_stats(p->m, &expected);
    SAME(got.waiting, expected.waiting);
    SAME(got.held, expected.held);
    SAME(got.in_flight, expected.in_flight);
    SAME(got.dead, expected.dead);
    SAME(got.bytes, expected.bytes);
    SAME(got.submitted, expected.submitted);
    SAME(got.refused, expected.refused);
    SAME(got.pulled, expected.pulled);
    SAME(got.returned, expected.returned);
    SAME(got.acked, expected.acked);
    SAME(got.nacked, expected.nacked);
    SAME(got.rejected, expected.rejected);
    SAME(got.repeated, expected.repeated);
    SAME(got.leases_expired, expected.leases_expired);
    SAME(got.ttl_expired, expected.ttl_expired);
    SAME(got.retried, expected.retried);
    for (int i = 0; i < HB_N_DEAD_REASONS; i++)
        SAME(got.died[i], expected.died[i]);
    SAME(got.dropped_dead, expected.dropped_dead);
    SAME(got.redriven, expected.redriven);
    SAME(got.purged, expected.purged);
    SAME(got.learned, expected.learned);
    SAME(got.censored, expected.censored);
}

struct dead_walk {
    struct pair *p;
    size_t at;
};

static void same_dead(void *ctx, const struct hb_dead *d)
{
    struct dead_walk *w = ctx;
    struct pair *p = w->p;
    struct model_dead expected;
    ck_assert(broker_model_dead(p->m, w->at++, &expected));
    SAME(d->id, expected.id);
    SAME(d->reason, expected.reason);
    SAME(d->failures, expected.failures);
    SAME(d->age_ns, INT64_MAX - expected.died_at);
}

/* The dearest comparisons are made now and then. */
static void same(struct pair *p)
{
    same_events(p);
    same_stats(p);
    if (p->step % 97 == 0) {
        struct dead_walk w = {p, 0};
        hb_broker_dead(p->b, 0, SIZE_MAX, INT64_MAX, same_dead, &w);
    }
    if (p->step % (p->step > STEPS ? 1000 : 1) == 0) {
        const char *broken = hb_broker_check(p->b);
        if (broken != NULL)
            ck_abort_msg("%s, step %llu: %s", p->name, (unsigned long long)p->step, broken);
    }
}

/* ---- operations ---- */

static void do_submit(struct pair *p)
{
    static const char payload[64] = "";
    char key[8];
    unsigned number = (unsigned)below(p, KEYS), level = (unsigned)below(p, 3);
    int n = snprintf(key, sizeof key, "k%u", number);
    int64_t ttls[] = {HB_TTL_DEFAULT, 0, 40, 4000, INT64_MAX};
    struct hb_submission s = {
        .payload = {payload, below(p, sizeof payload)},
        .key = {number > 0 ? key : NULL, number > 0 ? (size_t)n : 0},
        .level = level,
        .estimate_ms = level % 2 == 0 ? -1 : (double)below(p, 50),
        .ttl_ns = ttls[below(p, 5)],
    };
    struct model_submission x = {
        .bytes = s.payload.n, .key = number, .level = level, .ttl_ns = s.ttl_ns};
    struct owner *o = below(p, 3) == 0 ? calloc(1, sizeof *o) : NULL;
    if (o != NULL)
        x.owner = o->number = ++p->n_owners;
    s.owner = o;
    uint64_t id = 0;
    struct hb_message *message = NULL;
    int r = hb_broker_submit(p->b, &s, p->now, &id, &message);
    SAME(r, broker_model_submit(p->m, &x, p->now));
    if (r == HB_BROKER_OK)
        SAME(id, ++p->last_id);
    if (o == NULL)
        return;
    if (r != HB_BROKER_OK) {
        free(o);
        return;
    }
    *o = (struct owner){o->number, id, message, p->owners};
    p->owners = o;
}

static struct owner *some_owner(struct pair *p)
{
    struct owner *o = p->owners;
    for (uint64_t skip = below(p, 8); skip > 0 && o != NULL && o->next != NULL; skip--)
        o = o->next;
    return o;
}

static void do_hold(struct pair *p)
{
    struct owner *o = some_owner(p);
    if (o == NULL)
        return;
    if (below(p, 2) == 0) {
        SAME(hb_broker_hold(p->b, o->message), broker_model_hold(p->m, o->id));
    } else {
        hb_broker_release(p->b, o->message);
        broker_model_release(p->m, o->id);
    }
}

static void do_withdraw(struct pair *p)
{
    struct owner *o = some_owner(p);
    if (o == NULL)
        return;
    int r = hb_broker_withdraw(p->b, o->message);
    SAME(r, broker_model_withdraw(p->m, o->id));
    if (r == HB_BROKER_OK)
        drop_owner(p, o);
}

static void do_pull(struct pair *p)
{
    struct hb_delivery d = {0};
    struct model_pull expected = {.consumer = below(p, 4), .unleased = below(p, 4) == 0};
    int r = expected.unleased ? hb_broker_pull_unleased(p->b, expected.consumer, p->now, &d)
                              : hb_broker_pull(p->b, expected.consumer, p->now, &d);
    if (!broker_model_pull(p->m, &expected, p->now, r == HB_BROKER_OK ? d.id : 0))
        ck_abort_msg("%s, step %llu: message %llu should not have been next", p->name,
                     (unsigned long long)p->step, (unsigned long long)d.id);
    if (r != HB_BROKER_OK)
        return;
    SAME(d.attempt, expected.attempt);
    SAME(d.redelivered, expected.redelivered);
    p->recent[p->n_recent++ % RECENT] =
        (struct hb_settlement){.consumer = expected.consumer, .id = d.id, .token = d.token};
}

/* Mostly right, sometimes by the wrong consumer, of another message or with an old token. */
static void do_settle(struct pair *p)
{
    if (p->n_recent == 0)
        return;
    unsigned n = p->n_recent < RECENT ? p->n_recent : RECENT;
    struct hb_settlement s = p->recent[below(p, n)];
    static const double durations[] = {0, 0.00002, 0.5, 1e9, -1};
    s.duration_ms = durations[below(p, 5)];
    switch (below(p, 24)) {
    case 0: s.consumer ^= 1; break;
    case 1: s.id++; break;
    case 2: s.token++; break;
    default: break;
    }
    enum model_settle how = (enum model_settle)below(p, 5);
    int r = 0;
    switch (how) {
    case MODEL_ACK: r = hb_broker_ack(p->b, &s, p->now); break;
    case MODEL_NACK: r = hb_broker_nack(p->b, &s, p->now); break;
    case MODEL_REJECT: r = hb_broker_reject(p->b, &s, p->now); break;
    case MODEL_RETURN: r = hb_broker_return(p->b, &s, p->now); break;
    case MODEL_EXTEND: r = hb_broker_extend(p->b, &s, p->now); break;
    }
    SAME(r, broker_model_settle(p->m, how, &s, p->now));
}

static void do_tick(struct pair *p)
{
    int64_t got = hb_broker_tick(p->b, p->now), expected = broker_model_tick(p->m, p->now);
    if (expected == INT64_MIN)
        ck_assert(got <= p->now);
    else if (p->paper_order)
        ck_assert(got <= expected);
    else
        SAME(got, expected);
}

static void do_dead(struct pair *p)
{
    struct model_dead d;
    if (!broker_model_dead(p->m, below(p, 6), &d))
        return;
    if (below(p, 2) == 0)
        SAME(hb_broker_redrive(p->b, d.id, p->now), broker_model_redrive(p->m, d.id, p->now));
    else
        SAME(hb_broker_purge(p->b, d.id), broker_model_purge(p->m, d.id));
}

/* Stops at the end of time. */
static void pass_time(struct pair *p)
{
    int64_t for_ns = (int64_t)below(p, p->leaps && below(p, 100) == 0 ? 1000 : 6);
    p->latest = p->latest > INT64_MAX - for_ns ? INT64_MAX : p->latest + for_ns;
    p->now = p->latest;
    if (p->leaps && below(p, 4) == 0)
        p->now -= (int64_t)below(p, 300);
}

static void one_step(struct pair *p)
{
    struct hb_broker_stats s;
    hb_broker_stats(p->b, &s);
    uint64_t what = below(p, 20);
    pass_time(p);
    if (what < 5 && s.waiting + s.in_flight + s.dead < MOST)
        do_submit(p);
    else if (what < 9)
        do_pull(p);
    else if (what < 13)
        do_settle(p);
    else if (what == 13)
        do_tick(p);
    else if (what == 14)
        do_dead(p);
    else if (what < 19)
        do_hold(p);
    else
        do_withdraw(p);
}

/* ---- option sets ---- */

struct set {
    const char *name;
    void (*change)(struct hb_broker_options *o);
    int64_t start;
    bool leaps;
};

static void plain(struct hb_broker_options *o)
{
}

static void fifo(struct hb_broker_options *o)
{
    o->order = HB_ORDER_FIFO;
    o->ttl_ns = 300;
}

static void busy_sweeps(struct hb_broker_options *o)
{
    o->batch = 2;
    o->ttl_ns = 60;
    o->lease_ns = 50;
    o->extendable_leases = true;
}

static void tight(struct hb_broker_options *o)
{
    o->max_messages = 20;
    o->max_bytes = 700;
    o->max_dead = 4;
    o->dead_overflow = HB_DEAD_REFUSE_SUBMITS;
    o->max_attempts = 1;
}

static void short_memory(struct hb_broker_options *o)
{
    o->history_entries = 5;
    o->history_ns = 80;
    o->max_dead = 0;
}

static void no_lease(struct hb_broker_options *o)
{
    o->lease_ns = 0;
    o->max_dead = 7;
}

static void aged(struct hb_broker_options *o)
{
    o->batch = 4096;
    o->aging_threshold_ns = 100;
    o->aging_interval_ns = 30;
}

static void weighted(struct hb_broker_options *o)
{
    aged(o);
    o->weighted = true;
    o->weights[0] = 8;
    o->weights[1] = 3;
    o->weights[2] = 1;
}

static const struct set sets[] = {
    {"plain", plain, 0, false},
    {"fifo", fifo, 0, false},
    {"busy sweeps", busy_sweeps, 0, false},
    {"tight", tight, 0, false},
    {"short memory", short_memory, 0, false},
    {"no lease", no_lease, 0, false},
    {"aged", aged, 0, false},
    {"weighted", weighted, 0, false},
    {"a leaping clock", busy_sweeps, 0, true},
    {"a leaping clock, aged", aged, 0, true},
    {"from below zero", weighted, -STEPS, false},
    {"until the end of time", short_memory, INT64_MAX - STEPS, true},
    {"until the end of time, aged", weighted, INT64_MAX - STEPS, false},
};

static uint64_t steps(void)
{
    const char *text = getenv("HARBINGER_TEST_LONG");
    bool is_long = text != NULL && text[0] != '\0' && text[0] != '0';
    return is_long ? LONG_STEPS / ARRAY_SIZE(sets) : STEPS;
}

START_TEST(random_operations_equal_the_obvious_model)
{
    struct hb_broker_options o;
    hb_broker_options_init(&o);
    o.lease_ns = 200;
    sets[_i].change(&o);
    struct pair *p = calloc(1, sizeof *p);
    struct hb_broker_events events = {on_learn, on_censor, on_ended, NULL, p};
    p->name = sets[_i].name;
    p->rng.state = 11 + (uint64_t)_i;
    p->now = p->latest = sets[_i].start;
    p->leaps = sets[_i].leaps;
    p->paper_order = o.aging_threshold_ns > 0;
    p->b = hb_broker_new(&o, &events);
    p->m = broker_model_new(&o);
    ck_assert(p->b != NULL && p->m != NULL);
    for (uint64_t n = steps(); p->step < n; p->step++) {
        one_step(p);
        same(p);
    }
    hb_broker_free(p->b);
    broker_model_free(p->m);
    while (p->owners != NULL)
        drop_owner(p, p->owners);
    free(p);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("broker_model");
    TCase *c = tcase_create("broker_model");
    tcase_set_timeout(c, 3600);
    tcase_add_loop_test(c, random_operations_equal_the_obvious_model, 0, (int)ARRAY_SIZE(sets));
    suite_add_tcase(s, c);
    return s;
}
