/*
 * Every allocation of a whole life of the delivery core fails once: no message is lost, nothing
 * leaks, no invariant breaks, and whoever was refused succeeds by asking again.
 */
#include "lib/brokers.h"
#include "lib/failing_malloc.h"
#include "lib/testmain.h"

#include <stdio.h>
#include <stdlib.h>

enum { MESSAGES = 60, LATEST = 1000000 };

struct outcome {
    bool made;
    const char *broken;
    unsigned refused, gave_up;
    uint64_t ended;
    struct hb_broker_stats stats;
};

static void on_ended(void *ctx, void *owner, const struct hb_end *end, int64_t now)
{
    struct outcome *out = ctx;
    out->ended++;
}

static void look(struct hb_broker *b, struct outcome *out)
{
    if (out->broken == NULL)
        out->broken = hb_broker_check(b);
}

static void submit(struct hb_broker *b, int i, struct outcome *out)
{
    static const int64_t ttls[] = {0, 50, LATEST};
    struct hb_submission s = message("payload");
    s.key = k("key");
    s.ttl_ns = ttls[i % 3];
    s.owner = i % 4 == 0 ? out : NULL;
    struct hb_message *owned;
    for (int tries = 0; hb_broker_submit(b, &s, i, NULL, &owned) != HB_BROKER_OK; tries++) {
        out->refused++;
        look(b, out);
        if (tries > 0) {
            out->gave_up++;
            return;
        }
    }
    if (i % 12 == 8) /* for good: they end with their time to live, or with the broker */
        (void)hb_broker_hold(b, owned);
}

static bool pull(struct hb_broker *b, int64_t now, struct hb_delivery *d, struct outcome *out)
{
    int (*call)(struct hb_broker *, uint64_t, int64_t, struct hb_delivery *) =
        now % 7 == 0 ? hb_broker_pull_unleased : hb_broker_pull;
    int r = call(b, 1, now, d);
    if (r == HB_BROKER_NOMEM) {
        out->refused++;
        look(b, out);
        r = call(b, 1, now, d);
    }
    return r == HB_BROKER_OK;
}

/* Acks, nacks and rejects with a reason, returns, and leaves some to their leases. */
static void work(struct hb_broker *b, int i, struct outcome *out)
{
    struct hb_delivery d;
    if (!pull(b, MESSAGES + i, &d, out))
        return;
    struct hb_settlement s = settlement_of(&d, 1);
    s.reason = bytes("because it does not work");
    switch (i % 11 == 10 ? 10 : i % 5) {
    case 10: (void)hb_broker_reject(b, &s, MESSAGES + i); break;
    case 0: (void)hb_broker_ack(b, &s, MESSAGES + i); break;
    case 1:
    case 2: (void)hb_broker_nack(b, &s, MESSAGES + i); break;
    case 3: (void)hb_broker_return(b, &s, MESSAGES + i); break;
    default: break;
    }
}

static void scenario(struct outcome *out)
{
    struct hb_broker_options o;
    struct hb_broker_events events = {.ended = on_ended, .ctx = out};
    *out = (struct outcome){0};
    hb_broker_options_init(&o);
    o.lease_ns = 40;
    o.history_entries = 50;
    struct hb_broker *b = hb_broker_new(&o, &events);
    if (b == NULL)
        return;
    out->made = true;
    for (int i = 0; i < MESSAGES; i++) {
        submit(b, i, out);
        look(b, out);
    }
    for (int i = 0; i < 300; i++) {
        work(b, i, out);
        while (hb_broker_tick(b, MESSAGES + i) <= MESSAGES + i)
            continue;
        look(b, out);
    }
    if (hb_broker_redrive_oldest(b, 3, 400) == 0)
        out->refused++;
    look(b, out);
    hb_broker_stats(b, &out->stats);
    hb_broker_free(b);
}

/* Every message that was taken in is somewhere, or has ended in a way that is counted. */
static void nothing_is_lost(const struct outcome *out, long i)
{
    const struct hb_broker_stats *s = &out->stats;
    ck_assert_msg(out->broken == NULL, "%ld: %s", i, out->broken);
    ck_assert_uint_eq(out->gave_up, 0);
    uint64_t died = s->died[HB_DEAD_MAX_RETRIES] + s->died[HB_DEAD_TTL_EXPIRED] + s->rejected;
    ck_assert_uint_eq(s->submitted, MESSAGES);
    ck_assert_uint_eq(s->submitted + s->redriven, s->acked + died + s->waiting + s->in_flight);
    ck_assert_uint_le(out->ended, s->acked + died);
    ck_assert_uint_gt(s->rejected, 0);
    ck_assert_uint_gt(s->acked, 0);
    ck_assert_uint_gt(s->died[HB_DEAD_MAX_RETRIES], 0);
    ck_assert_uint_gt(s->died[HB_DEAD_TTL_EXPIRED], 0);
    ck_assert_uint_gt(s->leases_expired, 0);
    ck_assert_uint_gt(s->held, 0);
}

START_TEST(each_failed_allocation_is_survived)
{
    struct outcome out;
    long before = seen;
    scenario(&out);
    long n = seen - before;
    nothing_is_lost(&out, -1);
    ck_assert_uint_eq(out.refused, 0);
    ck_assert_int_gt(n, MESSAGES);
    unsigned not_made = 0, refused = 0;
    for (long i = 0; i < n; i++) {
        countdown = i;
        scenario(&out);
        countdown = -1;
        not_made += !out.made;
        refused += out.refused > 0;
        if (out.made)
            nothing_is_lost(&out, i);
    }
    ck_assert_uint_gt(not_made, 0);
    ck_assert_uint_ge(refused, MESSAGES);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {each_failed_allocation_is_survived, NULL};
    return suite_of("broker_alloc", tests);
}
