/* What op scripts cannot say about the delivery core; the rest of its rules are in
 * tests/script/broker_*.script. */
#include "lib/brokers.h"
#include "lib/testmain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct hb_broker_options defaults(void)
{
    struct hb_broker_options o;
    hb_broker_options_init(&o);
    return o;
}

static struct hb_broker *with(const struct hb_broker_options *o)
{
    struct hb_broker *b = hb_broker_new(o, NULL);
    ck_assert_ptr_nonnull(b);
    return b;
}

static void submit(struct hb_broker *b, const char *payload, int64_t now)
{
    struct hb_submission s = message(payload);
    ck_assert_int_eq(hb_broker_submit(b, &s, now, NULL, NULL), HB_BROKER_OK);
}

/* A message goes in, out and is done; every invariant holds on the way. */
START_TEST(a_message_is_submitted_pulled_and_acknowledged)
{
    struct hb_broker_options o = defaults();
    struct hb_broker *b = with(&o);
    struct hb_delivery d;
    submit(b, "hello", 5);
    ck_assert_ptr_null(hb_broker_check(b));
    ck_assert_int_eq(hb_broker_pull(b, 7, 9, &d), HB_BROKER_OK);
    ck_assert_ptr_null(hb_broker_check(b));
    ck_assert_mem_eq(d.payload.p, "hello", 5);
    ck_assert_uint_eq(d.payload.n, 5);
    ck_assert_uint_eq(d.attempt, 1);
    ck_assert_int_eq(d.waited_ns, 4);
    struct hb_settlement s = settlement_of(&d, 7);
    ck_assert_int_eq(hb_broker_ack(b, &s, 10), HB_BROKER_OK);
    ck_assert_ptr_null(hb_broker_check(b));
    ck_assert_uint_eq(broker_stats_of(b).acked, 1);
    ck_assert_int_eq(hb_broker_pull(b, 7, 11, &d), HB_BROKER_EMPTY);
    hb_broker_free(b);
}
END_TEST

/* An owner sees whether somebody has begun with its message, and takes back only what waits. */
START_TEST(an_owned_message_waits_until_it_is_pulled)
{
    struct hb_broker_options o = defaults();
    struct hb_broker *b = with(&o);
    struct hb_submission s = message("");
    struct hb_message *m;
    struct hb_delivery d;
    s.owner = &o;
    ck_assert_int_eq(hb_broker_submit(b, &s, 0, NULL, &m), HB_BROKER_OK);
    ck_assert(hb_broker_waits(m));
    ck_assert_int_eq(hb_broker_pull(b, 1, 1, &d), HB_BROKER_OK);
    ck_assert(!hb_broker_waits(m));
    ck_assert_int_eq(hb_broker_withdraw(b, m), HB_BROKER_UNKNOWN);
    struct hb_settlement failed = settlement_of(&d, 1);
    ck_assert_int_eq(hb_broker_nack(b, &failed, 2), HB_BROKER_OK);
    ck_assert(hb_broker_waits(m));
    ck_assert_int_eq(hb_broker_withdraw(b, m), HB_BROKER_OK);
    hb_broker_free(b);
}
END_TEST

/* A clock that starts below zero counts as zero until then, and what is due later stays so. */
START_TEST(times_below_zero_count_as_zero)
{
    struct hb_broker_options o = defaults();
    o.aging_threshold_ns = 50;
    o.aging_interval_ns = 10;
    struct hb_broker *b = with(&o);
    struct hb_submission s = message("");
    struct hb_level_stats above;
    s.level = 1;
    ck_assert_int_eq(hb_broker_submit(b, &s, INT64_MIN, NULL, NULL), HB_BROKER_OK);
    ck_assert_int_eq(hb_broker_tick(b, -1000), 50);
    hb_broker_tick(b, 50);
    hb_broker_level_stats(b, 0, 0, &above);
    ck_assert_uint_eq(above.waiting, 1);
    ck_assert_int_eq(above.oldest_wait_ns, 50);
    hb_broker_free(b);
}
END_TEST

/* The longest wait that there can be is told without overflow. */
START_TEST(a_message_may_wait_until_the_end_of_time)
{
    struct hb_broker_options o = defaults();
    struct hb_broker *b = with(&o);
    struct hb_delivery d;
    submit(b, "patient", INT64_MIN);
    ck_assert_int_eq(hb_broker_pull(b, 1, INT64_MAX, &d), HB_BROKER_OK);
    ck_assert_int_eq(d.waited_ns, INT64_MAX - 1);
    struct hb_settlement s = settlement_of(&d, 1);
    ck_assert_int_eq(hb_broker_tick(b, INT64_MAX), INT64_MAX);
    ck_assert_int_eq(hb_broker_ack(b, &s, INT64_MAX), HB_BROKER_OK);
    hb_broker_free(b);
}
END_TEST

/* What is left over of a full batch is due at once, by a clock that has gone back as well. */
START_TEST(more_work_is_due_at_once_by_any_clock)
{
    struct hb_broker_options o = defaults();
    o.batch = 1;
    o.ttl_ns = 900;
    struct hb_broker *b = with(&o);
    for (int i = 0; i < 3; i++)
        submit(b, "", i);
    ck_assert_int_le(hb_broker_tick(b, 1000), 1000);
    ck_assert_int_le(hb_broker_tick(b, 10), 10);
    hb_broker_tick(b, 10);
    ck_assert_uint_eq(broker_stats_of(b).ttl_expired, 3);
    hb_broker_free(b);
}
END_TEST

static void keep_lesson(void *ctx, const struct hb_lesson *lesson, int64_t now)
{
    *(struct hb_lesson *)ctx = *lesson;
}

/* A prediction that the order of service cannot count with is told in the lesson all the same. */
START_TEST(a_lesson_tells_what_was_predicted)
{
    static const double told[] = {0, 12.5, -1, INFINITY};
    struct hb_broker_options o = defaults();
    struct hb_lesson lesson;
    struct hb_broker_events events = {.learn = keep_lesson, .ctx = &lesson};
    struct hb_broker *b = hb_broker_new(&o, &events);
    for (unsigned i = 0; i < sizeof told / sizeof told[0]; i++) {
        struct hb_submission s = message("");
        struct hb_delivery d;
        s.key = k("key");
        s.predicted = true;
        s.estimate_ms = s.predicted_ms = told[i];
        ck_assert_int_eq(hb_broker_submit(b, &s, 0, NULL, NULL), HB_BROKER_OK);
        ck_assert_int_eq(hb_broker_pull(b, 1, 0, &d), HB_BROKER_OK);
        struct hb_settlement done = settlement_of(&d, 1);
        done.duration_ms = 1;
        ck_assert_int_eq(hb_broker_ack(b, &done, 0), HB_BROKER_OK);
        ck_assert(lesson.estimate_ms == told[i]);
    }
    hb_broker_free(b);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {a_message_is_submitted_pulled_and_acknowledged,
                                  an_owned_message_waits_until_it_is_pulled,

                                  times_below_zero_count_as_zero,
                                  a_message_may_wait_until_the_end_of_time,
                                  more_work_is_due_at_once_by_any_clock,
                                  a_lesson_tells_what_was_predicted,
                                  NULL};
    return suite_of("broker", tests);
}
