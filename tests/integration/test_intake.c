/* The intake against a live RabbitMQ, with a sink that keeps what it gets: renewal, and what becomes
 * of it when a channel is lost. HARBINGER_TEST_AMQP is the address; tests/lib/with-rabbit sets it. */
#include "amqp/publisher.h"
#include "amqp/topology.h"
#include "lib/testmain.h"
#include "sidecar/intake.h"
#include "sidecar/loop.h"

#include <event2/event.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 2000 };

/* One sidecar's end: a link, an intake, and what its sink got. */
struct end {
    struct link *link;
    struct intake *intake;
    struct held *got[MOST]; /* in the order of their submission; NULL: settled or withdrawn */
    bool begun[MOST];
    int n_got, n_withdrawn;
};

struct rig {
    struct event_base *base;
    struct link *link;
    struct publisher *publisher;
    struct topology *topology;
    enum topology_queue_type type;
    int n_confirmed, n_reports;
    uint32_t n_ready; /* in the queue, as last asked */
    struct end end[2];
};

static void log_line(void *ctx, enum log_level level, const char *event, const char *fields)
{
    (void)ctx;
    fprintf(stderr, "# %s %s %s\n", log_level_name(level), event, fields);
}

static const struct log_sink sink = {.write = log_line, .level = LOG_WARN};

static bool turn(struct rig *r)
{
    struct timeval tv = {0, 20000};
    event_base_loopexit(r->base, &tv);
    event_base_dispatch(r->base);
    return true;
}

/* The loop runs until `what` holds, at most 30 s. */
#define WAIT_UNTIL(r, what)                                 \
    do {                                                    \
        int left_ = 1500;                                   \
        while (!(what) && left_-- > 0 && turn(r))           \
            ;                                               \
        ck_assert_msg((what), "waited in vain for " #what); \
    } while (0)

static void run_for(struct rig *r, int ms)
{
    for (; ms > 0; ms -= 20)
        turn(r);
}

static struct link *new_link(struct rig *r, const char *name)
{
    const char *uri = getenv("HARBINGER_TEST_AMQP");
    struct link_options o = {.name = name, .instance = "t", .uris = &uri, .n_uris = 1};
    struct link *l;
    struct err e;
    ck_assert_ptr_nonnull(uri);
    ck_assert_int_eq(link_new(r->base, &sink, &o, &l, &e), 0);
    link_start(l);
    WAIT_UNTIL(r, link_is_up(l));
    return l;
}

/* ---- the queue ---- */

static void on_report(void *ctx, const struct topology_report *report)
{
    struct rig *r = ctx;
    ck_assert_int_eq(report->result, TOPOLOGY_OK);
    r->n_reports++;
}

static void ask(struct rig *r, const struct topology_object *o)
{
    struct topology_job job = {
        .objects = o, .n_objects = 1, .types = &r->type, .done = on_report, .ctx = r};
    int before = r->n_reports;
    ck_assert_int_eq(topology_run(r->link, &job, &r->topology), 0);
    WAIT_UNTIL(r, r->n_reports > before);
    topology_free(r->topology);
    r->topology = NULL;
}

static void on_confirmed(void *ctx, void *cookie)
{
    struct rig *r = ctx;
    r->n_confirmed++;
}

static void on_failed(void *ctx, void *cookie)
{
    ck_abort_msg("a publish failed");
}

static void on_returned(void *ctx, void *cookie, uint16_t code, struct text why)
{
    on_failed(ctx, cookie);
}

static void on_lost(void *ctx, void *cookie, const struct loss *why)
{
    on_failed(ctx, cookie);
}

/* `same`: all with one body. */
static void publish(struct rig *r, const char *queue, int count, bool same)
{
    static const char no_properties[2];
    int before = r->n_confirmed;
    for (int i = 0; i < count; i++) {
        char body[24];
        struct publish what = {
            .routing_key = text_of(queue),
            .props = {no_properties, 2},
            .body = {body, (size_t)snprintf(body, sizeof body, "%06d", same ? 0 : i)},
        };
        ck_assert_int_eq(publisher_publish(r->publisher, &what), 0);
    }
    WAIT_UNTIL(r, r->n_confirmed == before + count);
}

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
        .sink = {.submit = submit, .waits = waits, .withdraw = withdraw, .ctx = e},
    };
    e->link = new_link(r, "consume");
    ck_assert_int_eq(intake_new(e->link, &o, &e->intake), 0);
    WAIT_UNTIL(r, intake_is_up(e->intake));
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
    struct publisher_options p = {
        .name = "t",
        .window_messages = MOST,
        .window_bytes = 1 << 20,
        .on_confirmed = on_confirmed,
        .on_returned = on_returned,
        .on_nacked = on_failed,
        .on_lost = on_lost,
        .ctx = r,
    };
    r->base = event_base_new();
    r->link = new_link(r, "publish");
    ask(r, &o);
    ck_assert_int_eq(publisher_new(r->link, &p, &r->publisher), 0);
    WAIT_UNTIL(r, publisher_is_up(r->publisher));
    return r;
}

