#include "amqp/codec.h"
#include "amqp/wire.h"
#include "base/err.h"
#include "lib/proxy_world.h"
#include "lib/testmain.h"
#include "proxy/args.h"

#include <stdio.h>
#include <string.h>

static struct proxy_world w;
static struct buf b;

static void fresh(void)
{
    proxy_world_init(&w, NULL);
    buf_reset(&b);
}

static void fresh_with(const struct proxy_options *o)
{
    proxy_world_init(&w, o);
    buf_reset(&b);
}

static void finish(void)
{
    proxy_world_fini(&w);
    buf_fini(&b);
}

static void feed(enum side from)
{
    ck_assert_int_eq(proxy_world_feed(&w, from, &b), 0);
}

/* ---- what went out, in words ---- */

static const struct {
    uint32_t method;
    const char *word, *format; /* q: a number to show; s: a short text; b: a byte */
} words[] = {
    {AMQP_BASIC_DELIVER_METHOD, "deliver", "sqb"},
    {AMQP_BASIC_GET_OK_METHOD, "get-ok", "q"},
    {AMQP_BASIC_GET_EMPTY_METHOD, "get-empty", ""},
    {AMQP_BASIC_ACK_METHOD, "ack", "qb"},
    {AMQP_BASIC_NACK_METHOD, "nack", "qb"},
    {AMQP_BASIC_CONSUME_METHOD, "consume", "ws"},
    {AMQP_BASIC_CONSUME_OK_METHOD, "consume-ok", ""},
    {AMQP_BASIC_CANCEL_METHOD, "cancel", ""},
    {AMQP_BASIC_GET_METHOD, "get", "ws"},
    {AMQP_BASIC_PUBLISH_METHOD, "publish", ""},
    {AMQP_BASIC_QOS_METHOD, "qos", ""},
    {AMQP_BASIC_RETURN_METHOD, "return", ""},
    {AMQP_CHANNEL_FLOW_METHOD, "flow", "b"},
    {AMQP_CHANNEL_FLOW_OK_METHOD, "flow-ok", "b"},
    {AMQP_CHANNEL_OPEN_METHOD, "open", ""},
    {AMQP_CHANNEL_CLOSE_METHOD, "channel.close", ""},
    {AMQP_CHANNEL_CLOSE_OK_METHOD, "channel.close-ok", ""},
    {AMQP_CONNECTION_CLOSE_METHOD, "close", "w"},
    {AMQP_CONNECTION_CLOSE_OK_METHOD, "close-ok", ""},
    {AMQP_CONNECTION_TUNE_METHOD, "tune", "wl"},
    {AMQP_QUEUE_DECLARE_OK_METHOD, "declare-ok", "sl"},
    {AMQP_TX_SELECT_METHOD, "tx", ""},
};

static void add_text(char *out, size_t size, const char *before, struct text t)
{
    size_t n = strlen(out);
    snprintf(out + n, size - n, "%s%.*s", before, (int)t.n, t.p);
}

static void add(char *out, size_t size, const char *before, uint64_t v)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)v);
    add_text(out, size, before, text_of(digits));
}

static void describe_method(const struct frame *f, char *out, size_t size)
{
    struct args a = {f->payload, f->n, false};
    uint32_t method = args_u32(&a);
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (words[i].method != method)
            continue;
        add_text(out, size, " ", text_of(words[i].word));
        for (const char *p = words[i].format; *p != '\0'; p++)
            switch (*p) {
            case 's': add_text(out, size, " ", args_short(&a)); break;
            case 'q': add(out, size, " ", args_u64(&a)); break;
            case 'l': add(out, size, " ", args_u32(&a)); break;
            case 'w': add(out, size, " ", args_u16(&a)); break;
            default: add(out, size, "/", args_u8(&a)); break;
            }
        return;
    }
    add(out, size, " method:", method);
}

/* All that went to a side since the last look: its methods and bodies, in order. */
static const char *said(enum side to)
{
    static char out[2][2000];
    struct frame f;
    char *text = out[to];
    text[0] = '\0';
    while (proxy_world_take(&w, to, &f)) {
        if (f.type == AMQP_FRAME_METHOD)
            describe_method(&f, text, sizeof out[0]);
        else if (f.type == AMQP_FRAME_BODY)
            add_text(text, sizeof out[0], " ", (struct text){f.payload, f.n});
    }
    return text[0] != '\0' ? text + 1 : text;
}

