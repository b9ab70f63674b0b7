#include "amqp/codec.h"
#include "amqp/wire.h"
#include "base/err.h"
#include "lib/proxy_talk.h"
#include "lib/testmain.h"

#include <string.h>

/* ---- numbering ---- */

/* `multiple` up to one of ours acks RabbitMQ's newest below it, and never what the client has not
 * acked. */
START_TEST(multiple_is_split_between_both)
{
    talk_fresh();
    talk_worker(100);
    proxy_world_put(&talk, 1);
    talk_pump();
    talk_upstream_delivers("c", 71, "u71");
    talk_upstream_delivers("c", 72, "u72");
    proxy_world_put(&talk, 1);
    talk_pump();
    talk_upstream_delivers("c", 73, "u73");
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 u71 deliver c 3/0 u72 deliver c 4/0 o2 "
                "deliver c 5/0 u73");
    talk_ack(4, 1);
    UPSTREAM_GETS("ack 72/1");
    ck_assert_int_eq(talk.message[1].state, PROXY_ACK);
    ck_assert_int_eq(talk.message[2].state, PROXY_ACK);
    talk_ack(0, 1);
    UPSTREAM_GETS("ack 73/1");
    talk_finish();
}
END_TEST

/* Tag 0 means what the client has seen: RabbitMQ may have sent more meanwhile, so it is told a tag. */
START_TEST(tag_0_is_never_passed_on)
{
    talk_fresh();
    talk_worker(100);
    proxy_world_put(&talk, 2);
    talk_pump();
    talk_ack(0, 1);
    UPSTREAM_GETS("");
    talk_upstream_delivers("c", 1, "u1");
    talk_settle(AMQP_BASIC_NACK_METHOD, 0, 3);
    UPSTREAM_GETS("nack 1/3");
    talk_ack(0, 0);
    UPSTREAM_GETS("ack 9223372036854775807/0");
    talk_finish();
}
END_TEST

/* A delivery that needs no ack has a number and no entry: RabbitMQ's tag for `multiple` must be one
 * that is unsettled there. */
START_TEST(what_needs_no_ack_is_never_acked)
{
    talk_fresh();
    talk_worker(100);
    talk_consume("other", "events", 2);
    (void)talk_said(SIDE_CLIENT);
    (void)talk_said(SIDE_UPSTREAM);
    talk_upstream_delivers("c", 1, "u1");
    talk_upstream_delivers("events", 2, "u2");
    proxy_world_put(&talk, 1);
    talk_pump();
    CLIENT_GETS("deliver c 1/0 u1 deliver events 2/0 u2 deliver c 3/0 o1");
    talk_ack(3, 1);
    UPSTREAM_GETS("ack 1/1");
    talk_ack(2, 0);
    UPSTREAM_GETS("ack 9223372036854775807/0");
    talk_finish();
}
END_TEST

/* ---- contents ---- */

/* Nothing comes between the frames of a content on its channel, wherever its bytes are cut; on
 * another channel it may. */
START_TEST(nothing_is_injected_inside_a_content)
{
    enum { METHOD_BYTES = 8 + 4 + 2 + 9 + 1 + 5 };
    put_method(&talk_bytes, 1, AMQP_BASIC_RETURN_METHOD, "wsss", 312U, "NO_ROUTE", "", "none");
    ck_assert_uint_eq(talk_bytes.n, METHOD_BYTES);
    put_content(&talk_bytes, 1, "returned");
    struct buf content = talk_bytes;
    talk_bytes = (struct buf){0};
    for (size_t cut = 1; cut < content.n; cut++) {
        talk_fresh();
        talk_worker(100);
        proxy_world_put(&talk, 1);
        ck_assert_int_eq(session_input(&talk.session, SIDE_UPSTREAM, content.p, cut), 0);
        talk_pump();
        ck_assert_int_eq(
            session_input(&talk.session, SIDE_UPSTREAM, content.p + cut, content.n - cut), 0);
        talk_pump();
        if (cut < METHOD_BYTES)
            CLIENT_GETS("deliver c 1/0 o1 return returned");
        else
            CLIENT_GETS("return returned deliver c 1/0 o1");
        talk_finish();
    }
    buf_fini(&content);
}
END_TEST

