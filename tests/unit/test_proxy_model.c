/*
 * A client, the proxy's session and RabbitMQ, all at random: bytes of both directions are cut
 * anywhere and late by any time, and the client does whatever a client may. When all is said that
 * was under way, the three must agree about every message.
 *
 * The client and RabbitMQ here are as plain as AMQP's rules can be written: an array of messages
 * each, every question answered by looking at all of them.
 */
#include "amqp/wire.h"
#include "base/rng.h"
#include "lib/proxy_world.h"
#include "lib/testmain.h"
#include "proxy/args.h"
#include "proxy/qos.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 600, CONSUMERS = 6, STEPS = 3000, PREFETCH = 4 };

/* ---- RabbitMQ: messages u1, u2, ... for any consumer ---- */

struct rabbit {
    bool open, is_taker[CONSUMERS];
    bool no_ack[CONSUMERS];
    uint64_t next_tag;
    unsigned n;
    uint64_t tag[MESSAGES]; /* 0: in its queue */
    bool done[MESSAGES];
    bool in_publish;
    unsigned n_published;
    struct buf out;
};

/* ---- the client: what it has of both kinds ---- */

enum { OURS, UPSTREAM };

struct client {
    bool open, closing, recovering, getting;
    bool get_no_ack;
    int consumer_state[CONSUMERS]; /* 0 none, 1 there, 2 being cancelled */
    bool no_ack[CONSUMERS];
    uint64_t last_tag;
    uint64_t tag[2][MESSAGES]; /* 0: does not have it */
    int consumer[2][MESSAGES];
    bool acked[2][MESSAGES];
    struct {
        bool method, no_ack;
        int consumer; /* -1: basic.get */
        uint64_t tag;
    } due; /* the delivery whose content comes */
    struct buf out;
};

struct all {
    struct proxy_world w;
    struct rng rng;
    struct rabbit rabbit;
    struct client client;
};

static unsigned below(struct all *a, unsigned n)
{
    return (unsigned)(rng_next(&a->rng) % n);
}

static void name_of(int consumer, char out[8])
{
    snprintf(out, 8, "c%d", consumer);
}

static int consumer_of(struct text name)
{
    MUST(name.n == 2 && name.p[0] == 'c');
    return name.p[1] - '0';
}

/* ---- RabbitMQ ---- */

static void rabbit_requeue_all(struct rabbit *r)
{
    for (unsigned i = 1; i <= r->n; i++)
        r->tag[i] = 0;
}

/* A tag that is not unsettled would be an error on the wire: the client of this test makes none. */
static void rabbit_settle(struct rabbit *r, uint64_t tag, bool multiple, bool requeue)
{
    bool found = false;
    MUST(r->open && tag > 0);
    for (unsigned i = 1; i <= r->n; i++)
        found = found || (!r->done[i] && r->tag[i] == tag);
    MUST(found);
    for (unsigned i = 1; i <= r->n; i++) {
        if (r->tag[i] == 0 || r->done[i] || (multiple ? r->tag[i] > tag : r->tag[i] != tag))
            continue;
        r->tag[i] = 0;
        r->done[i] = !requeue;
    }
}

static void rabbit_consume(struct rabbit *r, struct args *in)
{
    char name[8];
    args_u16(in);
    args_short(in);
    int c = consumer_of(args_short(in));
    uint8_t bits = args_u8(in);
    MUST(!r->is_taker[c]);
    r->is_taker[c] = true;
    r->no_ack[c] = (bits & 2) != 0;
    name_of(c, name);
    if ((bits & 8) == 0)
        put_method(&r->out, 1, AMQP_BASIC_CONSUME_OK_METHOD, "s", name);
}

static void rabbit_cancel(struct rabbit *r, struct args *in)
{
    char name[8];
    int c = consumer_of(args_short(in));
    r->is_taker[c] = false;
    name_of(c, name);
    put_method(&r->out, 1, AMQP_BASIC_CANCEL_OK_METHOD, "s", name);
}