static void pump(void)
{
    (void)world_pump(&w.world);
}

#define CLIENT_GETS(words)   ck_assert_str_eq(said(SIDE_CLIENT), words)
#define UPSTREAM_GETS(words) ck_assert_str_eq(said(SIDE_UPSTREAM), words)

static void settle(uint32_t method, uint64_t tag, unsigned bits)
{
    put_method(&b, 1, method, "qb", tag, bits);
    feed(SIDE_CLIENT);
}

static void ack(uint64_t tag, unsigned multiple)
{
    settle(AMQP_BASIC_ACK_METHOD, tag, multiple);
}

static void open_channel(void)
{
    put_method(&b, 1, AMQP_CHANNEL_OPEN_METHOD, "s", "");
    feed(SIDE_CLIENT);
}

static void consume(const char *queue, const char *tag, unsigned bits)
{
    put_method(&b, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, queue, tag, bits);
    feed(SIDE_CLIENT);
    put_method(&b, 1, AMQP_BASIC_CONSUME_OK_METHOD, "s", tag);
    feed(SIDE_UPSTREAM);
}

static void qos(unsigned count)
{
    put_method(&b, 1, AMQP_BASIC_QOS_METHOD, "lwb", 0U, count, 0U);
    feed(SIDE_CLIENT);
}

/* A channel with a consumer "c" of the work queue under a prefetch, and nothing said of it. */
static void worker(unsigned prefetch)
{
    open_channel();
    qos(prefetch);
    consume("work", "c", 0);
    (void)said(SIDE_CLIENT);
    (void)said(SIDE_UPSTREAM);
}

static void upstream_delivers(const char *consumer, uint64_t tag, const char *body)
{
    put_method(&b, 1, AMQP_BASIC_DELIVER_METHOD, "sqbss", consumer, tag, 0U, "", "");
    put_content(&b, 1, body);
    feed(SIDE_UPSTREAM);
}

static void publish(const char *body)
{
    put_method(&b, 1, AMQP_BASIC_PUBLISH_METHOD, "wssb", 0U, "", "results", 0U);
    put_content(&b, 1, body);
    feed(SIDE_CLIENT);
}

static void flow_ok(void)
{
    put_method(&b, 1, AMQP_CHANNEL_FLOW_OK_METHOD, "b", 1U);
    feed(SIDE_UPSTREAM);
}

/* ---- numbering ---- */

/* `multiple` up to one of ours acks RabbitMQ's newest below it, and never what the client has not
 * acked. */
START_TEST(multiple_is_split_between_both)
{
    fresh();
    worker(100);
    proxy_world_put(&w, 1);
    pump();
    upstream_delivers("c", 71, "u71");
    upstream_delivers("c", 72, "u72");
    proxy_world_put(&w, 1);
    pump();
    upstream_delivers("c", 73, "u73");
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 u71 deliver c 3/0 u72 deliver c 4/0 o2 "
                "deliver c 5/0 u73");
    ack(4, 1);
    UPSTREAM_GETS("ack 72/1");
    ck_assert_int_eq(w.message[1].state, PROXY_ACK);
    ck_assert_int_eq(w.message[2].state, PROXY_ACK);
    ack(0, 1);
    UPSTREAM_GETS("ack 73/1");
    finish();
}
END_TEST

/* Tag 0 means what the client has seen: RabbitMQ may have sent more meanwhile, so it is told a tag. */
START_TEST(tag_0_is_never_passed_on)
{
    fresh();
    worker(100);
    proxy_world_put(&w, 2);
    pump();
    ack(0, 1);
    UPSTREAM_GETS("");
    upstream_delivers("c", 1, "u1");
    settle(AMQP_BASIC_NACK_METHOD, 0, 3);
    UPSTREAM_GETS("nack 1/3");
    ack(0, 0);
    UPSTREAM_GETS("ack 9223372036854775807/0");
    finish();
}
END_TEST

/* A delivery that needs no ack has a number and no entry: RabbitMQ's tag for `multiple` must be one
 * that is unsettled there. */