/* The queue must be empty and nobody hold anything: another intake gets nothing. */
static void expect_empty(struct rig *r, const char *queue)
{
    run_for(r, 200); /* the last acks go out */
    for (int i = 0; i < 2; i++)
        stop(&r->end[i]);
    start(r, &r->end[0], queue, 1, 100);
    run_for(r, 500);
    ck_assert_int_eq(r->end[0].n_got, 0);
    stop(&r->end[0]);
}

static void rig_free(struct rig *r)
{
    for (int i = 0; i < 2; i++)
        stop(&r->end[i]);
    publisher_free(r->publisher);
    link_free(r->link);
    event_base_free(r->base);
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
    publish(r, "i.renew", 800, false);
    WAIT_UNTIL(r, e->n_got == 800);
    intake_renew_after(e->intake, 300 * MONO_MS);
    WAIT_UNTIL(r, stats(e)->renewed >= 2400);
    intake_renew_after(e->intake, 0);
    WAIT_UNTIL(r, stats(e)->unbacked == 0);
    ck_assert_uint_eq(stats(e)->recognised, stats(e)->renewed);
    ck_assert_int_eq(e->n_got, 800);
    ck_assert_uint_eq(stats(e)->held, 800);
    ck_assert_uint_eq(stats(e)->downs, 0);
    settle_all(e);
    WAIT_UNTIL(r, stats(e)->acked == 800);
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
    publish(r, "i.begun", 100, false);
    WAIT_UNTIL(r, e->n_got == 100);
    for (int i = 0; i < 90; i++)
        e->begun[i] = true;
    intake_renew_after(e->intake, 100 * MONO_MS);
    WAIT_UNTIL(r, stats(e)->renewed >= 20);
    for (int i = 0; i < 90; i++)
        ck_assert(!e->got[i]->unbacked);
    ck_assert_uint_le(stats(e)->renewed % 10, 9);
    ck_assert_uint_le(stats(e)->unbacked, 10);
    settle_all(e);
    intake_renew_after(e->intake, 0);
    WAIT_UNTIL(r, stats(e)->acked == 100 && stats(e)->unbacked == 0);
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
    publish(r, "i.other", 100, false);
    WAIT_UNTIL(r, e->n_got == 100);
    start(r, other, "i.other", 1, 100);
    intake_renew_after(e->intake, 100 * MONO_MS);
    WAIT_UNTIL(r, other->n_got > 10);
    intake_renew_after(e->intake, 0);
    WAIT_UNTIL(r, stats(e)->unbacked == 0);
    ck_assert_int_gt(e->n_withdrawn, 10);
    ck_assert_uint_eq(stats(e)->held + stats(other)->held, 100);
    settle_all(e);
    settle_all(other);
    WAIT_UNTIL(r, stats(e)->acked + stats(other)->acked == 100);
    expect_empty(r, "i.other");
    rig_free(r);
}
END_TEST

