/*
 * Every allocation of a whole life of a session fails once: it ends, or goes on as if nothing had
 * been; each delivery is settled exactly once all the same (proxy_world sees to it), and nothing
 * leaks.
 */
#include "base/err.h"
#include "lib/failing_malloc.h"
#include "lib/proxy_world.h"
#include "lib/testmain.h"

#include <string.h>

static struct proxy_world w;
static struct buf b;
static long left; /* allocations of the session until one fails */

/* Only what the session allocates fails, not what this test does. */
static bool say(enum side from)
{
    countdown = left;
    int r = session_input(&w.session, from, b.p, b.n);
    left = countdown;
    countdown = -1;
    b.n = 0;
    MUST(r == 0 || r == ERR_NOMEM);
    return r == 0;
}

static void pump(void)
{
    countdown = left;
    (void)world_pump(&w.world);
    left = countdown;
    countdown = -1;
}

static bool client(uint32_t method, uint64_t tag, unsigned bits)
{
    put_method(&b, 1, method, "qb", tag, bits);
    return say(SIDE_CLIENT);
}

static bool publish(void)
{
    put_method(&b, 1, AMQP_BASIC_PUBLISH_METHOD, "wssb", 0U, "", "results", 0U);
    put_content(&b, 1, "result");
    return say(SIDE_CLIENT);
}

static bool opened(void)
{
    put_method(&b, 9, AMQP_CHANNEL_OPEN_METHOD, "s", "");
    put_method(&b, 1, AMQP_CHANNEL_OPEN_METHOD, "s", "");
    put_method(&b, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "intake", "c", 0U);
    put_method(&b, 1, AMQP_BASIC_CONSUME_METHOD, "wssbt", 0U, "other", "d", 0U);
    put_method(&b, 1, AMQP_BASIC_GET_METHOD, "wsb", 0U, "work", 0U);
    if (!say(SIDE_CLIENT))
        return false;
    put_method(&b, 1, AMQP_BASIC_CONSUME_OK_METHOD, "s", "c");
    put_method(&b, 1, AMQP_BASIC_CONSUME_OK_METHOD, "s", "d");
    put_method(&b, 1, AMQP_BASIC_GET_EMPTY_METHOD, "s", "");
    return say(SIDE_UPSTREAM);
}

/* Deliveries of both kinds, in pieces; acks at once and behind the barrier. False when it ended. */
static bool lived(void)
{
    if (!opened())
        return false;
    pump();
    put_method(&b, 1, AMQP_BASIC_DELIVER_METHOD, "sqbss", "d", UINT64_C(1), 0U, "", "");
    put_content(&b, 1, "u1");
    b.n -= 3;
    if (!say(SIDE_UPSTREAM))
        return false;
    MUST(buf_append(&b, "u1\xce", 3) == 0);
    if (!say(SIDE_UPSTREAM) || !client(AMQP_BASIC_ACK_METHOD, 1, 0) || !publish())
        return false;
    for (uint64_t tag = 2; tag < 8; tag++)
        if (!client(AMQP_BASIC_ACK_METHOD, tag, 0))
            return false;
    put_method(&b, 1, AMQP_CHANNEL_FLOW_OK_METHOD, "b", 1U);
    if (!say(SIDE_UPSTREAM) || !client(AMQP_BASIC_NACK_METHOD, 0, 3))
        return false;
    put_method(&b, 1, AMQP_TX_SELECT_METHOD, "");
    return say(SIDE_CLIENT);
}

START_TEST(every_allocation_may_fail)
{
    unsigned failed = 0;
    bool whole = false;
    for (long n = 0; !whole; n++) {
        proxy_world_init(&w, NULL);
        proxy_world_put(&w, 12);
        left = n;
        bool ended = !lived();
        failed += ended;
        whole = left >= 0;
        MUST(!whole || !ended);
        proxy_world_fini(&w);
        for (unsigned i = 1; i <= 12; i++)
            MUST(w.message[i].state == AT_REST || w.message[i].state == PROXY_ACK);
    }
    buf_fini(&b);
    b = (struct buf){0};
    ck_assert_uint_gt(failed, 10);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {every_allocation_may_fail, NULL};
    return suite_of("proxy_alloc", tests);
}