START_TEST(what_needs_no_ack_is_never_acked)
{
    fresh();
    worker(100);
    consume("other", "events", 2);
    (void)said(SIDE_CLIENT);
    (void)said(SIDE_UPSTREAM);
    upstream_delivers("c", 1, "u1");
    upstream_delivers("events", 2, "u2");
    proxy_world_put(&w, 1);
    pump();
    CLIENT_GETS("deliver c 1/0 u1 deliver events 2/0 u2 deliver c 3/0 o1");
    ack(3, 1);
    UPSTREAM_GETS("ack 1/1");
    ack(2, 0);
    UPSTREAM_GETS("ack 9223372036854775807/0");
    finish();
}
END_TEST

/* ---- returns ---- */

static void requeue(uint64_t tag)
{
    settle(AMQP_BASIC_REJECT_METHOD, tag, 1);
}

static void cancel(const char *consumer)
{
    put_method(&b, 1, AMQP_BASIC_CANCEL_METHOD, "sb", consumer, 0U);
    feed(SIDE_CLIENT);
}

static mono_t after(mono_t wait)
{
    w.world.now += wait;
    mono_t next = world_end_returns(&w.world);
    pump();
    return next;
}

/* A worker with three deliveries. */
static void worker_with_three(void)
{
    fresh();
    worker(3);
    proxy_world_put(&w, 5);
    pump();
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 o2 deliver c 3/0 o3");
}

/* What a worker requeues and then cancels was not begun; nothing else comes to it meanwhile, and all
 * are where they were. */
START_TEST(requeues_before_a_cancel_are_no_failures)
{
    worker_with_three();
    for (uint64_t tag = 1; tag <= 3; tag++)
        requeue(tag);
    pump();
    CLIENT_GETS("");
    after(30 * MONO_MS);
    cancel("c");
    ck_assert_int_eq(w.message[1].state, AT_WORKER);
    ck_assert_int_eq(after(30 * MONO_MS), MONO_NEVER);
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert_int_eq(w.message[i].state, AT_REST);
        ck_assert_uint_eq(w.message[i].n_failed, 0);
        ck_assert_uint_eq(w.message[i].n_put_back, 1);
        ck_assert_uint_eq(w.message[i].settled, 4 - i);
    }
    CLIENT_GETS("");
    finish();
}
END_TEST

/* So was what was on its way to it when it cancelled; what it fails at later is a failure. */
START_TEST(requeues_after_a_cancel_are_no_failures_for_a_while)
{
    worker_with_three();
    cancel("c");
    put_method(&b, 1, AMQP_BASIC_CANCEL_OK_METHOD, "s", "c");
    feed(SIDE_UPSTREAM);
    after(MONO_S / 2);
    requeue(2);
    after(60 * MONO_MS);
    ck_assert_uint_eq(w.message[2].n_put_back, 1);
    after(MONO_S);
    requeue(1);
    after(60 * MONO_MS);
    ck_assert_uint_eq(w.message[1].n_put_back, 0);
    ck_assert_uint_eq(w.message[1].n_failed, 1);
    finish();
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
    ck_assert_uint_eq(w.message[2].n_failed, 1);
    ck_assert_int_eq(w.message[1].state, AT_WORKER);
    ck_assert_int_eq(after(50 * MONO_MS), MONO_NEVER);
    CLIENT_GETS("deliver c 5/1 o1");
    ck_assert_uint_eq(w.message[1].n_failed, 1);
    finish();
}
END_TEST

/* Whether its channel is closed in order or its connection breaks is known before that. */
START_TEST(requeues_before_the_end_are_judged_by_it)
{
    worker_with_three();
    requeue(1);
    requeue(2);
    put_method(&b, 1, AMQP_CHANNEL_CLOSE_METHOD, "wsww", 200U, "", 0U, 0U);
    feed(SIDE_CLIENT);
    ck_assert_uint_eq(w.message[1].n_put_back + w.message[2].n_put_back, 2);
    ck_assert_uint_gt(w.message[1].settled, w.message[2].settled);
    finish();

    worker_with_three();
    requeue(1);
    session_end(&w.session, PROXY_FAIL);
    ck_assert_uint_eq(w.message[1].n_failed, 1);
    finish();

    worker_with_three();
    requeue(1);
    put_method(&b, 1, AMQP_BASIC_RECOVER_METHOD, "b", 1U);
    feed(SIDE_CLIENT);
    ck_assert_uint_eq(w.message[1].n_failed, 1);
    ck_assert_uint_eq(w.message[2].n_put_back, 1);
    finish();
}
END_TEST