static unsigned rabbit_next(const struct rabbit *r)
{
    for (unsigned i = 1; i <= r->n; i++)
        if (r->tag[i] == 0 && !r->done[i])
            return i;
    return 0;
}

static void rabbit_send(struct rabbit *r, const char *consumer, bool no_ack)
{
    char body[8];
    unsigned i = rabbit_next(r);
    r->next_tag++;
    r->tag[i] = no_ack ? 0 : r->next_tag;
    r->done[i] = no_ack;
    snprintf(body, sizeof body, "u%u", i);
    if (consumer != NULL)
        put_method(&r->out, 1, AMQP_BASIC_DELIVER_METHOD, "sqbss", consumer, r->next_tag, 0U, "",
                   "q");
    else
        put_method(&r->out, 1, AMQP_BASIC_GET_OK_METHOD, "qbssl", r->next_tag, 0U, "", "q", 0U);
    put_content(&r->out, 1, body);
}

static void rabbit_close(struct rabbit *r)
{
    rabbit_requeue_all(r);
    for (int c = 0; c < CONSUMERS; c++)
        r->is_taker[c] = false;
    r->open = false;
    put_method(&r->out, 1, AMQP_CHANNEL_CLOSE_OK_METHOD, "");
}

static void rabbit_get(struct all *a, struct args *in)
{
    struct rabbit *r = &a->rabbit;
    args_u16(in);
    args_short(in);
    bool no_ack = args_u8(in) != 0;
    if (rabbit_next(r) > 0 && below(a, 2) == 0)
        rabbit_send(r, NULL, no_ack);
    else
        put_method(&r->out, 1, AMQP_BASIC_GET_EMPTY_METHOD, "s", "");
}

static void rabbit_hears(struct all *a, struct frame *f)
{
    struct rabbit *r = &a->rabbit;
    struct args in = {f->payload, f->n, false};
    if (f->type != AMQP_FRAME_METHOD) { /* no other frame may come in a content */
        MUST(r->in_publish);
        r->in_publish = f->type == AMQP_FRAME_HEADER && wire_get64(f->payload + 4) > 0;
        return;
    }
    MUST(!r->in_publish);
    uint32_t method = args_u32(&in);
    uint64_t tag;
    switch (method) {
    case AMQP_CHANNEL_OPEN_METHOD:
        r->open = true;
        r->next_tag = 0;
        put_method(&r->out, 1, AMQP_CHANNEL_OPEN_OK_METHOD, "l", 0U);
        break;
    case AMQP_CHANNEL_CLOSE_METHOD: rabbit_close(r); break;
    case AMQP_CHANNEL_FLOW_METHOD:
        put_method(&r->out, 1, AMQP_CHANNEL_FLOW_OK_METHOD, "b", 1U);
        break;
    case AMQP_BASIC_CONSUME_METHOD: rabbit_consume(r, &in); break;
    case AMQP_BASIC_CANCEL_METHOD: rabbit_cancel(r, &in); break;
    case AMQP_BASIC_GET_METHOD: rabbit_get(a, &in); break;
    case AMQP_BASIC_PUBLISH_METHOD:
        r->in_publish = true;
        r->n_published++;
        break;
    case AMQP_BASIC_RECOVER_METHOD:
        rabbit_requeue_all(r);
        put_method(&r->out, 1, AMQP_BASIC_RECOVER_OK_METHOD, "");
        break;
    case AMQP_BASIC_ACK_METHOD:
        tag = args_u64(&in);
        rabbit_settle(r, tag, args_u8(&in) != 0, false);
        break;
    case AMQP_BASIC_NACK_METHOD: {
        tag = args_u64(&in);
        uint8_t bits = args_u8(&in);
        rabbit_settle(r, tag, (bits & 1) != 0, (bits & 2) != 0);
        break;
    }
    case AMQP_BASIC_QOS_METHOD: put_method(&r->out, 1, AMQP_BASIC_QOS_OK_METHOD, ""); break;
    default: MUST(!"a method that nobody sent");
    }
}

