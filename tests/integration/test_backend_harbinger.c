/* The harbinger backend against a live RabbitMQ, pulled from and settled without a network between:
 * what its deliveries become at the intake. */
#include "live.h"
#include "sidecar/backend_harbinger.h"
#include "sidecar/loop.h"
#include "sidecar/rules.h"

#define INTAKE "b.intake"
#define PARKED "b.parked"

struct rig {
    struct live live;
    struct conf conf;
    struct link *consume, *publish;
    struct flow *flow;
    struct backend_harbinger *backend;
    struct intake *intake;
    bool idle;
};

static void on_room(void *ctx)
{
    struct rig *r = ctx;
    intake_pump(r->intake);
}

static void on_idle(void *ctx)
{
    struct rig *r = ctx;
    r->idle = true;
}

static struct hb_broker *broker(struct rig *r)
{
    return station_broker(backend_harbinger_station(r->backend));
}

static struct hb_broker_stats stats(struct rig *r)
{
    struct hb_broker_stats s;
    hb_broker_stats(broker(r), &s);
    return s;
}

static const struct intake_stats *intake(const struct rig *r)
{
    return intake_stats(r->intake);
}

static struct parking_stats parking(const struct rig *r)
{
    struct backend_harbinger_stats s;
    backend_harbinger_stats(r->backend, &s);
    return s.parking;
}

/* The sidecar's parts, as the daemon puts them together. */
static void start(struct rig *r)
{
    struct err err = {0};
    struct flow_options flow;
    struct backend_harbinger_options backend = {.conf = &r->conf, .on_room = on_room, .ctx = r};
    struct intake_options o = {
        .queue = INTAKE,
        .channels = conf_intake_channels(&r->conf),
        .window = (uint16_t)r->conf.intake.window,
        .window_bytes = r->conf.intake.window_bytes,
        .on_idle = on_idle,
        .ctx = r,
    };
    rules_flow_options(&r->conf, &flow);
    r->flow = flow_new(&flow, &err);
    ck_assert_msg(r->flow != NULL, "%s", err.msg);
    r->consume = live_link(&r->live, "consume");
    r->publish = live_link(&r->live, "publish");
    backend.flow = r->flow;
    ck_assert_int_eq(backend_harbinger_new(r->publish, &live_sink, &backend, &r->backend, &err), 0);
    o.sink = backend_harbinger_sink(r->backend);
    ck_assert_int_eq(intake_new(r->consume, &o, &r->intake), 0);
    LIVE_UNTIL(&r->live, intake_is_up(r->intake));
}

static void stop(struct rig *r)
{
    live_run_for(&r->live, 100); /* the last acks go out */
    backend_harbinger_free(r->backend);
    intake_free(r->intake);
    link_free(r->consume);
    link_free(r->publish);
    flow_free(r->flow);
    r->backend = NULL;
    r->intake = NULL;
    r->consume = r->publish = NULL;
    r->flow = NULL;
}

/* `sets`: options as --set takes them. */
static struct rig *rig_new(const char *const *sets, size_t n_sets)
{
    struct conf_errors errors = {0};
    struct rig *r = calloc(1, sizeof *r);
    ck_assert_int_eq(conf_load_file(NULL, sets, n_sets, &r->conf, &errors), 0);
    live_init(&r->live);
    live_queue(&r->live, INTAKE);
    live_queue(&r->live, PARKED);
    return r;
}

static struct rig *rig_with(const char *option)
{
    const char *sets[] = {"backend=harbinger", "parked.queue=" PARKED, "intake.queue=" INTAKE,
                          option};
    return rig_new(sets, option != NULL ? 4 : 3);
}

static void rig_free(struct rig *r)
{
    if (r->intake != NULL)
        stop(r);
    live_fini(&r->live);
    conf_fini(&r->conf);
    free(r);
}

/* ---- a queue looked into ---- */

struct look {
    int n;
    char reason[1024]; /* of the last one: the header of parked messages */
    struct text body;
    char number[8];
    struct consumer *consumer;
};

static void on_look(void *ctx, struct consumer_tag tag, bool redelivered, struct message *m)
{
    struct look *l = ctx;
    struct text why = props_header_text(&m->props, text_of("x-harbinger-parked-reason"));
    l->n++;
    snprintf(l->reason, sizeof l->reason, "%.*s", (int)why.n, why.n > 0 ? why.p : "");
    snprintf(l->number, sizeof l->number, "%.*s", (int)m->body.n, m->body.p);
    message_free(m);
    ck_assert_int_eq(consumer_ack(l->consumer, tag), 0);
}

