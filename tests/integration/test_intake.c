/* The intake against a live RabbitMQ, with a sink that keeps what it gets: renewal, and what becomes
 * of it when a channel is lost. */
#include "base/num.h"
#include "base/rng.h"
#include "live.h"
#include "sidecar/intake.h"

enum { MOST = 20000 };

/* One sidecar's end: a link, an intake, and what its sink got. */
struct end {
    struct link *link;
    struct intake *intake;
    struct held *got[MOST]; /* in the order of their submission; NULL: settled or withdrawn */
    bool begun[MOST], held[MOST];
    int n_got, n_withdrawn, n_idle;
};

struct rig {
    struct live live;
    struct end end[2];
};

/* ---- the sink ---- */

static int submit(void *ctx, struct held *h, const struct job *job, mono_t now)
{
    struct end *e = ctx;
    ck_assert_int_lt(e->n_got, MOST);
    h->cookie = &e->got[e->n_got];
    e->got[e->n_got++] = h;
    return 0;
}

static int index_of(const struct end *e, const struct held *h)
{
    return (int)((struct held **)h->cookie - e->got);
}

static bool waits(void *ctx, const struct held *h)
{
    const struct end *e = ctx;
    return !e->begun[index_of(e, h)];
}

static bool withdraw(void *ctx, struct held *h)
{
    struct end *e = ctx;
    if (!waits(e, h))
        return false;
    e->got[index_of(e, h)] = NULL;
    e->n_withdrawn++;
    return true;
}

static void hold(void *ctx, struct held *h)
{
    struct end *e = ctx;
    ck_assert(waits(e, h));
    e->held[index_of(e, h)] = true;
}

static void release(void *ctx, struct held *h)
{
    struct end *e = ctx;
    ck_assert(e->held[index_of(e, h)]);
    e->held[index_of(e, h)] = false;
}

static void settle(struct end *e, int number)
{
    struct held *h = e->got[number];
    ck_assert_ptr_nonnull(h);
    e->got[number] = NULL;
    held_settle(h, HELD_ACK);
}

static void settle_all(struct end *e)
{
    for (int i = 0; i < e->n_got; i++)
        if (e->got[i] != NULL)
            settle(e, i);
}

static void on_idle(void *ctx)
{
    ((struct end *)ctx)->n_idle++;
}

static struct intake_sink sink_of(struct end *e)
{
    return (struct intake_sink){.submit = submit,
                                .waits = waits,
                                .withdraw = withdraw,
                                .hold = hold,
                                .release = release,
                                .ctx = e};
}

static const struct intake_stats *stats(const struct end *e)
{
    return intake_stats(e->intake);
}

static void start(struct rig *r, struct end *e, const char *queue, unsigned channels,
                  uint16_t window)
{
    struct intake_options o = {
        .queue = queue,
        .channels = channels,
        .window = window,
        .window_bytes = 1 << 20,
        .sink = sink_of(e),
        .on_idle = on_idle,
        .ctx = e,
    };
    e->link = live_link(&r->live, "consume");
    ck_assert_int_eq(intake_new(e->link, &o, &e->intake), 0);
    LIVE_UNTIL(&r->live, intake_is_up(e->intake));
}

static void stop(struct end *e)
{
    for (int i = 0; e->intake != NULL && i < e->n_got; i++)
        if (e->got[i] != NULL)
            held_settle(e->got[i], HELD_REQUEUE);
    intake_free(e->intake);
    link_free(e->link);
    *e = (struct end){.n_got = 0};
}

/* ---- life ---- */

static struct rig *rig_new(const char *queue, const char *type)
{
    struct rig *r = calloc(1, sizeof *r);
    struct topology_arg arg = {.name = "x-queue-type", .text = type};
    struct topology_object o = {
        .kind = TOPOLOGY_QUEUE, .name = queue, .args = &arg, .n_args = type != NULL};
    live_init(&r->live);
    live_ask(&r->live, &o);
    return r;
}

/* The queue must be empty and nobody hold anything: another intake gets nothing. */
static void expect_empty(struct rig *r, const char *queue)
{
    live_run_for(&r->live, 200); /* the last acks go out */
    for (int i = 0; i < 2; i++)
        stop(&r->end[i]);
    start(r, &r->end[0], queue, 1, 100);
    live_run_for(&r->live, 500);
    ck_assert_int_eq(r->end[0].n_got, 0);
    stop(&r->end[0]);
}