/* To the client they are settled. */
START_TEST(what_was_returned_cannot_be_settled_again)
{
    worker_with_three();
    requeue(1);
    requeue(3);
    ack(1, 0);
    ack(3, 1);
    UPSTREAM_GETS("ack 9223372036854775807/0 ack 9223372036854775807/1");
    ack(2, 1);
    UPSTREAM_GETS("");
    ck_assert_int_eq(w.message[2].state, PROXY_ACK);
    ck_assert_int_eq(w.message[1].state, AT_WORKER);
    after(60 * MONO_MS);
    ck_assert_uint_eq(w.message[1].n_failed + w.message[3].n_failed, 2);
    finish();
}
END_TEST

/* ---- contents ---- */

/* Nothing comes between the frames of a content on its channel, wherever its bytes are cut; on
 * another channel it may. */
START_TEST(nothing_is_injected_inside_a_content)
{
    enum { METHOD_BYTES = 8 + 4 + 2 + 9 + 1 + 5 };
    put_method(&b, 1, AMQP_BASIC_RETURN_METHOD, "wsss", 312U, "NO_ROUTE", "", "none");
    ck_assert_uint_eq(b.n, METHOD_BYTES);
    put_content(&b, 1, "returned");
    struct buf content = b;
    b = (struct buf){0};
    for (size_t cut = 1; cut < content.n; cut++) {
        fresh();
        worker(100);
        proxy_world_put(&w, 1);
        ck_assert_int_eq(session_input(&w.session, SIDE_UPSTREAM, content.p, cut), 0);
        pump();
        ck_assert_int_eq(session_input(&w.session, SIDE_UPSTREAM, content.p + cut, content.n - cut),
                         0);
        pump();
        if (cut < METHOD_BYTES)
            CLIENT_GETS("deliver c 1/0 o1 return returned");
        else
            CLIENT_GETS("return returned deliver c 1/0 o1");
        finish();
    }
    buf_fini(&content);
}
END_TEST

/* ---- consumers ---- */

/* One that waits for no answer is there at once; the intake's name leads to the work queue. */
START_TEST(names_lead_to_the_work_queue)
{
    fresh();
    proxy_world_put(&w, 3);
    open_channel();
    qos(1);
    (void)said(SIDE_UPSTREAM);
    put_method(&b, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "intake", "now", 8U);
    feed(SIDE_CLIENT);
    pump();
    UPSTREAM_GETS("consume 0 work");
    CLIENT_GETS("deliver now 1/0 o1");
    put_method(&b, 1, AMQP_QUEUE_DECLARE_OK_METHOD, "sll", "intake", 5U, 1U);
    feed(SIDE_UPSTREAM);
    CLIENT_GETS("declare-ok intake 7");
    consume("", "last", 0);
    pump();
    UPSTREAM_GETS("consume 0 work");
    CLIENT_GETS("consume-ok deliver last 2/0 o2");
    put_method(&b, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, "intake", 1U);
    feed(SIDE_CLIENT);
    UPSTREAM_GETS("get 0 work");
    put_method(&b, 1, AMQP_BASIC_GET_EMPTY_METHOD, "s", "");
    feed(SIDE_UPSTREAM);
    CLIENT_GETS("get-ok 3 o3");
    finish();
}
END_TEST

/* Answers go to their questions in order, whichever queue those were about. */
START_TEST(answers_go_to_their_questions)
{
    fresh();
    proxy_world_put(&w, 1);
    open_channel();
    put_method(&b, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "other", "a", 0U);
    put_method(&b, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "work", "", 0U);
    put_method(&b, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, "other", 0U);
    put_method(&b, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, "work", 0U);
    feed(SIDE_CLIENT);
    put_method(&b, 1, AMQP_BASIC_CONSUME_OK_METHOD, "s", "a");
    feed(SIDE_UPSTREAM);
    pump();
    CLIENT_GETS("consume-ok");
    put_method(&b, 1, AMQP_BASIC_CONSUME_OK_METHOD, "s", "amq.ctag-1");
    feed(SIDE_UPSTREAM);
    pump();
    CLIENT_GETS("consume-ok deliver amq.ctag-1 1/0 o1");
    put_method(&b, 1, AMQP_BASIC_GET_EMPTY_METHOD, "s", "");
    feed(SIDE_UPSTREAM);
    CLIENT_GETS("get-empty");
    proxy_world_put(&w, 1);
    put_method(&b, 1, AMQP_BASIC_GET_EMPTY_METHOD, "s", "");
    feed(SIDE_UPSTREAM);
    CLIENT_GETS("get-ok 2 o2");
    finish();
}
END_TEST