/* ---- consumers ---- */

/* One that waits for no answer is there at once; the intake's name leads to the work queue. */
START_TEST(names_lead_to_the_work_queue)
{
    talk_fresh();
    proxy_world_put(&talk, 3);
    talk_open_channel();
    talk_qos(1);
    (void)talk_said(SIDE_UPSTREAM);
    put_method(&talk_bytes, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "intake", "now", 8U);
    talk_feed(SIDE_CLIENT);
    talk_pump();
    UPSTREAM_GETS("consume 0 work");
    CLIENT_GETS("deliver now 1/0 o1");
    put_method(&talk_bytes, 1, AMQP_QUEUE_DECLARE_OK_METHOD, "sll", "intake", 5U, 1U);
    talk_feed(SIDE_UPSTREAM);
    CLIENT_GETS("declare-ok intake 7");
    talk_consume("", "last", 0);
    talk_pump();
    UPSTREAM_GETS("consume 0 work");
    CLIENT_GETS("consume-ok deliver last 2/0 o2");
    put_method(&talk_bytes, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, "intake", 1U);
    talk_feed(SIDE_CLIENT);
    UPSTREAM_GETS("get 0 work");
    put_method(&talk_bytes, 1, AMQP_BASIC_GET_EMPTY_METHOD, "s", "");
    talk_feed(SIDE_UPSTREAM);
    CLIENT_GETS("get-ok 3 o3");
    talk_finish();
}
END_TEST

/* Answers go to their questions in order, whichever queue those were about. */
START_TEST(answers_go_to_their_questions)
{
    talk_fresh();
    proxy_world_put(&talk, 1);
    talk_open_channel();
    put_method(&talk_bytes, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "other", "a", 0U);
    put_method(&talk_bytes, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "work", "", 0U);
    put_method(&talk_bytes, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, "other", 0U);
    put_method(&talk_bytes, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, "work", 0U);
    talk_feed(SIDE_CLIENT);
    put_method(&talk_bytes, 1, AMQP_BASIC_CONSUME_OK_METHOD, "s", "a");
    talk_feed(SIDE_UPSTREAM);
    talk_pump();
    CLIENT_GETS("consume-ok");
    put_method(&talk_bytes, 1, AMQP_BASIC_CONSUME_OK_METHOD, "s", "amq.ctag-1");
    talk_feed(SIDE_UPSTREAM);
    talk_pump();
    CLIENT_GETS("consume-ok deliver amq.ctag-1 1/0 o1");
    put_method(&talk_bytes, 1, AMQP_BASIC_GET_EMPTY_METHOD, "s", "");
    talk_feed(SIDE_UPSTREAM);
    CLIENT_GETS("get-empty");
    proxy_world_put(&talk, 1);
    put_method(&talk_bytes, 1, AMQP_BASIC_GET_EMPTY_METHOD, "s", "");
    talk_feed(SIDE_UPSTREAM);
    CLIENT_GETS("get-ok 2 o2");
    talk_finish();
}
END_TEST

/* An ack that was on its way when RabbitMQ closed the channel still counts. */
START_TEST(an_ack_on_its_way_survives_rabbitmqs_close)
{
    talk_fresh();
    talk_worker(2);
    proxy_world_put(&talk, 3);
    talk_pump();
    put_method(&talk_bytes, 1, AMQP_CHANNEL_CLOSE_METHOD, "wsww", 404U, "NOT_FOUND", 0U, 0U);
    talk_feed(SIDE_UPSTREAM);
    talk_ack(1, 0);
    talk_pump();
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 o2 channel.close");
    put_method(&talk_bytes, 1, AMQP_CHANNEL_CLOSE_OK_METHOD, "");
    talk_feed(SIDE_CLIENT);
    ck_assert_int_eq(talk.message[1].state, PROXY_ACK);
    ck_assert_int_eq(talk.message[2].state, AT_REST);
    ck_assert_uint_eq(talk.message[2].n_failed, 1);
    ck_assert_uint_eq(talk.session.n_open, 0);
    talk_finish();
}
END_TEST