/* Takes all that is in the queue, until nothing came for half a second. */
static struct look look_into(struct rig *r, const char *queue)
{
    struct look l = {.n = 0};
    struct consumer_options o = {
        .queue = queue, .prefetch = 1000, .on_delivery = on_look, .ctx = &l};
    int before;
    ck_assert_int_eq(consumer_new(r->live.link, &o, &l.consumer), 0);
    LIVE_UNTIL(&r->live, consumer_is_up(l.consumer));
    do {
        before = l.n;
        live_run_for(&r->live, 500);
    } while (l.n > before);
    consumer_free(l.consumer);
    live_run_for(&r->live, 100);
    return l;
}

/* ---- a worker ---- */

static struct hb_settlement pull(struct rig *r)
{
    struct hb_delivery d;
    ck_assert_int_eq(hb_broker_pull(broker(r), 1, loop_now(), &d), HB_BROKER_OK);
    return (struct hb_settlement){.consumer = 1, .id = d.id, .token = d.token, .duration_ms = 3};
}

static void ack_one(struct rig *r)
{
    struct hb_settlement s = pull(r);
    ck_assert_int_eq(hb_broker_ack(broker(r), &s, loop_now()), HB_BROKER_OK);
}

static void nack_one(struct rig *r)
{
    struct hb_settlement s = pull(r);
    s.reason = (struct hb_bytes){"the disk is full", 16};
    ck_assert_int_eq(hb_broker_nack(broker(r), &s, loop_now()), HB_BROKER_OK);
}

/* ---- what becomes of a message ---- */

/* Nothing is acked to the intake before a worker has acked it. */
START_TEST(the_intake_is_acked_after_the_worker)
{
    struct rig *r = rig_with(NULL);
    start(r);
    live_publish(&r->live, INTAKE, 100, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, stats(r).waiting == 100);
    struct hb_settlement first = pull(r);
    live_run_for(&r->live, 200);
    ck_assert_uint_eq(intake(r)->acked, 0);
    ck_assert_int_eq(hb_broker_ack(broker(r), &first, loop_now()), HB_BROKER_OK);
    ck_assert_uint_eq(intake(r)->acked, 1);
    for (int i = 1; i < 100; i++)
        ack_one(r);
    ck_assert_uint_eq(intake(r)->acked, 100);
    stop(r);
    ck_assert_int_eq(look_into(r, INTAKE).n, 0);
    rig_free(r);
}
END_TEST

/* Out of attempts: parked with the worker's words, and only then acked. */
START_TEST(what_fails_too_often_is_parked)
{
    struct rig *r = rig_with("broker.max_attempts=2");
    start(r);
    live_publish(&r->live, INTAKE, 1, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, stats(r).waiting == 1);
    nack_one(r);
    ck_assert_uint_eq(stats(r).waiting, 1);
    nack_one(r);
    ck_assert_uint_eq(intake(r)->acked, 0);
    ck_assert_uint_eq(parking(r).n_waiting, 1);
    LIVE_UNTIL(&r->live, intake(r)->acked == 1);
    ck_assert_uint_eq(parking(r).parked, 1);
    struct look l = look_into(r, PARKED);
    ck_assert_int_eq(l.n, 1);
    ck_assert_str_eq(l.number, "000000");
    ck_assert_str_eq(l.reason, "max_retries: attempt 2 of 2 failed: the disk is full");
    rig_free(r);
}
END_TEST

/* A worker that says nothing fails by its lease, which the timer sees without any call. */
START_TEST(a_lease_that_runs_out_is_seen_by_itself)
{
    struct rig *r = rig_with("broker.lease=200ms");
    start(r);
    live_publish(&r->live, INTAKE, 1, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, stats(r).waiting == 1);
    pull(r);
    LIVE_UNTIL(&r->live, stats(r).leases_expired == 1 && stats(r).waiting == 1);
    ack_one(r);
    ck_assert_uint_eq(intake(r)->acked, 1);
    rig_free(r);
}
END_TEST

/* The broker's own time to live parks. */
START_TEST(what_is_too_old_for_the_broker_is_parked)
{
    struct rig *r = rig_with("broker.ttl=200ms");
    start(r);
    live_publish(&r->live, INTAKE, 3, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, parking(r).parked == 3 && intake(r)->acked == 3);
    ck_assert_mem_eq(look_into(r, PARKED).reason, "ttl_expired: ", 13);
    rig_free(r);
}
END_TEST