/* An ack that was on its way when RabbitMQ closed the channel still counts. */
START_TEST(an_ack_on_its_way_survives_rabbitmqs_close)
{
    fresh();
    worker(2);
    proxy_world_put(&w, 3);
    pump();
    put_method(&b, 1, AMQP_CHANNEL_CLOSE_METHOD, "wsww", 404U, "NOT_FOUND", 0U, 0U);
    feed(SIDE_UPSTREAM);
    ack(1, 0);
    pump();
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 o2 channel.close");
    put_method(&b, 1, AMQP_CHANNEL_CLOSE_OK_METHOD, "");
    feed(SIDE_CLIENT);
    ck_assert_int_eq(w.message[1].state, PROXY_ACK);
    ck_assert_int_eq(w.message[2].state, AT_REST);
    ck_assert_uint_eq(w.message[2].n_failed, 1);
    ck_assert_uint_eq(w.session.n_open, 0);
    finish();
}
END_TEST

/* ---- the barrier ---- */

/* An ack waits for the publishes before it, not for those after it, and takes no other's answer. */
START_TEST(acks_wait_for_what_was_published_before)
{
    fresh();
    worker(3);
    proxy_world_put(&w, 4);
    pump();
    ack(1, 0);
    ck_assert_int_eq(w.message[1].state, PROXY_ACK);
    publish("r2");
    put_method(&b, 1, AMQP_CHANNEL_FLOW_METHOD, "b", 1U);
    feed(SIDE_CLIENT);
    ack(2, 0);
    publish("r3");
    ack(3, 0);
    UPSTREAM_GETS("publish r2 flow/1 flow/1 publish r3");
    pump();
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 o2 deliver c 3/0 o3 deliver c 4/0 o4");
    flow_ok(); /* the client's own */
    CLIENT_GETS("flow-ok/1");
    ck_assert_int_eq(w.message[2].state, AT_WORKER);
    flow_ok();
    CLIENT_GETS("");
    ck_assert_int_eq(w.message[2].state, PROXY_ACK);
    ck_assert_int_eq(w.message[3].state, AT_WORKER);
    UPSTREAM_GETS("flow/1");
    flow_ok();
    ck_assert_int_eq(w.message[3].state, PROXY_ACK);
    ck_assert_int_eq(w.message[4].state, AT_WORKER);
    finish();
    ck_assert_int_eq(w.message[4].state, AT_REST);
}
END_TEST

/* What was acked, but whose publish may be lost with the connection, runs again. */
START_TEST(a_held_ack_fails_with_its_connection)
{
    fresh();
    worker(1);
    proxy_world_put(&w, 1);
    pump();
    publish("r1");
    ack(1, 0);
    finish();
    ck_assert_int_eq(w.message[1].state, AT_REST);
    ck_assert_uint_eq(w.message[1].n_failed, 1);
}
END_TEST

/* RabbitMQ answers a close in order: what was published before it has arrived. */
START_TEST(a_close_ends_the_wait)
{
    fresh();
    worker(2);
    proxy_world_put(&w, 2);
    pump();
    publish("r1");
    ack(1, 0);
    put_method(&b, 1, AMQP_CHANNEL_CLOSE_METHOD, "wsww", 200U, "", 0U, 0U);
    feed(SIDE_CLIENT);
    ck_assert_int_eq(w.message[1].state, AT_WORKER);
    ck_assert_uint_eq(w.message[2].n_put_back, 1);
    flow_ok();
    put_method(&b, 1, AMQP_CHANNEL_CLOSE_OK_METHOD, "");
    feed(SIDE_UPSTREAM);
    ck_assert_int_eq(w.message[1].state, PROXY_ACK);
    CLIENT_GETS("deliver c 1/0 o1 deliver c 2/0 o2 channel.close-ok");
    finish();
}
END_TEST