/* ---- the barrier ---- */

/* An ack waits for the publishes before it, not for those after it, and takes no other's answer. */
START_TEST(acks_wait_for_what_was_published_before)
{
    talk_fresh();
    talk_worker(3);
    proxy_world_put(&talk, 4);
    talk_pump();
    talk_ack(1, 0);
    ck_assert_int_eq(talk.message[1].state, PROXY_ACK);
    talk_publish("r2");
    put_method(&talk_bytes, 1, AMQP_CHANNEL_FLOW_METHOD, "b", 1U);
    talk_feed(SIDE_CLIENT);
    talk_ack(2, 0);
    talk_publish("r3");
    talk_ack(3, 0);
    UPSTREAM_GETS("publish r2 flow/1 flow/1 publish r3");
    talk_pump();
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 o2 deliver c 3/0 o3 deliver c 4/0 o4");
    talk_flow_ok(); /* the client's own */
    CLIENT_GETS("flow-ok/1");
    ck_assert_int_eq(talk.message[2].state, AT_WORKER);
    talk_flow_ok();
    CLIENT_GETS("");
    ck_assert_int_eq(talk.message[2].state, PROXY_ACK);
    ck_assert_int_eq(talk.message[3].state, AT_WORKER);
    UPSTREAM_GETS("flow/1");
    talk_flow_ok();
    ck_assert_int_eq(talk.message[3].state, PROXY_ACK);
    ck_assert_int_eq(talk.message[4].state, AT_WORKER);
    talk_finish();
    ck_assert_int_eq(talk.message[4].state, AT_REST);
}
END_TEST

/* What was acked, but whose publish may be lost with the connection, runs again. */
START_TEST(a_held_ack_fails_with_its_connection)
{
    talk_fresh();
    talk_worker(1);
    proxy_world_put(&talk, 1);
    talk_pump();
    talk_publish("r1");
    talk_ack(1, 0);
    talk_finish();
    ck_assert_int_eq(talk.message[1].state, AT_REST);
    ck_assert_uint_eq(talk.message[1].n_failed, 1);
}
END_TEST

/* RabbitMQ answers a close in order: what was published before it has arrived. */
START_TEST(a_close_ends_the_wait)
{
    talk_fresh();
    talk_worker(2);
    proxy_world_put(&talk, 2);
    talk_pump();
    talk_publish("r1");
    talk_ack(1, 0);
    put_method(&talk_bytes, 1, AMQP_CHANNEL_CLOSE_METHOD, "wsww", 200U, "", 0U, 0U);
    talk_feed(SIDE_CLIENT);
    ck_assert_int_eq(talk.message[1].state, AT_WORKER);
    ck_assert_uint_eq(talk.message[2].n_put_back, 1);
    talk_flow_ok();
    put_method(&talk_bytes, 1, AMQP_CHANNEL_CLOSE_OK_METHOD, "");
    talk_feed(SIDE_UPSTREAM);
    ck_assert_int_eq(talk.message[1].state, PROXY_ACK);
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 o2 channel.close-ok");
    talk_finish();
}
END_TEST

