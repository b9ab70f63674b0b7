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

/* Payload and headers are bytes: NULs, none at all, and each value come out as they went in. */
START_TEST(any_bytes_come_out_as_they_went_in)
{
    struct hb_broker_options o = defaults();
    struct hb_broker *b = with(&o);
    unsigned char all[256];
    for (unsigned i = 0; i < sizeof all; i++)
        all[i] = (unsigned char)i;
    for (size_t n = 0; n <= sizeof all; n += sizeof all / 2) {
        struct hb_submission s = message("");
        struct hb_delivery d;
        s.payload = (struct hb_bytes){n > 0 ? all : NULL, n};
        s.headers = (struct hb_bytes){all, sizeof all - n};
        s.key = k("key");
        ck_assert_int_eq(hb_broker_submit(b, &s, 0, NULL, NULL), HB_BROKER_OK);
        ck_assert_int_eq(hb_broker_pull(b, 1, 0, &d), HB_BROKER_OK);
        ck_assert_uint_eq(d.payload.n, n);
        ck_assert_uint_eq(d.headers.n, sizeof all - n);
        ck_assert(memcmp(d.payload.p, all, n) == 0);
        ck_assert(memcmp(d.headers.p, all, sizeof all - n) == 0);
    }
    ck_assert_ptr_null(hb_broker_check(b));
    hb_broker_free(b);
}
END_TEST

/* Worker time is shared 2/3, 1/4, 1/12 within one message's cost, though the pulls differ far more
 * than the weights (costs 2, 30 and 600 ms); deliveries that come back cost their level nothing. */
START_TEST(levels_share_worker_time_by_their_weights)
{
    static const uint16_t weights[] = {8, 3, 1};
    static const double costs[] = {2, 30, 600};
    struct hb_broker_options o = defaults();
    o.weighted = true;
    o.history_entries = 8;
    memcpy(o.weights, weights, sizeof weights);
    struct hb_broker *b = with(&o);
    struct hb_submission s = message("");
    for (s.level = 0; s.level < 3; s.level++) {
        s.estimate_ms = costs[s.level];
        ck_assert_int_eq(hb_broker_submit(b, &s, 0, NULL, NULL), HB_BROKER_OK);
    }
    for (int i = 0; i < 200000; i++) {
        struct hb_delivery d;
        ck_assert_int_eq(hb_broker_pull(b, 1, i, &d), HB_BROKER_OK);
        struct hb_settlement done = settlement_of(&d, 1);
        if (i % 7 == 0) {
            ck_assert_int_eq(hb_broker_return(b, &done, i), HB_BROKER_OK);
            continue;
        }
        s.level = d.level;
        s.estimate_ms = costs[d.level];
        ck_assert_int_eq(hb_broker_submit(b, &s, i, NULL, NULL), HB_BROKER_OK);
        ck_assert_int_eq(hb_broker_ack(b, &done, i), HB_BROKER_OK);
        if (i % 100 == 0)
            ck_assert_ptr_null(hb_broker_check(b));
    }
    struct hb_level_stats level[3];
    double total = 0;
    for (unsigned i = 0; i < 3; i++) {
        hb_broker_level_stats(b, i, 0, &level[i]);
        total += level[i].charged_ms;
    }
    for (unsigned i = 0; i < 3; i++)
        ck_assert_double_eq_tol(level[i].charged_ms, total * weights[i] / 12, 600 * 8);
    ck_assert_uint_gt(level[0].pulls, 50 * level[2].pulls);
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
    static const double told[] = {0, 12.5, -1, (double)INFINITY};
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
                                  any_bytes_come_out_as_they_went_in,
                                  levels_share_worker_time_by_their_weights,
                                  times_below_zero_count_as_zero,
                                  a_message_may_wait_until_the_end_of_time,
                                  more_work_is_due_at_once_by_any_clock,
                                  a_lesson_tells_what_was_predicted,
                                  NULL};
    return suite_of("broker", tests);
}
