/* What a worker requeues: a failure, or what it had not begun when it stopped. */
#include "lib/proxy_talk.h"
#include "lib/testmain.h"

static void requeue(uint64_t tag)
{
    talk_settle(AMQP_BASIC_REJECT_METHOD, tag, 1);
}

static void cancel(const char *consumer)
{
    put_method(&talk_bytes, 1, AMQP_BASIC_CANCEL_METHOD, "sb", consumer, 0U);
    talk_feed(SIDE_CLIENT);
}

static mono_t after(mono_t wait)
{
    talk.world.now += wait;
    mono_t next = world_end_returns(&talk.world);
    talk_pump();
    return next;
}

/* A worker with three deliveries. */
static void worker_with_three(void)
{
    talk_fresh();
    talk_worker(3);
    proxy_world_put(&talk, 5);
    talk_pump();
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 o2 deliver c 3/0 o3");
}

/* What a worker requeues and then cancels was not begun; nothing else comes to it meanwhile, and all
 * are where they were. */
START_TEST(requeues_before_a_cancel_are_no_failures)
{
    worker_with_three();
    for (uint64_t tag = 1; tag <= 3; tag++)
        requeue(tag);
    talk_pump();
    CLIENT_GETS("");
    after(30 * MONO_MS);
    cancel("c");
    ck_assert_int_eq(talk.message[1].state, AT_WORKER);
    ck_assert_int_eq(after(30 * MONO_MS), MONO_NEVER);
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert_int_eq(talk.message[i].state, AT_REST);
        ck_assert_uint_eq(talk.message[i].n_failed, 0);
        ck_assert_uint_eq(talk.message[i].n_put_back, 1);
        ck_assert_uint_eq(talk.message[i].settled, 4 - i);
    }
    CLIENT_GETS("");
    talk_finish();
}
END_TEST

/* So was what was on its way to it when it cancelled; what it fails at later is a failure. */
START_TEST(requeues_after_a_cancel_are_no_failures_for_a_while)
{
    worker_with_three();
    cancel("c");
    put_method(&talk_bytes, 1, AMQP_BASIC_CANCEL_OK_METHOD, "s", "c");
    talk_feed(SIDE_UPSTREAM);
    after(MONO_S / 2);
    requeue(2);
    after(60 * MONO_MS);
    ck_assert_uint_eq(talk.message[2].n_put_back, 1);
    after(MONO_S);
    requeue(1);
    after(60 * MONO_MS);
    ck_assert_uint_eq(talk.message[1].n_put_back, 0);
    ck_assert_uint_eq(talk.message[1].n_failed, 1);
    talk_finish();
}
END_TEST

/* A worker that goes on has failed; each requeue waits for 50 ms at least, and for twice that at most. */
START_TEST(requeues_of_a_worker_that_goes_on_are_failures)
{
    worker_with_three();
    requeue(2);
    after(40 * MONO_MS);
    requeue(1);
    CLIENT_GETS("");
    after(10 * MONO_MS);
    CLIENT_GETS("deliver c 4/1 o2");
    ck_assert_uint_eq(talk.message[2].n_failed, 1);
    ck_assert_int_eq(talk.message[1].state, AT_WORKER);
    ck_assert_int_eq(after(50 * MONO_MS), MONO_NEVER);
    CLIENT_GETS("deliver c 5/1 o1");
    ck_assert_uint_eq(talk.message[1].n_failed, 1);
    talk_finish();
}
END_TEST

/* Whether its channel is closed in order or its connection breaks is known before that. */
START_TEST(requeues_before_the_end_are_judged_by_it)
{
    worker_with_three();
    requeue(1);
    requeue(2);
    put_method(&talk_bytes, 1, AMQP_CHANNEL_CLOSE_METHOD, "wsww", 200U, "", 0U, 0U);
    talk_feed(SIDE_CLIENT);
    ck_assert_uint_eq(talk.message[1].n_put_back + talk.message[2].n_put_back, 2);
    ck_assert_uint_gt(talk.message[1].settled, talk.message[2].settled);
    talk_finish();

    worker_with_three();
    requeue(1);
    session_end(&talk.session, PROXY_FAIL);
    ck_assert_uint_eq(talk.message[1].n_failed, 1);
    talk_finish();

    worker_with_three();
    requeue(1);
    put_method(&talk_bytes, 1, AMQP_BASIC_RECOVER_METHOD, "b", 1U);
    talk_feed(SIDE_CLIENT);
    ck_assert_uint_eq(talk.message[1].n_failed, 1);
    ck_assert_uint_eq(talk.message[2].n_put_back, 1);
    talk_finish();
}
END_TEST

/* To the client they are settled. */
START_TEST(what_was_returned_cannot_be_settled_again)
{
    worker_with_three();
    requeue(1);
    requeue(3);
    talk_ack(1, 0);
    talk_ack(3, 1);
    UPSTREAM_GETS("ack 9223372036854775807/0 ack 9223372036854775807/1");
    talk_ack(2, 1);
    UPSTREAM_GETS("");
    ck_assert_int_eq(talk.message[2].state, PROXY_ACK);
    ck_assert_int_eq(talk.message[1].state, AT_WORKER);
    after(60 * MONO_MS);
    ck_assert_uint_eq(talk.message[1].n_failed + talk.message[3].n_failed, 2);
    talk_finish();
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {requeues_before_a_cancel_are_no_failures,
                                  requeues_after_a_cancel_are_no_failures_for_a_while,
                                  requeues_of_a_worker_that_goes_on_are_failures,
                                  requeues_before_the_end_are_judged_by_it,
                                  what_was_returned_cannot_be_settled_again,
                                  NULL};
    return suite_of("proxy_returns", tests);
}