/* Our own flow never comes inside a content that the client is sending. */
START_TEST(no_flow_inside_a_publish)
{
    talk_fresh();
    talk_worker(2);
    proxy_world_put(&talk, 2);
    talk_pump();
    talk_publish("r1");
    talk_ack(1, 0);
    talk_publish("r2");
    talk_ack(2, 0);
    put_method(&talk_bytes, 1, AMQP_BASIC_PUBLISH_METHOD, "wssb", 0U, "", "results", 0U);
    talk_feed(SIDE_CLIENT);
    talk_flow_ok();
    UPSTREAM_GETS("publish r1 flow/1 publish r2 publish");
    put_content(&talk_bytes, 1, "r3");
    talk_feed(SIDE_CLIENT);
    UPSTREAM_GETS("r3 flow/1");
    talk_finish();
}
END_TEST

/* ---- Celery's events ---- */

static void event(const char *exchange, const char *key, const char *json)
{
    put_method(&talk_bytes, 1, AMQP_BASIC_PUBLISH_METHOD, "wssb", 0U, exchange, key, 0U);
    put_content(&talk_bytes, 1, json);
    talk_feed(SIDE_CLIENT);
}

#define SUCCEEDED(id, runtime) \
    "{\"type\":\"task-succeeded\",\"uuid\":\"" id "\",\"runtime\":" runtime "}"

/* A worker's own runtime is joined to its delivery, before or after the ack, once. */
START_TEST(events_tell_durations)
{
    talk_fresh();
    talk_worker(8);
    proxy_world_put(&talk, 6);
    talk_pump();
    talk_ack(1, 0);
    event("celeryev", "task.multi",
          "[" SUCCEEDED("t1", "0.25") ",7,{},null," SUCCEEDED("t2", "3") "," SUCCEEDED("t99",
                                                                                       "1") "]");
    ck_assert(talk.message[1].event_ms == 250);
    ck_assert(talk.message[2].event_ms == 3000);
    event("celeryev", "task.succeeded", SUCCEEDED("t1", "9"));
    ck_assert(talk.message[1].event_ms == 250);
    event("celeryev", "worker.heartbeat", SUCCEEDED("t3", "1"));
    event("results", "task.succeeded", SUCCEEDED("t3", "1"));
    event("celeryev", "task.succeeded", SUCCEEDED("t3", "-1"));
    event("celeryev", "task.succeeded", SUCCEEDED("t3", "\"1\""));
    event("celeryev", "task.succeeded", "[[[" SUCCEEDED("t3", "1"));
    event("celeryev", "task.succeeded", "");
    ck_assert(talk.message[3].event_ms == 0);
    ck_assert_uint_eq(talk.world.stats.event_runtimes, 2);
    talk_finish();
}
END_TEST

/* While events come, the time to a task's ack is not told as well; later it is again. */
START_TEST(events_are_believed_rather_than_acks)
{
    const struct proxy_options o = {.max_channels = 5,
                                    .max_consumers = 3,
                                    .max_connection_bytes = 1 << 20,
                                    .early_ack = MONO_MS};
    talk_fresh_with(&o);
    talk_worker(1);
    for (uint64_t tag = 1; tag <= 3; tag++) {
        proxy_world_put(&talk, 1);
        talk_pump();
        talk.world.now += tag == 3 ? 61 * MONO_S : MONO_S;
        talk_ack(tag, 0);
        if (tag == 1)
            event("celeryev", "task.succeeded", SUCCEEDED("t1", "0.5"));
        talk_flow_ok();
    }
    ck_assert(talk.message[1].duration_ms == 1000);
    ck_assert(talk.message[2].duration_ms < 0);
    ck_assert(talk.message[3].duration_ms == 61000);
    ck_assert_uint_eq(talk.world.stats.evented_acks, 1);
    talk_finish();
}
END_TEST

/* ---- what it refuses ---- */

static void login(const char *mechanism, const char *response, size_t n)
{
    char at[8];
    put_method(&talk_bytes, 0, AMQP_CONNECTION_START_OK_METHOD, "ts", mechanism);
    talk_bytes.n--; /* the frame's end */
    wire_put32(at, (uint32_t)n);
    if (buf_append(&talk_bytes, at, 4) < 0 || buf_append(&talk_bytes, response, n) < 0 ||
        buf_append(&talk_bytes, "\5en_US\xce", 7) < 0)
        ck_abort();
    wire_put32(talk_bytes.p + 3, (uint32_t)(talk_bytes.n - 8));
}