static void rabbit_acts(struct all *a)
{
    struct rabbit *r = &a->rabbit;
    char name[8];
    int c = (int)below(a, CONSUMERS);
    if (!r->open || !r->is_taker[c] || rabbit_next(r) == 0)
        return;
    name_of(c, name);
    rabbit_send(r, name, r->no_ack[c]);
}

/* ---- the client ---- */

static void client_forget(struct client *c)
{
    memset(c->tag, 0, sizeof c->tag);
}

/* Its body names the message; what came before the answer to recover or close it throws away. */
static void client_receives(struct all *a, struct text body)
{
    struct client *c = &a->client;
    int consumer = c->due.consumer;
    bool no_ack = c->due.no_ack;
    int kind = body.p[0] == 'o' ? OURS : UPSTREAM;
    char digits[8] = "";
    memcpy(digits, body.p + 1, body.n - 1);
    unsigned i = (unsigned)strtoul(digits, NULL, 10), held = 0;
    MUST(i > 0 && i < MESSAGES);
    c->due.method = false;
    if (c->closing) { /* only what needs no ack counts: it is gone all the same */
        c->acked[kind][i] = c->acked[kind][i] || no_ack;
        return;
    }
    MUST(c->due.tag == ++c->last_tag);
    for (int k = 0; k < 2; k++)
        for (unsigned j = 1; j < MESSAGES; j++)
            held += c->tag[k][j] > 0 && c->consumer[k][j] == consumer;
    MUST(kind == UPSTREAM || no_ack || consumer < 0 || held < PREFETCH);
    MUST(!c->acked[kind][i] && (c->tag[kind][i] == 0 || c->recovering));
    c->acked[kind][i] = no_ack;
    if (no_ack || c->recovering)
        return;
    c->tag[kind][i] = c->due.tag;
    c->consumer[kind][i] = consumer;
}

static void client_hears(struct all *a, struct frame *f)
{
    struct client *c = &a->client;
    struct args in = {f->payload, f->n, false};
    if (f->type != AMQP_FRAME_METHOD) {
        MUST(c->due.method);
        if (f->type == AMQP_FRAME_BODY)
            client_receives(a, (struct text){f->payload, f->n});
        return;
    }
    uint32_t method = args_u32(&in);
    MUST(!c->due.method && f->channel == 1);
    switch (method) {
    case AMQP_BASIC_DELIVER_METHOD:
        c->due.method = true;
        c->due.consumer = consumer_of(args_short(&in));
        c->due.no_ack = c->no_ack[c->due.consumer];
        c->due.tag = args_u64(&in);
        break;
    case AMQP_BASIC_GET_OK_METHOD:
        c->due.method = true;
        c->due.consumer = -1;
        c->due.no_ack = c->get_no_ack;
        c->due.tag = args_u64(&in);
        c->getting = false;
        break;
    case AMQP_BASIC_GET_EMPTY_METHOD: c->getting = false; break;
    case AMQP_BASIC_CANCEL_OK_METHOD: c->consumer_state[consumer_of(args_short(&in))] = 0; break;
    case AMQP_BASIC_RECOVER_OK_METHOD: c->recovering = false; break;
    case AMQP_CHANNEL_CLOSE_OK_METHOD:
        c->open = c->closing = c->recovering = c->getting = false;
        c->last_tag = 0;
        memset(c->consumer_state, 0, sizeof c->consumer_state);
        break;
    case AMQP_CHANNEL_OPEN_OK_METHOD:
    case AMQP_BASIC_CONSUME_OK_METHOD:
    case AMQP_CHANNEL_FLOW_OK_METHOD:
    case AMQP_BASIC_QOS_OK_METHOD: break;
    default: MUST(!"a method that nobody sent");
    }
}