/* A message's own expiration does what RabbitMQ does: its queue's dead-letter exchange decides. */
START_TEST(what_expires_by_its_own_is_discarded)
{
    static const char props[] = "\x01\x00\x03"
                                "200"; /* expiration: 200 ms */
    struct rig *r = rig_with(NULL);
    start(r);
    live_publish(&r->live, INTAKE, 3, false, (struct text){props, 6});
    LIVE_UNTIL(&r->live, stats(r).waiting == 3);
    LIVE_UNTIL(&r->live, intake(r)->discarded == 3);
    ck_assert_uint_eq(intake(r)->held, 0);
    live_run_for(&r->live, 200);
    ck_assert_int_eq(look_into(r, PARKED).n, 0);
    rig_free(r);
}
END_TEST

/* Stopping gives back what waits and waits for what is at a worker, whose failure gives it back. */
START_TEST(stopping_gives_back_what_waits)
{
    struct rig *r = rig_with(NULL);
    start(r);
    live_publish(&r->live, INTAKE, 10, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, stats(r).waiting == 10);
    struct hb_settlement done = pull(r), failed = pull(r);
    backend_harbinger_drain(r->backend);
    intake_drain(r->intake);
    ck_assert_uint_eq(intake(r)->held, 2);
    ck_assert(!r->idle);
    ck_assert_int_eq(hb_broker_ack(broker(r), &done, loop_now()), HB_BROKER_OK);
    ck_assert_int_eq(hb_broker_nack(broker(r), &failed, loop_now()), HB_BROKER_OK);
    LIVE_UNTIL(&r->live, r->idle);
    stop(r);
    ck_assert_int_eq(look_into(r, INTAKE).n, 9);
    rig_free(r);
}
END_TEST

/* What a loss of the link takes away is settled when it comes again, and is not run twice. */
START_TEST(an_ack_during_a_loss_counts)
{
    static const struct loss cut = {.kind = LOSS_CONNECTION, .text = "cut by the test"};
    struct rig *r = rig_with(NULL);
    start(r);
    live_publish(&r->live, INTAKE, 50, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, stats(r).waiting == 50);
    struct hb_settlement running = pull(r);
    link_abort(r->consume, &cut);
    LIVE_UNTIL(&r->live, intake(r)->unbacked == 50);
    ck_assert_int_eq(hb_broker_ack(broker(r), &running, loop_now()), HB_BROKER_OK);
    for (int i = 0; i < 9; i++)
        ack_one(r);
    LIVE_UNTIL(&r->live, intake(r)->acked == 10 && intake(r)->unbacked == 0);
    ck_assert_uint_eq(stats(r).submitted, 50);
    for (int i = 0; i < 40; i++)
        ack_one(r);
    ck_assert_uint_eq(intake(r)->acked, 50);
    stop(r);
    ck_assert_int_eq(look_into(r, INTAKE).n, 0);
    rig_free(r);
}
END_TEST

/* The parked queue is gone: the message stays until there is one again. */
START_TEST(what_cannot_be_parked_stays)
{
    struct rig *r = rig_with("broker.max_attempts=1");
    start(r);
    ck_assert_int_eq(conf_set(&r->conf, "parked.queue=b.none", NULL), 0);
    live_publish(&r->live, INTAKE, 1, false, (struct text){NULL, 0});
    LIVE_UNTIL(&r->live, stats(r).waiting == 1);
    nack_one(r);
    LIVE_UNTIL(&r->live, parking(r).n_stuck == 1);
    ck_assert_uint_eq(intake(r)->held, 1);
    ck_assert_uint_eq(intake(r)->acked, 0);
    stop(r);
    ck_assert_int_eq(look_into(r, INTAKE).n, 1);
    rig_free(r);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {the_intake_is_acked_after_the_worker,
                                  what_fails_too_often_is_parked,
                                  a_lease_that_runs_out_is_seen_by_itself,
                                  what_is_too_old_for_the_broker_is_parked,
                                  what_expires_by_its_own_is_discarded,
                                  stopping_gives_back_what_waits,
                                  an_ack_during_a_loss_counts,
                                  what_cannot_be_parked_stays,
                                  NULL};
    return suite_of("backend_harbinger", tests);
}