static bool lets_in(bool local, const char *mechanism, const char *response, size_t n)
{
    struct session s;
    talk_fresh();
    session_init(&s, &talk.world, local);
    char hello[] = "AMQP\0\0\x09\x01";
    ck_assert_int_eq(session_input(&s, SIDE_CLIENT, hello, 8), 0);
    login(mechanism, response, n);
    ck_assert_int_eq(session_input(&s, SIDE_CLIENT, talk_bytes.p, talk_bytes.n), 0);
    bool in = session_state(&s) == SESSION_HANDSHAKE;
    ck_assert_uint_eq(outbox_bytes(&s.out[SIDE_UPSTREAM]), in ? 8 + talk_bytes.n : 8);
    session_end(&s, PROXY_FAIL);
    session_fini(&s);
    talk_finish();
    return in;
}

#define PLAIN(text) "PLAIN", text, sizeof(text) - 1

/* guest may come from this machine only, as RabbitMQ has it. */
START_TEST(guest_from_elsewhere_is_refused)
{
    ck_assert(lets_in(true, PLAIN("\0guest\0guest")));
    ck_assert(!lets_in(false, PLAIN("\0guest\0guest")));
    ck_assert(!lets_in(false, PLAIN("guest\0guest\0x")));
    ck_assert(lets_in(false, PLAIN("guest\0guests\0guest")));
    ck_assert(lets_in(false, PLAIN("\0ghost\0guest")));
    ck_assert(lets_in(false, PLAIN("")));
    ck_assert(!lets_in(false, "AMQPLAIN", "\5LOGINS\0\0\0\5guest\x8PASSWORDS\0\0\0\1x", 30));
    ck_assert(lets_in(false, "AMQPLAIN", "\5LOGINS\0\0\0\4user\x8PASSWORDS\0\0\0\1x", 29));
}
END_TEST

/* A transaction beside the work queue ends the connection with 540; then only close-ok is heard. */
START_TEST(a_transaction_is_refused)
{
    talk_fresh();
    talk_worker(2);
    proxy_world_put(&talk, 1);
    talk_pump();
    (void)talk_said(SIDE_CLIENT);
    put_method(&talk_bytes, 1, AMQP_TX_SELECT_METHOD, "");
    put_method(&talk_bytes, 1, AMQP_BASIC_ACK_METHOD, "qb", UINT64_C(1), 0U);
    talk_feed(SIDE_CLIENT);
    CLIENT_GETS("close 540");
    UPSTREAM_GETS("close 540");
    ck_assert_uint_eq(talk.message[1].n_failed, 1);
    put_method(&talk_bytes, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, "");
    talk_feed(SIDE_CLIENT);
    ck_assert_int_eq(session_state(&talk.session), SESSION_ENDED);
    UPSTREAM_GETS("");
    talk_finish();
}
END_TEST

/* Every table has an end, and who fills it is told so. */
START_TEST(tables_are_bounded)
{
    const struct proxy_options o = {.max_channels = 5, .max_consumers = 3};
    talk_fresh_with(&o);
    talk_open_channel();
    for (int i = 0; i < 4; i++) {
        put_method(&talk_bytes, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "other", "", 0U);
        talk_feed(SIDE_CLIENT);
    }
    CLIENT_GETS("close 506");
    talk_finish();
    talk_fresh_with(&o);
    put_method(&talk_bytes, 101, AMQP_CHANNEL_OPEN_METHOD, "s", "");
    talk_feed(SIDE_CLIENT);
    CLIENT_GETS("close 530");
    talk_finish();
    talk_fresh_with(&o);
    put_method(&talk_bytes, 0, AMQP_CONNECTION_TUNE_METHOD, "wlw", 2047U, 0U, 60U);
    talk_feed(SIDE_UPSTREAM);
    CLIENT_GETS("tune 5 16777216");
    talk_open_channel();
    for (int i = 0; i < 1025; i++) {
        put_method(&talk_bytes, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, "other", 1U);
        talk_feed(SIDE_CLIENT);
    }
    CLIENT_GETS("close 506");
    talk_finish();
}
END_TEST