/* Our own flow never comes inside a content that the client is sending. */
START_TEST(no_flow_inside_a_publish)
{
    fresh();
    worker(2);
    proxy_world_put(&w, 2);
    pump();
    publish("r1");
    ack(1, 0);
    publish("r2");
    ack(2, 0);
    put_method(&b, 1, AMQP_BASIC_PUBLISH_METHOD, "wssb", 0U, "", "results", 0U);
    feed(SIDE_CLIENT);
    flow_ok();
    UPSTREAM_GETS("publish r1 flow/1 publish r2 publish");
    put_content(&b, 1, "r3");
    feed(SIDE_CLIENT);
    UPSTREAM_GETS("r3 flow/1");
    finish();
}
END_TEST

/* ---- Celery's events ---- */

static void event(const char *exchange, const char *key, const char *json)
{
    put_method(&b, 1, AMQP_BASIC_PUBLISH_METHOD, "wssb", 0U, exchange, key, 0U);
    put_content(&b, 1, json);
    feed(SIDE_CLIENT);
}

#define SUCCEEDED(id, runtime) \
    "{\"type\":\"task-succeeded\",\"uuid\":\"" id "\",\"runtime\":" runtime "}"

/* A worker's own runtime is joined to its delivery, before or after the ack, once. */
START_TEST(events_tell_durations)
{
    fresh();
    worker(8);
    proxy_world_put(&w, 6);
    pump();
    ack(1, 0);
    event("celeryev", "task.multi",
          "[" SUCCEEDED("t1", "0.25") ",7,{},null," SUCCEEDED("t2", "3") "," SUCCEEDED("t99",
                                                                                       "1") "]");
    ck_assert(w.message[1].event_ms == 250);
    ck_assert(w.message[2].event_ms == 3000);
    event("celeryev", "task.succeeded", SUCCEEDED("t1", "9"));
    ck_assert(w.message[1].event_ms == 250);
    event("celeryev", "worker.heartbeat", SUCCEEDED("t3", "1"));
    event("results", "task.succeeded", SUCCEEDED("t3", "1"));
    event("celeryev", "task.succeeded", SUCCEEDED("t3", "-1"));
    event("celeryev", "task.succeeded", SUCCEEDED("t3", "\"1\""));
    event("celeryev", "task.succeeded", "[[[" SUCCEEDED("t3", "1"));
    event("celeryev", "task.succeeded", "");
    ck_assert(w.message[3].event_ms == 0);
    ck_assert_uint_eq(w.world.stats.event_runtimes, 2);
    finish();
}
END_TEST

/* While events come, the time to a task's ack is not told as well; later it is again. */
START_TEST(events_are_believed_rather_than_acks)
{
    const struct proxy_options o = {.max_channels = 5,
                                    .max_consumers = 3,
                                    .max_connection_bytes = 1 << 20,
                                    .early_ack = MONO_MS};
    fresh_with(&o);
    worker(1);
    for (uint64_t tag = 1; tag <= 3; tag++) {
        proxy_world_put(&w, 1);
        pump();
        w.world.now += tag == 3 ? 61 * MONO_S : MONO_S;
        ack(tag, 0);
        if (tag == 1)
            event("celeryev", "task.succeeded", SUCCEEDED("t1", "0.5"));
        flow_ok();
    }
    ck_assert(w.message[1].duration_ms == 1000);
    ck_assert(w.message[2].duration_ms < 0);
    ck_assert(w.message[3].duration_ms == 61000);
    ck_assert_uint_eq(w.world.stats.evented_acks, 1);
    finish();
}
END_TEST

/* ---- what it refuses ---- */

static void login(const char *mechanism, const char *response, size_t n)
{
    char at[8];
    put_method(&b, 0, AMQP_CONNECTION_START_OK_METHOD, "ts", mechanism);
    b.n--; /* the frame's end */
    wire_put32(at, (uint32_t)n);
    if (buf_append(&b, at, 4) < 0 || buf_append(&b, response, n) < 0 ||
        buf_append(&b, "\5en_US\xce", 7) < 0)
        ck_abort();
    wire_put32(b.p + 3, (uint32_t)(b.n - 8));
}