static void rig_free(struct rig *r)
{
    for (int i = 0; i < 2; i++)
        stop(&r->end[i]);
    live_fini(&r->live);
    free(r);
}

/* ---- renewal ---- */

/* What waits is given back and taken again, several times over; the sink does not notice, and each
 * is acked once in the end. */
START_TEST(what_waits_is_renewed_and_keeps_its_place)
{
    struct rig *r = rig_new("i.renew", NULL);
    struct end *e = &r->end[0];
    start(r, e, "i.renew", 4, 200);
    live_publish(&r->live, "i.renew", 800, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 800);
    intake_renew_after(e->intake, 300 * MONO_MS);
    LIVE_UNTIL(&r->live, stats(e)->renewed >= 2400);
    intake_renew_after(e->intake, 0);
    LIVE_UNTIL(&r->live, stats(e)->unbacked == 0);
    ck_assert_uint_eq(stats(e)->recognised, stats(e)->renewed);
    ck_assert_int_eq(e->n_got, 800);
    ck_assert_uint_eq(stats(e)->held, 800);
    ck_assert_uint_eq(stats(e)->downs, 0);
    settle_all(e);
    LIVE_UNTIL(&r->live, stats(e)->acked == 800);
    expect_empty(r, "i.renew");
    rig_free(r);
}
END_TEST

/* What somebody has begun with is not given back: another consumer would begin with it too. */
START_TEST(what_is_at_a_worker_is_not_renewed)
{
    struct rig *r = rig_new("i.begun", NULL);
    struct end *e = &r->end[0];
    start(r, e, "i.begun", 2, 50);
    live_publish(&r->live, "i.begun", 100, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 100);
    for (int i = 0; i < 90; i++)
        e->begun[i] = true;
    intake_renew_after(e->intake, 100 * MONO_MS);
    LIVE_UNTIL(&r->live, stats(e)->renewed >= 20);
    for (int i = 0; i < 90; i++)
        ck_assert(!e->got[i]->unbacked);
    ck_assert_uint_le(stats(e)->renewed % 10, 9);
    ck_assert_uint_le(stats(e)->unbacked, 10);
    settle_all(e);
    intake_renew_after(e->intake, 0);
    LIVE_UNTIL(&r->live, stats(e)->acked == 100 && stats(e)->unbacked == 0);
    expect_empty(r, "i.begun");
    rig_free(r);
}
END_TEST

/* What another consumer takes meanwhile is withdrawn; together they have each once. */
START_TEST(what_does_not_come_back_is_withdrawn)
{
    struct rig *r = rig_new("i.other", NULL);
    struct end *e = &r->end[0], *other = &r->end[1];
    start(r, e, "i.other", 1, 100);
    live_publish(&r->live, "i.other", 100, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 100);
    start(r, other, "i.other", 1, 100);
    intake_renew_after(e->intake, 100 * MONO_MS);
    LIVE_UNTIL(&r->live, other->n_got > 10);
    intake_renew_after(e->intake, 0);
    LIVE_UNTIL(&r->live, stats(e)->unbacked == 0);
    ck_assert_int_gt(e->n_withdrawn, 10);
    ck_assert_uint_eq(stats(e)->held + stats(other)->held, 100);
    settle_all(e);
    settle_all(other);
    LIVE_UNTIL(&r->live, stats(e)->acked + stats(other)->acked == 100);
    expect_empty(r, "i.other");
    rig_free(r);
}
END_TEST

/* The number that live_publish gave it. */
static int number_of(const struct held *h)
{
    const struct text body = h->message->body;
    uint64_t n;
    ck_assert_int_eq(num_parse_u64(body.p, body.n, &n), 0);
    return (int)n;
}

/* A few workers' turn: what they began with in the last one is done, and they take the newest, which
 * are those that the other intake would get. */
static void work(struct end *e, int *n_begun)
{
    for (int i = 0; i < e->n_got; i++)
        if (e->got[i] != NULL && e->begun[i])
            settle(e, i);
    for (int i = e->n_got - 1, workers = 3; i >= 0 && workers > 0; i--) {
        if (e->got[i] == NULL || e->held[i])
            continue;
        e->begun[i] = true;
        n_begun[number_of(e->got[i])]++;
        workers--;
    }
}

/* Two intakes that renew all the time, and workers at both: what one has given back is not begun with
 * there unless it came again, so that no message is handled twice. */
