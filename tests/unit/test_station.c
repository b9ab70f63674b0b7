#include "flow/station.h"

#include "lib/testmain.h"

#include <string.h>

static struct text no_header(const void *message, const char *name, char scratch[JOB_SCRATCH_BYTES])
{
    return (struct text){NULL, 0};
}

/* What the station told last. */
struct told {
    int available, ended;
    void *owner;
    bool dead;
};

static void on_ended(void *ctx, void *owner, const struct hb_end *end, int64_t now)
{
    struct told *t = ctx;
    t->ended++;
    t->owner = owner;
    t->dead = end->how == HB_ENDED_DEAD;
}

static void on_available(void *ctx)
{
    struct told *t = ctx;
    t->available++;
}

struct fixture {
    struct flow *flow;
    struct station *station;
    struct told told;
};

static void setup(struct fixture *x, enum flow_mode mode)
{
    struct flow_options flow = {
        .rules = {.mode = mode,
                  .respect_priority = FLOW_RESPECT_ALWAYS,
                  .key = {.producer = {{KEY_APP_ID, NULL}},
                          .n_producer = 1,
                          .label = {{KEY_TYPE, NULL}},
                          .n_label = 1},
                  .max_duration_ms = 1000},
        .remembered_ids = 10,
    };
    hb_predictor_options_init(&flow.predictor);
    *x = (struct fixture){.flow = flow_new(&flow, NULL)};
    struct station_options o = {
        .flow = x->flow, .ended = on_ended, .available = on_available, .ctx = &x->told};
    hb_broker_options_init(&o.broker);
    x->station = station_new(&o, NULL);
    ck_assert_ptr_nonnull(x->station);
}

static void teardown(struct fixture *x)
{
    station_free(x->station);
    flow_free(x->flow);
}

static struct station_message submit(struct fixture *x, const char *type, void *owner, int64_t now)
{
    struct job job = {.app_id = text_of("p"), .type = text_of(type), .header = no_header};
    struct station_message m = {
        .job = &job, .payload = {type, strlen(type)}, .owner = owner, .ttl_ns = HB_TTL_DEFAULT};
    ck_assert_int_eq(station_submit(x->station, &m, now), HB_BROKER_OK);
    ck_assert_uint_ne(m.id, 0);
    ck_assert_int_eq(m.message != NULL, owner != NULL);
    return m;
}

/* Pulls the next message, checks that it is of this type, and acks it after `ms`. */
static void serve(struct fixture *x, const char *type, double ms, int64_t now)
{
    struct hb_delivery d;
    ck_assert_int_eq(hb_broker_pull(station_broker(x->station), 1, now, &d), HB_BROKER_OK);
    ck_assert_uint_eq(d.payload.n, strlen(type));
    ck_assert_mem_eq(d.payload.p, type, d.payload.n);
    struct hb_settlement s = {.consumer = 1, .id = d.id, .token = d.token, .duration_ms = ms};
    ck_assert_int_eq(hb_broker_ack(station_broker(x->station), &s, now), HB_BROKER_OK);
}

/* The whole circle without any report: durations of acks decide who is served first. */
START_TEST(acks_teach_the_next_decision)
{
    struct fixture x;
    setup(&x, FLOW_PREDICTIVE);
    for (int i = 0; i < 40; i++) {
        submit(&x, "slow", NULL, 1);
        serve(&x, "slow", 900, 1);
        submit(&x, "medium", NULL, 1);
        serve(&x, "medium", 50, 1);
        submit(&x, "fast", NULL, 1);
        serve(&x, "fast", 2, 1);
    }
    submit(&x, "slow", NULL, 2);
    submit(&x, "medium", NULL, 2);
    struct station_message m = submit(&x, "fast", NULL, 2);
    ck_assert_uint_eq(m.level, 0);
    ck_assert_str_eq(m.reason, "predicted");
    ck_assert_double_eq_tol(m.estimate_ms, 2, 0.5);
    serve(&x, "fast", 2, 3);
    serve(&x, "medium", 50, 3);
    serve(&x, "slow", 900, 3);
    ck_assert_uint_eq(flow_stats(x.flow)->settled, 123);
    ck_assert_int_eq(x.told.ended, 0);
    ck_assert_int_eq(x.told.available, 123);
    teardown(&x);
}
END_TEST

/* An owned message is handed back at its end, with how it ended. */
START_TEST(owners_hear_of_the_end)
{
    struct fixture x;
    setup(&x, FLOW_STATIC);
    int first, second;
    submit(&x, "a", &first, 1);
    serve(&x, "a", 5, 2);
    ck_assert_ptr_eq(x.told.owner, &first);
    ck_assert(!x.told.dead);
    submit(&x, "b", &second, 3);
    for (int i = 0; i < 3; i++) {
        struct hb_delivery d;
        ck_assert_int_eq(hb_broker_pull(station_broker(x.station), 1, 4, &d), HB_BROKER_OK);
        ck_assert_ptr_eq(d.owner, &second);
        struct hb_settlement s = {.consumer = 1, .id = d.id, .token = d.token, .duration_ms = -1};
        ck_assert_int_eq(hb_broker_nack(station_broker(x.station), &s, 4), HB_BROKER_OK);
    }
    ck_assert_int_eq(x.told.ended, 2);
    ck_assert_ptr_eq(x.told.owner, &second);
    ck_assert(x.told.dead);
    teardown(&x);
}
END_TEST

/* A producer's own priority, where it is respected, is a level: larger is served first. */
START_TEST(a_producers_priority_is_a_level)
{
    struct fixture x;
    setup(&x, FLOW_PREDICTIVE);
    static const char *const types[] = {"zero", "one", "nine"};
    static const uint8_t priorities[] = {0, 1, 9};
    for (int i = 0; i < 3; i++) {
        struct job job = {.type = text_of(types[i]),
                          .has_priority = true,
                          .priority = priorities[i],
                          .header = no_header};
        struct station_message m = {.job = &job, .payload = {types[i], strlen(types[i])}};
        ck_assert_int_eq(station_submit(x.station, &m, 1), HB_BROKER_OK);
    }
    serve(&x, "nine", 1, 2);
    serve(&x, "one", 1, 2);
    serve(&x, "zero", 1, 2);
    teardown(&x);
}
END_TEST

/* A broker at its bound refuses, and the flow has then decided nothing. */
START_TEST(a_full_broker_is_passed_on)
{
    struct fixture x;
    setup(&x, FLOW_PREDICTIVE);
    struct station_options o = {.flow = x.flow};
    hb_broker_options_init(&o.broker);
    o.broker.max_messages = 1;
    struct station *s = station_new(&o, NULL);
    struct job job = {.header = no_header};
    struct station_message m = {.job = &job};
    ck_assert_int_eq(station_submit(s, &m, 1), HB_BROKER_OK);
    ck_assert_int_eq(station_submit(s, &m, 1), HB_BROKER_FULL);
    ck_assert_uint_eq(flow_stats(x.flow)->jobs, 1);
    station_free(s);
    teardown(&x);
}
END_TEST

/* A wrong option is named. */
START_TEST(bad_options_are_refused_with_words)
{
    struct station_options o = {0};
    struct err err;
    hb_broker_options_init(&o.broker);
    o.broker.levels = 0;
    ck_assert_ptr_null(station_new(&o, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "levels"));
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {acks_teach_the_next_decision,       owners_hear_of_the_end,
                                  a_producers_priority_is_a_level,    a_full_broker_is_passed_on,
                                  bad_options_are_refused_with_words, NULL};
    return suite_of("station", tests);
}
