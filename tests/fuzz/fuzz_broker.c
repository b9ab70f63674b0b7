/*
 * Exercises src/broker and, through it, src/policy: the input is a program for the delivery core.
 *
 * The first bytes choose options; then each operation is a byte with an argument byte. After each
 * one all invariants hold and no message is lost.
 */
#include "fuzz/target.h"
#include "lib/brokers.h"

#include <stdlib.h>

enum { DELIVERIES = 16, OPERATIONS = 2000 };

struct machine {
    struct hb_broker *b;
    int64_t now;
    struct hb_delivery recent[DELIVERIES];
    uint8_t consumer[DELIVERIES];
    unsigned n_recent;
    uint64_t withdrawn;
    struct hb_message *owned;
};

static void must(int yes)
{
    if (!yes)
        abort();
}

static void on_ended(void *ctx, void *owner, const struct hb_end *end, int64_t now)
{
    struct machine *m = ctx;
    must(owner == m);
    m->owned = NULL;
}

static void options_of(const uint8_t *p, struct hb_broker_options *o)
{
    hb_broker_options_init(o);
    o->levels = 1 + p[0] % 5;
    o->order = p[0] & 0x80 ? HB_ORDER_FIFO : HB_ORDER_PAPER;
    o->aging_threshold_ns = p[1] % 64;
    o->aging_interval_ns = 1 + p[1] / 64;
    o->weighted = p[2] & 1;
    for (unsigned i = 0; i < o->levels; i++)
        o->weights[i] = (uint16_t)(1 + p[2] / (i + 1));
    o->pause = (enum hb_pause)(p[3] % 3);
    o->ttl_ns = p[3] & 0x80 ? p[3] : 0;
    o->max_attempts = 1 + p[4] % 4;
    o->lease_ns = p[4] / 4;
    o->extendable_leases = p[5] & 1;
    o->history_entries = 1 + p[5] / 16;
    o->history_ns = 1 + p[5];
    o->batch = 1 + p[6] % 8;
    o->max_messages = p[6] / 8;
    o->max_dead = p[7] % 8;
    o->dead_overflow = p[7] & 0x80 ? HB_DEAD_REFUSE_SUBMITS : HB_DEAD_DROP_OLDEST;
}

static void submit(struct machine *m, uint8_t x)
{
    static const char text[] = "0123456789abcdef";
    struct hb_submission s = {.payload = {text, x % 16},
                              .key = {text, x % 3},
                              .n_parent = x % 3 > 1,
                              .level = x % hb_broker_options(m->b)->levels,
                              .estimate_ms = x % 7 - 1.0,
                              .ttl_ns = x % 5 == 0   ? HB_TTL_DEFAULT
                                        : x % 5 == 1 ? x
                                                     : 0};
    struct hb_message *message;
    if (m->owned == NULL && x % 4 == 0)
        s.owner = m;
    if (hb_broker_submit(m->b, &s, m->now, NULL, &message) == HB_BROKER_OK && s.owner != NULL)
        m->owned = message;
}

static void pull(struct machine *m, uint8_t x)
{
    unsigned i = m->n_recent % DELIVERIES;
    int r = x & 0x40 ? hb_broker_pull_unleased(m->b, x % 3, m->now, &m->recent[i])
                     : hb_broker_pull(m->b, x % 3, m->now, &m->recent[i]);
    if (r != HB_BROKER_OK)
        return;
    m->consumer[i] = x % 3;
    m->n_recent++;
}

static void settle(struct machine *m, uint8_t how, uint8_t x)
{
    struct hb_settlement s = settlement_of(&m->recent[x % DELIVERIES], m->consumer[x % DELIVERIES]);
    s.token += x >= 240;
    s.consumer += x >= 224 && x < 240;
    s.duration_ms = x;
    s.reason = (struct hb_bytes){"reason", x % 7};
    switch (how) {
    case 0: (void)hb_broker_ack(m->b, &s, m->now); break;
    case 1:
        (void)(x & 0x10 ? hb_broker_reject(m->b, &s, m->now) : hb_broker_nack(m->b, &s, m->now));
        break;
    case 2: (void)hb_broker_return(m->b, &s, m->now); break;
    default: (void)hb_broker_extend(m->b, &s, m->now); break;
    }
}

static void withdraw(struct machine *m)
{
    if (m->owned == NULL || hb_broker_withdraw(m->b, m->owned) != HB_BROKER_OK)
        return;
    m->owned = NULL;
    m->withdrawn++;
}

static void hold(struct machine *m, uint8_t x)
{
    if (m->owned == NULL)
        return;
    if (x & 1)
        (void)hb_broker_hold(m->b, m->owned);
    else
        hb_broker_release(m->b, m->owned);
}

static void operate(struct machine *m, uint8_t what, uint8_t x)
{
    if (what >= 240) {
        hold(m, x);
        return;
    }
    switch (what % 12) {
    case 0:
    case 1: submit(m, x); break;
    case 2:
    case 3: pull(m, x); break;
    case 4:
    case 5:
    case 6:
    case 7: settle(m, what % 4, x); break;
    case 8: (void)hb_broker_tick(m->b, m->now += x % 32); break;
    case 9: withdraw(m); break;
    case 10: (void)hb_broker_redrive_oldest(m->b, x % 4, m->now); break;
    default: (void)hb_broker_purge(m->b, x); break;
    }
}

static void check(const struct machine *m)
{
    struct hb_broker_stats s;
    hb_broker_stats(m->b, &s);
    must(hb_broker_check(m->b) == NULL);
    uint64_t died = s.died[HB_DEAD_MAX_RETRIES] + s.died[HB_DEAD_TTL_EXPIRED] + s.rejected;
    must(s.submitted + s.redriven == s.waiting + s.in_flight + s.acked + died + m->withdrawn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hb_broker_options o;
    struct machine m = {.now = 1};
    struct hb_broker_events events = {.ended = on_ended, .ctx = &m};
    if (size < 8)
        return 0;
    options_of(data, &o);
    if (!hb_broker_options_valid(&o, NULL, 0)) /* room for no dead letter, and none dropped */
        return 0;
    m.b = hb_broker_new(&o, &events);
    must(m.b != NULL);
    for (size_t i = 8; i + 1 < size && i < OPERATIONS; i += 2) {
        operate(&m, data[i], data[i + 1]);
        check(&m);
    }
    hb_broker_free(m.b);
    return 0;
}