static bool lets_in(bool local, const char *mechanism, const char *response, size_t n)
{
    struct session s;
    fresh();
    session_init(&s, &w.world, local);
    char hello[] = "AMQP\0\0\x09\x01";
    ck_assert_int_eq(session_input(&s, SIDE_CLIENT, hello, 8), 0);
    login(mechanism, response, n);
    ck_assert_int_eq(session_input(&s, SIDE_CLIENT, b.p, b.n), 0);
    bool in = session_state(&s) == SESSION_HANDSHAKE;
    ck_assert_uint_eq(outbox_bytes(&s.out[SIDE_UPSTREAM]), in ? 8 + b.n : 8);
    session_end(&s, PROXY_FAIL);
    session_fini(&s);
    finish();
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
    fresh();
    worker(2);
    proxy_world_put(&w, 1);
    pump();
    (void)said(SIDE_CLIENT);
    put_method(&b, 1, AMQP_TX_SELECT_METHOD, "");
    put_method(&b, 1, AMQP_BASIC_ACK_METHOD, "qb", UINT64_C(1), 0U);
    feed(SIDE_CLIENT);
    CLIENT_GETS("close 540");
    UPSTREAM_GETS("close 540");
    ck_assert_uint_eq(w.message[1].n_failed, 1);
    put_method(&b, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, "");
    feed(SIDE_CLIENT);
    ck_assert_int_eq(session_state(&w.session), SESSION_ENDED);
    UPSTREAM_GETS("");
    finish();
}
END_TEST

/* Every table has an end, and who fills it is told so. */
START_TEST(tables_are_bounded)
{
    const struct proxy_options o = {.max_channels = 5, .max_consumers = 3};
    fresh_with(&o);
    open_channel();
    for (int i = 0; i < 4; i++) {
        put_method(&b, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "other", "", 0U);
        feed(SIDE_CLIENT);
    }
    CLIENT_GETS("close 506");
    finish();
    fresh_with(&o);
    put_method(&b, 101, AMQP_CHANNEL_OPEN_METHOD, "s", "");
    feed(SIDE_CLIENT);
    CLIENT_GETS("close 530");
    finish();
    fresh_with(&o);
    put_method(&b, 0, AMQP_CONNECTION_TUNE_METHOD, "wlw", 2047U, 0U, 60U);
    feed(SIDE_UPSTREAM);
    CLIENT_GETS("tune 5 16777216");
    open_channel();
    for (int i = 0; i < 1025; i++) {
        put_method(&b, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, "other", 1U);
        feed(SIDE_CLIENT);
    }
    CLIENT_GETS("close 506");
    finish();
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
    fresh();
    worker(1);
    proxy_world_put(&w, 1);
    pump();
    (void)said(SIDE_CLIENT);
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        struct frame f;
        uint16_t channel = methods[i] >> 16 == 10 ? 0 : 1;
        put_method(&b, channel, methods[i], "");
        size_t n = b.n;
        feed(SIDE_CLIENT);
        ck_assert(proxy_world_take(&w, SIDE_UPSTREAM, &f));
        ck_assert_uint_eq(f.n_raw, n);
        ck_assert_uint_eq(wire_get32(f.payload), methods[i]);
    }
    ck_assert_int_eq(w.message[1].state, AT_WORKER);
    finish();
}
END_TEST

/* What is not AMQP 0-9-1 is handed on untouched. */
START_TEST(amqp_1_0_is_a_tunnel)
{
    struct session s;
    char hello[] = "AMQP\3\1\0\0\0\0\0\x1f\2", answer[] = "AMQP\3\1\0\0";
    fresh();
    session_init(&s, &w.world, true);
    ck_assert_int_eq(session_input(&s, SIDE_CLIENT, hello, 13), 0);
    ck_assert_int_eq(session_input(&s, SIDE_UPSTREAM, answer, 8), 0);
    ck_assert_int_eq(session_state(&s), SESSION_TUNNEL);
    ck_assert_mem_eq(s.out[SIDE_UPSTREAM].bytes.p, hello, 13);
    ck_assert_uint_eq(s.out[SIDE_CLIENT].bytes.n, 8);
    session_end(&s, PROXY_FAIL);
    session_fini(&s);
    finish();
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {multiple_is_split_between_both,
                                  tag_0_is_never_passed_on,
                                  what_needs_no_ack_is_never_acked,
                                  requeues_before_a_cancel_are_no_failures,
                                  requeues_after_a_cancel_are_no_failures_for_a_while,
                                  requeues_of_a_worker_that_goes_on_are_failures,
                                  requeues_before_the_end_are_judged_by_it,
                                  what_was_returned_cannot_be_settled_again,
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