START_TEST(two_that_renew_one_queue_begin_with_nothing_twice)
{
    enum { COUNT = 400 };
    struct rig *r = rig_new("i.two", NULL);
    struct end *a = &r->end[0], *b = &r->end[1];
    int n_begun[COUNT] = {0};
    start(r, a, "i.two", 2, 50);
    start(r, b, "i.two", 2, 50);
    live_publish(&r->live, "i.two", COUNT, false, (struct text){NULL, 0});
    intake_renew_after(a->intake, 60 * MONO_MS);
    intake_renew_after(b->intake, 60 * MONO_MS);
    for (int turns = 0; stats(a)->acked + stats(b)->acked < COUNT && turns < 1500; turns++) {
        work(a, n_begun);
        work(b, n_begun);
        live_turn(&r->live);
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_msg(n_begun[i] == 1, "message %d was begun with %d times", i, n_begun[i]);
    ck_assert_uint_gt(stats(a)->renewed + stats(b)->renewed, COUNT);
    ck_assert_uint_gt(stats(a)->unbacked + stats(b)->unbacked, 0); /* the other one has had them */
    expect_empty(r, "i.two");
    rig_free(r);
}
END_TEST

/* A quorum queue counts each renewal as a delivery: it is noticed with the first ones. */
START_TEST(a_quorum_queue_is_not_renewed_for_long)
{
    struct rig *r = rig_new("i.quorum", "quorum");
    struct end *e = &r->end[0];
    struct topology_object o = {.kind = TOPOLOGY_QUEUE, .name = "i.quorum", .any_arguments = true};
    live_ask(&r->live, &o);
    ck_assert_int_eq(r->live.type, TOPOLOGY_OTHER);
    start(r, e, "i.quorum", 1, 20);
    live_publish(&r->live, "i.quorum", 20, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 20);
    intake_renew_after(e->intake, 100 * MONO_MS);
    LIVE_UNTIL(&r->live, stats(e)->renewed > 0 && stats(e)->unbacked == 0);
    uint64_t renewed = stats(e)->renewed;
    live_run_for(&r->live, 500);
    ck_assert_uint_eq(stats(e)->renewed, renewed);
    ck_assert_uint_eq(stats(e)->recognised, renewed);
    settle_all(e);
    LIVE_UNTIL(&r->live, stats(e)->acked == 20);
    rig_free(r);
}
END_TEST

/* ---- loss ---- */

/* The link goes while messages wait, are at workers, and are finished meanwhile: all come again, are
 * recognised, and those finished are acked without beginning anew. */
START_TEST(a_loss_begins_nothing_anew)
{
    static const struct loss cut = {.kind = LOSS_CONNECTION, .text = "cut by the test"};
    struct rig *r = rig_new("i.loss", NULL);
    struct end *e = &r->end[0];
    start(r, e, "i.loss", 4, 50);
    live_publish(&r->live, "i.loss", 300, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 200);
    for (int i = 0; i < 100; i++)
        e->begun[i] = true;
    link_abort(e->link, &cut);
    LIVE_UNTIL(&r->live, stats(e)->downs == 4);
    ck_assert_uint_eq(stats(e)->unbacked, 200);
    for (int i = 0; i < 50; i++)
        settle(e, i);
    ck_assert_uint_eq(stats(e)->held, 150);
    /* 50 are settled as they come, and make room for 50 of those that waited. */
    LIVE_UNTIL(&r->live, stats(e)->recognised == 200 && stats(e)->acked == 50 && e->n_got == 250);
    ck_assert_uint_eq(stats(e)->unbacked, 0);
    settle_all(e);
    LIVE_UNTIL(&r->live, e->n_got == 300);
    settle_all(e);
    LIVE_UNTIL(&r->live, stats(e)->acked == 300);
    ck_assert_int_eq(e->n_withdrawn, 0);
    expect_empty(r, "i.loss");
    rig_free(r);
}
END_TEST

/* A quorum queue adds a header to what it delivers again: it is known all the same. */
START_TEST(what_a_quorum_queue_delivers_again_is_recognised)
{
    static const struct loss cut = {.kind = LOSS_CONNECTION, .text = "cut by the test"};
    struct rig *r = rig_new("i.again", "quorum");
    struct end *e = &r->end[0];
    start(r, e, "i.again", 2, 50);
    live_publish(&r->live, "i.again", 60, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 60);
    for (uint64_t round = 1; round <= 2; round++) {
        link_abort(e->link, &cut);
        LIVE_UNTIL(&r->live, stats(e)->downs == 2 * round);
        LIVE_UNTIL(&r->live, stats(e)->recognised == 60 * round);
    }
    ck_assert_int_eq(e->n_got, 60);
    settle_all(e);
    LIVE_UNTIL(&r->live, stats(e)->acked == 60);
    expect_empty(r, "i.again");
    rig_free(r);
}
END_TEST

/* Equal messages stand for each other, and each is settled once. */
START_TEST(equal_messages_are_settled_once_each)
{
    static const struct loss cut = {.kind = LOSS_CONNECTION, .text = "cut by the test"};
    struct rig *r = rig_new("i.equal", NULL);
    struct end *e = &r->end[0];
    start(r, e, "i.equal", 2, 30);
    live_publish(&r->live, "i.equal", 40, true, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 40);
    link_abort(e->link, &cut);
    LIVE_UNTIL(&r->live, stats(e)->downs == 2);
    for (int i = 0; i < 15; i++)
        settle(e, i);
    LIVE_UNTIL(&r->live, stats(e)->acked == 15 && stats(e)->unbacked == 0);
    ck_assert_uint_eq(stats(e)->held, 25);
    ck_assert_int_eq(e->n_got, 40);
    settle_all(e);
    LIVE_UNTIL(&r->live, stats(e)->acked == 40);
    expect_empty(r, "i.equal");
    rig_free(r);
}
END_TEST

/* Full of bytes and paused, it consumes again for what it awaits. */
START_TEST(a_loss_while_paused_for_bytes_ends)
{
    static const struct loss cut = {.kind = LOSS_CONNECTION, .text = "cut by the test"};
    struct rig *r = rig_new("i.bytes", NULL);
    struct end *e = &r->end[0];
    struct intake_options o = {
        .queue = "i.bytes",
        .channels = 2,
        .window = 100,
        .window_bytes = 10000,
        .sink = sink_of(e),
    };
    e->link = live_link(&r->live, "consume");
    ck_assert_int_eq(intake_new(e->link, &o, &e->intake), 0);
    live_publish(&r->live, "i.bytes", 150, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, stats(e)->overflow > 0);
    size_t held = stats(e)->held;
    for (size_t i = 0; i < held; i++)
        e->begun[i] = true;
    link_abort(e->link, &cut);
    LIVE_UNTIL(&r->live, stats(e)->downs >= 2);
    LIVE_UNTIL(&r->live, stats(e)->recognised >= held && stats(e)->unbacked == 0);
    ck_assert_uint_le(stats(e)->held_bytes, 10000);
    for (int rounds = 0; stats(e)->acked < 150 && rounds < 1000; rounds++) {
        settle_all(e);
        live_turn(&r->live);
    }
    ck_assert_int_eq(e->n_got, 150);
    expect_empty(r, "i.bytes");
    rig_free(r);
}
END_TEST

/* ---- draining, while the sink still serves what it holds ---- */

/* Nothing is consumed any more, so nothing comes again: what waits is another's now, what is at a
 * worker stays until it is done. */
START_TEST(a_loss_while_draining_withdraws_what_waits)
{
    static const struct loss cut = {.kind = LOSS_CONNECTION, .text = "cut by the test"};
    struct rig *r = rig_new("i.drain", NULL);
    struct end *e = &r->end[0], *other = &r->end[1];
    start(r, e, "i.drain", 2, 50);
    live_publish(&r->live, "i.drain", 60, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 60);
    for (int i = 0; i < 10; i++)
        e->begun[i] = true;
    intake_drain(e->intake);
    ck_assert_uint_eq(stats(e)->held, 60);
    link_abort(e->link, &cut);
    LIVE_UNTIL(&r->live, stats(e)->downs == 2);
    LIVE_UNTIL(&r->live, e->n_withdrawn == 50);
    ck_assert_uint_eq(stats(e)->held, 10);
    ck_assert_int_eq(e->n_idle, 0);
    settle_all(e);
    ck_assert_int_eq(e->n_idle, 1);
    LIVE_UNTIL(&r->live, stats(e)->unbacked == 0);
    start(r, other, "i.drain", 1, 100);
    LIVE_UNTIL(&r->live, other->n_got == 60);
    settle_all(other);
    expect_empty(r, "i.drain");
    rig_free(r);
}
END_TEST

/* What would be renewed is given back for good, before RabbitMQ closes the channel over it. */
START_TEST(what_is_due_while_draining_is_given_back)
{
    struct rig *r = rig_new("i.due", NULL);
    struct end *e = &r->end[0], *other = &r->end[1];
    start(r, e, "i.due", 2, 50);
    live_publish(&r->live, "i.due", 60, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 60);
    for (int i = 0; i < 10; i++)
        e->begun[i] = true;
    intake_drain(e->intake);
    intake_renew_after(e->intake, 300 * MONO_MS);
    LIVE_UNTIL(&r->live, stats(e)->requeued == 50);
    ck_assert_int_eq(e->n_withdrawn, 50);
    ck_assert_uint_eq(stats(e)->held, 10);
    start(r, other, "i.due", 1, 100);
    LIVE_UNTIL(&r->live, other->n_got == 50);
    settle_all(e);
    settle_all(other);
    ck_assert_uint_eq(stats(e)->acked + stats(other)->acked, 60);
    expect_empty(r, "i.due");
    rig_free(r);
}
END_TEST

/* ---- many channels ---- */

static int n_channels_of(const struct end *e)
{
    const struct intake_channel *seen[32];
    int n = 0;
    for (int i = 0; i < e->n_got; i++) {
        int at = 0;
        while (at < n && seen[at] != e->got[i]->channel)
            at++;
        if (at == n)
            seen[n++] = e->got[i]->channel;
    }
    return n;
}

/* RabbitMQ closes a channel over an ack of what is acked already, `multiple` included. */
START_TEST(acks_in_any_order_over_eight_channels)
{
    enum { COUNT = 1600 };
    struct rig *r = rig_new("i.order", NULL);
    struct end *e = &r->end[0];
    struct rng rng = {.state = 7};
    int seen[COUNT] = {0};
    start(r, e, "i.order", 8, 50);
    live_publish(&r->live, "i.order", COUNT, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 400);
    ck_assert_int_eq(n_channels_of(e), 8);
    for (int left = COUNT; left > 0; left--) {
        LIVE_UNTIL(&r->live, stats(e)->held > 0);
        int at = (int)(rng_next(&rng) % (uint64_t)e->n_got);
        while (e->got[at] == NULL)
            at = (at + 1) % e->n_got;
        seen[number_of(e->got[at])]++;
        settle(e, at);
        if (left % 50 == 0)
            live_turn(&r->live);
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(seen[i], 1);
    ck_assert_uint_eq(stats(e)->acked, COUNT);
    live_run_for(&r->live, 200); /* a channel that RabbitMQ does not like would be closed by now */
    ck_assert_uint_eq(stats(e)->downs, 0);
    expect_empty(r, "i.order");
    rig_free(r);
}
END_TEST

/* ---- as much as is of use ---- */

/* Asleep nothing comes; each rise brings whole channels, without what is held being taken for room;
 * and a fall lets what is held end. */
START_TEST(it_takes_as_much_as_its_limit_says)
{
    struct rig *r = rig_new("i.limit", NULL);
    struct end *e = &r->end[0], *other = &r->end[1];
    start(r, e, "i.limit", 4, 50);
    intake_limit(e->intake, 0);
    ck_assert_str_eq(intake_state_name(e->intake), "sleeping");
    live_publish(&r->live, "i.limit", 400, false, (struct text){NULL, 0});
    live_run_for(&r->live, 300);
    ck_assert_int_eq(e->n_got, 0);
    ck_assert(intake_is_up(e->intake));
    intake_limit(e->intake, 51);
    ck_assert_uint_eq(intake_limit_now(e->intake), 100);
    LIVE_UNTIL(&r->live, e->n_got == 100);
    ck_assert_int_eq(n_channels_of(e), 2);
    intake_limit(e->intake, 1000);
    LIVE_UNTIL(&r->live, e->n_got == 200);
    ck_assert_int_eq(n_channels_of(e), 4);
    live_run_for(&r->live, 200);
    ck_assert_int_eq(e->n_got, 200);
    intake_limit(e->intake, 50);
    LIVE_UNTIL(&r->live, intake_channels_up(e->intake) == 1);
    settle_all(e);
    LIVE_UNTIL(&r->live, e->n_got == 250);
    live_run_for(&r->live, 200);
    ck_assert_int_eq(e->n_got, 250);
    intake_limit(e->intake, 0);
    LIVE_UNTIL(&r->live, intake_channels_up(e->intake) == 0);
    settle_all(e);
    start(r, other, "i.limit", 1, 200);
    LIVE_UNTIL(&r->live, other->n_got == 150);
    settle_all(other);
    ck_assert_uint_eq(stats(e)->downs, 0);
    expect_empty(r, "i.limit");
    rig_free(r);
}
END_TEST

/* ---- RabbitMQ's delivery timeout ---- */

/* For channels that are opened from now on, looked at five times a second. */
static void set_delivery_timeout(mono_t timeout)
{
    char args[200];
    snprintf(args, sizeof args,
             "eval 'application:set_env(rabbit, consumer_timeout, %d), "
             "application:set_env(rabbit, channel_tick_interval, 200).'",
             (int)(timeout / MONO_MS));
    live_ctl(args);
}

/* Held for three times the timeout: each is the same, at its place, and acked once in the end. */
START_TEST(a_thousand_outlast_the_delivery_timeout)
{
    enum { COUNT = 1000 };
    const mono_t timeout = 3 * MONO_S;
    static struct held *same[COUNT];
    static mono_t received_at[COUNT];
    static int number[COUNT];
    set_delivery_timeout(timeout);
    struct rig *r = rig_new("i.timeout", NULL);
    struct end *e = &r->end[0];
    start(r, e, "i.timeout", 8, 125);
    intake_renew_after(e->intake, timeout / 3);
    live_publish(&r->live, "i.timeout", COUNT, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == COUNT);
    for (int i = 0; i < COUNT; i++) {
        same[i] = e->got[i];
        received_at[i] = e->got[i]->received_at;
        number[i] = number_of(e->got[i]);
    }
    live_run_for(&r->live, (int)(3 * timeout / MONO_MS));
    ck_assert_uint_ge(stats(e)->renewed, 3 * COUNT);
    intake_renew_after(e->intake, 0);
    LIVE_UNTIL(&r->live, stats(e)->unbacked == 0);
    ck_assert_uint_eq(stats(e)->recognised, stats(e)->renewed);
    ck_assert_uint_eq(stats(e)->downs, 0);
    ck_assert_int_eq(e->n_got, COUNT);
    for (int i = 0; i < COUNT; i++) {
        ck_assert_ptr_eq(e->got[i], same[i]);
        ck_assert_int_eq(e->got[i]->received_at, received_at[i]);
        ck_assert_int_eq(number_of(e->got[i]), number[i]);
    }
    settle_all(e);
    LIVE_UNTIL(&r->live, stats(e)->acked == COUNT);
    expect_empty(r, "i.timeout");
    rig_free(r);
}
END_TEST

/* What is at a worker for too long loses its channel, and what waits on it too. The worker's ack,
 * while the channel is away, settles what comes again. */
START_TEST(a_job_longer_than_the_timeout_is_not_begun_anew)
{
    const mono_t timeout = 2 * MONO_S;
    set_delivery_timeout(timeout);
    struct rig *r = rig_new("i.late", NULL);
    struct end *e = &r->end[0];
    start(r, e, "i.late", 1, 30);
    intake_renew_after(e->intake, timeout / 3);
    live_publish(&r->live, "i.late", 30, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, e->n_got == 30);
    for (int i = 0; i < 10; i++)
        e->begun[i] = true;
    LIVE_UNTIL(&r->live, stats(e)->downs == 1);
    for (int i = 0; i < 10; i++) {
        ck_assert(e->got[i]->unbacked);
        settle(e, i);
    }
    LIVE_UNTIL(&r->live, stats(e)->acked == 10);
    ck_assert_int_eq(e->n_got, 30);
    ck_assert_int_eq(e->n_withdrawn, 0);
    ck_assert_uint_eq(stats(e)->held, 20);
    intake_renew_after(e->intake, 0);
    LIVE_UNTIL(&r->live, stats(e)->unbacked == 0);
    settle_all(e);
    LIVE_UNTIL(&r->live, stats(e)->acked == 30);
    expect_empty(r, "i.late");
    rig_free(r);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {what_waits_is_renewed_and_keeps_its_place,
                                  what_is_at_a_worker_is_not_renewed,
                                  what_does_not_come_back_is_withdrawn,
                                  two_that_renew_one_queue_begin_with_nothing_twice,
                                  a_quorum_queue_is_not_renewed_for_long,
                                  a_loss_begins_nothing_anew,
                                  what_a_quorum_queue_delivers_again_is_recognised,
                                  equal_messages_are_settled_once_each,
                                  a_loss_while_paused_for_bytes_ends,
                                  a_loss_while_draining_withdraws_what_waits,
                                  what_is_due_while_draining_is_given_back,
                                  acks_in_any_order_over_eight_channels,
                                  it_takes_as_much_as_its_limit_says,
                                  a_thousand_outlast_the_delivery_timeout,
                                  a_job_longer_than_the_timeout_is_not_begun_anew,
                                  NULL};
    return suite_of("intake", tests);
}