static void client_settles(struct all *a)
{
    struct client *c = &a->client;
    int kind = (int)below(a, 2);
    unsigned i = 1 + below(a, MESSAGES - 1);
    uint64_t tag = c->tag[kind][i];
    if (tag == 0)
        return;
    bool multiple = below(a, 4) == 0, nack = below(a, 4) == 0, requeue = nack && below(a, 2) == 0;
    if (nack)
        put_method(&c->out, 1, AMQP_BASIC_NACK_METHOD, "qb", tag,
                   (multiple ? 1U : 0U) | (requeue ? 2U : 0U));
    else
        put_method(&c->out, 1, AMQP_BASIC_ACK_METHOD, "qb", tag, multiple ? 1U : 0U);
    for (int k = 0; k < 2; k++)
        for (unsigned j = 1; j < MESSAGES; j++) {
            if (c->tag[k][j] == 0 || (multiple ? c->tag[k][j] > tag : c->tag[k][j] != tag))
                continue;
            c->tag[k][j] = 0;
            c->acked[k][j] = !requeue;
        }
}

static void client_consumes(struct all *a)
{
    static const char *const queues[] = {"work", "intake", "other"};
    struct client *c = &a->client;
    char name[8];
    int i = (int)below(a, CONSUMERS);
    name_of(i, name);
    if (c->consumer_state[i] == 1 && below(a, 3) == 0) {
        c->consumer_state[i] = 2;
        put_method(&c->out, 1, AMQP_BASIC_CANCEL_METHOD, "sb", name, 0U);
    } else if (c->consumer_state[i] == 0) {
        c->consumer_state[i] = 1;
        c->no_ack[i] = below(a, 4) == 0;
        for (int k = 0; k < 2; k++) /* what it still has is an earlier consumer's of that name */
            for (unsigned j = 1; j < MESSAGES; j++)
                c->consumer[k][j] = c->consumer[k][j] == i ? -2 : c->consumer[k][j];
        put_method(&c->out, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, queues[below(a, 3)], name,
                   (c->no_ack[i] ? 2U : 0U) | (below(a, 3) == 0 ? 8U : 0U));
    }
}

static void client_acts(struct all *a)
{
    struct client *c = &a->client;
    if (!c->open) {
        c->open = true;
        put_method(&c->out, 1, AMQP_CHANNEL_OPEN_METHOD, "s", "");
        put_method(&c->out, 1, AMQP_BASIC_QOS_METHOD, "lwb", 0U, (unsigned)PREFETCH, 0U);
        return;
    }
    if (c->closing)
        return;
    switch (below(a, 40)) {
    case 0:
        c->closing = below(a, 4) == 0;
        if (c->closing) {
            put_method(&c->out, 1, AMQP_CHANNEL_CLOSE_METHOD, "wsww", 200U, "", 0U, 0U);
            client_forget(c);
        }
        break;
    case 1:
        if (!c->recovering && !c->getting) {
            c->recovering = true;
            put_method(&c->out, 1, AMQP_BASIC_RECOVER_METHOD, "b", 1U);
            client_forget(c);
        }
        break;
    case 2:
        if (!c->getting && !c->recovering) {
            c->getting = true;
            c->get_no_ack = below(a, 3) == 0;
            put_method(&c->out, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, below(a, 2) ? "work" : "other",
                       c->get_no_ack ? 1U : 0U);
        }
        break;
    case 3: put_method(&c->out, 1, AMQP_CHANNEL_FLOW_METHOD, "b", 1U); break;
    case 4:
    case 5:
    case 6: client_consumes(a); break;
    case 7:
    case 8:
        put_method(&c->out, 1, AMQP_BASIC_PUBLISH_METHOD, "wssb", 0U, "", "results", 0U);
        put_content(&c->out, 1, below(a, 3) == 0 ? "" : "result");
        break;
    default:
        for (int i = 0; i < 40; i++)
            client_settles(a);
        break;
    }
}