/* A quorum queue counts each renewal as a delivery: it is noticed with the first ones. */
START_TEST(a_quorum_queue_is_not_renewed_for_long)
{
    struct rig *r = rig_new("i.quorum", "quorum");
    struct end *e = &r->end[0];
    struct topology_object o = {.kind = TOPOLOGY_QUEUE, .name = "i.quorum", .any_arguments = true};
    ask(r, &o);
    ck_assert_int_eq(r->type, TOPOLOGY_OTHER);
    start(r, e, "i.quorum", 1, 20);
    publish(r, "i.quorum", 20, false);
    WAIT_UNTIL(r, e->n_got == 20);
    intake_renew_after(e->intake, 100 * MONO_MS);
    WAIT_UNTIL(r, stats(e)->renewed > 0 && stats(e)->unbacked == 0);
    uint64_t renewed = stats(e)->renewed;
    run_for(r, 500);
    ck_assert_uint_eq(stats(e)->renewed, renewed);
    ck_assert_uint_eq(stats(e)->recognised, renewed);
    settle_all(e);
    WAIT_UNTIL(r, stats(e)->acked == 20);
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
    publish(r, "i.loss", 300, false);
    WAIT_UNTIL(r, e->n_got == 200);
    for (int i = 0; i < 100; i++)
        e->begun[i] = true;
    link_abort(e->link, &cut);
    WAIT_UNTIL(r, stats(e)->downs == 4);
    ck_assert_uint_eq(stats(e)->unbacked, 200);
    for (int i = 0; i < 50; i++)
        settle(e, i);
    ck_assert_uint_eq(stats(e)->held, 150);
    /* 50 are settled as they come, and make room for 50 of those that waited. */
    WAIT_UNTIL(r, stats(e)->recognised == 200 && stats(e)->acked == 50 && e->n_got == 250);
    ck_assert_uint_eq(stats(e)->unbacked, 0);
    settle_all(e);
    WAIT_UNTIL(r, e->n_got == 300);
    settle_all(e);
    WAIT_UNTIL(r, stats(e)->acked == 300);
    ck_assert_int_eq(e->n_withdrawn, 0);
    expect_empty(r, "i.loss");
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
    publish(r, "i.equal", 40, true);
    WAIT_UNTIL(r, e->n_got == 40);
    link_abort(e->link, &cut);
    WAIT_UNTIL(r, stats(e)->downs == 2);
    for (int i = 0; i < 15; i++)
        settle(e, i);
    WAIT_UNTIL(r, stats(e)->acked == 15 && stats(e)->unbacked == 0);
    ck_assert_uint_eq(stats(e)->held, 25);
    ck_assert_int_eq(e->n_got, 40);
    settle_all(e);
    WAIT_UNTIL(r, stats(e)->acked == 40);
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
        .window_bytes = 20000, /* some 50 messages */
        .sink = {.submit = submit, .waits = waits, .withdraw = withdraw, .ctx = e},
    };
    e->link = new_link(r, "consume");
    ck_assert_int_eq(intake_new(e->link, &o, &e->intake), 0);
    publish(r, "i.bytes", 150, false);
    WAIT_UNTIL(r, stats(e)->overflow > 0);
    size_t held = stats(e)->held;
    for (size_t i = 0; i < held; i++)
        e->begun[i] = true;
    link_abort(e->link, &cut);
    WAIT_UNTIL(r, stats(e)->downs >= 2);
    WAIT_UNTIL(r, stats(e)->recognised >= held && stats(e)->unbacked == 0);
    ck_assert_uint_le(stats(e)->held_bytes, 20000);
    for (int rounds = 0; stats(e)->acked < 150 && rounds < 1000; rounds++) {
        settle_all(e);
        turn(r);
    }
    ck_assert_int_eq(e->n_got, 150);
    expect_empty(r, "i.bytes");
    rig_free(r);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {what_waits_is_renewed_and_keeps_its_place,
                                  what_is_at_a_worker_is_not_renewed,
                                  what_does_not_come_back_is_withdrawn,
                                  a_quorum_queue_is_not_renewed_for_long,
                                  a_loss_begins_nothing_anew,
                                  equal_messages_are_settled_once_each,
                                  a_loss_while_paused_for_bytes_ends,
                                  NULL};
    return suite_of("intake", tests);
}