/* A method cut short is RabbitMQ's to judge, and changes nothing here. */
START_TEST(cut_methods_are_passed_on)
{
    static const uint32_t methods[] = {
        AMQP_BASIC_ACK_METHOD,     AMQP_BASIC_NACK_METHOD,         AMQP_BASIC_REJECT_METHOD,
        AMQP_BASIC_QOS_METHOD,     AMQP_BASIC_GET_METHOD,          AMQP_BASIC_CANCEL_METHOD,
        AMQP_BASIC_CONSUME_METHOD, AMQP_BASIC_RECOVER_METHOD,      AMQP_CHANNEL_FLOW_METHOD,
        AMQP_QUEUE_DECLARE_METHOD, AMQP_CONNECTION_TUNE_OK_METHOD, AMQP_CONNECTION_START_OK_METHOD};
    talk_fresh();
    talk_worker(1);
    proxy_world_put(&talk, 1);
    talk_pump();
    (void)talk_said(SIDE_CLIENT);
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        struct frame f;
        uint16_t channel = methods[i] >> 16 == 10 ? 0 : 1;
        put_method(&talk_bytes, channel, methods[i], "");
        size_t n = talk_bytes.n;
        talk_feed(SIDE_CLIENT);
        ck_assert(proxy_world_take(&talk, SIDE_UPSTREAM, &f));
        ck_assert_uint_eq(f.n_raw, n);
        ck_assert_uint_eq(wire_get32(f.payload), methods[i]);
    }
    ck_assert_int_eq(talk.message[1].state, AT_WORKER);
    talk_finish();
}
END_TEST

/* What is not AMQP 0-9-1 is handed on untouched. */
START_TEST(amqp_1_0_is_a_tunnel)
{
    struct session s;
    char hello[] = "AMQP\3\1\0\0\0\0\0\x1f\2", answer[] = "AMQP\3\1\0\0";
    talk_fresh();
    session_init(&s, &talk.world, true);
    ck_assert_int_eq(session_input(&s, SIDE_CLIENT, hello, 13), 0);
    ck_assert_int_eq(session_input(&s, SIDE_UPSTREAM, answer, 8), 0);
    ck_assert_int_eq(session_state(&s), SESSION_TUNNEL);
    ck_assert_mem_eq(s.out[SIDE_UPSTREAM].bytes.p, hello, 13);
    ck_assert_uint_eq(s.out[SIDE_CLIENT].bytes.n, 8);
    session_end(&s, PROXY_FAIL);
    session_fini(&s);
    talk_finish();
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {multiple_is_split_between_both,
                                  tag_0_is_never_passed_on,
                                  what_needs_no_ack_is_never_acked,
                                  nothing_is_injected_inside_a_content,
                                  names_lead_to_the_work_queue,
                                  answers_go_to_their_questions,
                                  an_ack_on_its_way_survives_rabbitmqs_close,
                                  acks_wait_for_what_was_published_before,
                                  a_held_ack_fails_with_its_connection,
                                  a_close_ends_the_wait,
                                  no_flow_inside_a_publish,
                                  events_tell_durations,
                                  events_are_believed_rather_than_acks,
                                  guest_from_elsewhere_is_refused,
                                  a_transaction_is_refused,
                                  tables_are_bounded,
                                  cut_methods_are_passed_on,
                                  amqp_1_0_is_a_tunnel,
                                  NULL};
    return suite_of("proxy_session", tests);
}