/* ---- all together ---- */

/* A part of the bytes from one side comes in; all of them when `n` is large. */
static void comes_in(struct all *a, enum side from, struct buf *out, size_t n)
{
    size_t m = n < out->n ? n : out->n;
    MUST(session_input(&a->w.session, from, out->p, m) == 0);
    MUST(session_state(&a->w.session) == SESSION_OPEN);
    if (m > 0)
        memmove(out->p, out->p + m, out->n - m);
    out->n -= m;
}

static void goes_out(struct all *a, enum side to, unsigned most)
{
    struct frame f;
    while (most-- > 0 && proxy_world_take(&a->w, to, &f)) {
        if (to == SIDE_CLIENT)
            client_hears(a, &f);
        else
            rabbit_hears(a, &f);
    }
}

static void step(struct all *a)
{
    a->w.world.now += MONO_MS;
    switch (below(a, 8)) {
    case 0: client_acts(a); break;
    case 1: rabbit_acts(a); break;
    case 2: comes_in(a, SIDE_CLIENT, &a->client.out, below(a, 60)); break;
    case 3: comes_in(a, SIDE_UPSTREAM, &a->rabbit.out, below(a, 60)); break;
    case 4: goes_out(a, SIDE_CLIENT, below(a, 5)); break;
    case 5: goes_out(a, SIDE_UPSTREAM, below(a, 5)); break;
    default:
        MUST(world_end_returns(&a->w.world) > a->w.world.now);
        (void)world_pump(&a->w.world);
        break;
    }
    if (below(a, 8) == 0 && a->w.n_messages < MESSAGES - 1)
        proxy_world_put(&a->w, 1);
    if (below(a, 8) == 0 && a->rabbit.n < MESSAGES - 1)
        a->rabbit.n++;
}

static void settle_down(struct all *a)
{
    for (int i = 0; i < 10; i++) {
        comes_in(a, SIDE_CLIENT, &a->client.out, SIZE_MAX);
        goes_out(a, SIDE_UPSTREAM, UINT32_MAX);
        comes_in(a, SIDE_UPSTREAM, &a->rabbit.out, SIZE_MAX);
        (void)world_pump(&a->w.world);
        goes_out(a, SIDE_CLIENT, UINT32_MAX);
        a->w.world.now += 100 * MONO_MS;
        (void)world_end_returns(&a->w.world);
    }
}

/* Who has which message, as each of the three sees it. */
static void agree(struct all *a)
{
    const struct client *c = &a->client;
    for (unsigned i = 1; i <= a->w.n_messages; i++) {
        int state = a->w.message[i].state;
        MUST(c->acked[OURS][i] == (state == PROXY_ACK || state == PROXY_DISCARD));
        MUST((c->tag[OURS][i] > 0) == (state == AT_WORKER));
    }
    for (unsigned i = 1; i <= a->rabbit.n; i++) {
        MUST(c->acked[UPSTREAM][i] == a->rabbit.done[i]);
        MUST((c->tag[UPSTREAM][i] > 0) == (a->rabbit.tag[i] > 0));
    }
    for (unsigned i = a->w.n_messages + 1; i < MESSAGES; i++)
        MUST(!c->acked[OURS][i]);
}

START_TEST(client_proxy_and_rabbitmq_agree)
{
    static struct all a;
    memset(&a, 0, sizeof a);
    a.rng.state = (uint64_t)_i;
    proxy_world_init(&a.w, NULL);
    for (int i = 0; i < STEPS; i++) {
        step(&a);
        if (i % 500 == 499) {
            settle_down(&a);
            agree(&a);
        }
    }
    proxy_world_fini(&a.w);
    buf_fini(&a.rabbit.out);
    buf_fini(&a.client.out);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("proxy_model");
    TCase *tc = tcase_create("random");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, client_proxy_and_rabbitmq_agree, 0, 300);
    suite_add_tcase(s, tc);
    return s;
}
