#include "amqp/settle.h"

#include "base/rng.h"
#include "lib/testmain.h"

#include <stdio.h>
#include <string.h>

/*
 * Scripts: dN delivery N comes; aN ack, nN nack, qN requeue; ! send what is gathered.
 * Output: aN one ack, AN a multiple ack up to N, nN, qN; ? a stale settlement; f full
 */
static void run(const char *text, const char *expected)
{
    struct settle s;
    uint32_t slot[16] = {0};
    char out[256] = "";
    ck_assert_int_eq(settle_init(&s, 6), 0);
    for (const char *p = text; *p != '\0'; p++) {
        struct settle_frame f;
        size_t n = strlen(out);
        if (*p == ' ')
            continue;
        char op = *p;
        if (op == '!') {
            while (settle_next(&s, &f) == 1) {
                char what = f.verdict == SETTLE_NACK      ? 'n'
                            : f.verdict == SETTLE_REQUEUE ? 'q'
                            : f.multiple                  ? 'A'
                                                          : 'a';
                n = strlen(out);
                snprintf(out + n, sizeof out - n, "%c%u ", what, (unsigned)f.tag);
            }
            continue;
        }
        unsigned tag = (unsigned)(*++p - '0');
        enum settle_verdict verdict = op == 'a'   ? SETTLE_ACK
                                      : op == 'n' ? SETTLE_NACK
                                                  : SETTLE_REQUEUE;
        if (op == 'd' && settle_add(&s, tag, &slot[tag]) == SETTLE_FULL)
            snprintf(out + n, sizeof out - n, "f ");
        else if (op != 'd' && settle_decide(&s, slot[tag], tag, verdict) == SETTLE_STALE)
            snprintf(out + n, sizeof out - n, "? ");
    }
    ck_assert_msg(strcmp(out, expected) == 0, "%s\n  gave %s\n  not  %s", text, out, expected);
    settle_fini(&s);
}

/* Acks without a gap from the oldest on become one. */
START_TEST(acks_without_a_gap_are_one)
{
    run("d1d2d3 a1a2a3 !", "A3 ");
    run("d1d2d3 a3a2a1 !", "A3 ");
    run("d1d2d3d4 a1a2a4 !", "A2 a4 ");
    run("d1d2 a1! a2!", "A1 A2 ");
}
END_TEST

/* A held delivery is never covered by another's ack. */
START_TEST(a_held_delivery_is_never_covered)
{
    run("d1d2d3 a2a3 ! a1!", "a2 a3 A1 ");
    run("d1d2d3d4 a4 ! a2 ! a1 ! a3 !", "a4 a2 A1 A3 ");
}
END_TEST

/* Nacks go before the multiple ack that would cover them. */
START_TEST(nacks_go_first)
{
    run("d1d2d3 a1 n2 a3 !", "n2 A3 ");
    run("d1d2d3 q3 a1 n2 !", "n2 q3 A1 ");
}
END_TEST

/* Settling twice, or what was never there, is stale; slots are used again only after sending. */
START_TEST(twice_is_stale)
{
    run("d1 a1a1n1 ! a1", "? ? A1 ? ");
    run("d1 a2", "? ");
    run("d1d2d3d4d5d6d7 a1 d7 ! d8 a8 !", "f f A1 a8 ");
}
END_TEST

/* ---- against the broker's view ---- */

enum { WINDOW = 40, ROUNDS = 4000 };

/* What the broker and the owner think of each delivery. The broker closes the channel over an ack
 * of a tag that is not unacked, `multiple` included. */
struct broker {
    bool unacked[ROUNDS + 1], held[ROUNDS + 1];
    uint32_t slot[ROUNDS + 1];
    uint64_t last;
    unsigned n_unacked;
};

static void broker_takes(struct broker *b, const struct settle_frame *f)
{
    ck_assert_msg(f->tag >= 1 && f->tag <= b->last && b->unacked[f->tag],
                  "tag %llu is settled already", (unsigned long long)f->tag);
    for (uint64_t tag = f->multiple ? 1 : f->tag; tag <= f->tag; tag++) {
        if (!b->unacked[tag])
            continue;
        ck_assert_msg(!b->held[tag], "tag %llu is still held", (unsigned long long)tag);
        b->unacked[tag] = false;
        b->n_unacked--;
    }
}

static void flush(struct settle *s, struct broker *b)
{
    struct settle_frame f;
    while (settle_next(s, &f) == 1)
        broker_takes(b, &f);
}

/* One of the held ones, by chance. */
static void settle_any(struct settle *s, struct broker *b, struct rng *rng)
{
    uint64_t first = b->last > 4 * WINDOW ? b->last - 4 * WINDOW : 1;
    uint64_t tag = first + rng_next(rng) % (b->last - first + 1);
    while (tag <= b->last && !b->held[tag])
        tag++;
    if (tag > b->last)
        return;
    uint64_t dice = rng_next(rng) % 20;
    enum settle_verdict verdict = dice == 0 ? SETTLE_NACK : dice == 1 ? SETTLE_REQUEUE : SETTLE_ACK;
    ck_assert_int_eq(settle_decide(s, b->slot[tag], tag, verdict), 0);
    b->held[tag] = false;
}

static void come_or_settle(struct settle *s, struct broker *b, struct rng *rng)
{
    uint64_t dice = rng_next(rng) % 8;
    if (dice < 3 && b->n_unacked < WINDOW) {
        b->last++;
        ck_assert_int_eq(settle_add(s, b->last, &b->slot[b->last]), 0);
        b->unacked[b->last] = b->held[b->last] = true;
        b->n_unacked++;
    } else if (dice < 7 && b->last > 0) {
        settle_any(s, b, rng);
    } else {
        flush(s, b);
    }
}

static void settle_in_any_order(uint64_t seed)
{
    static struct broker b;
    struct rng rng = {.state = seed};
    struct settle s;
    b = (struct broker){0};
    ck_assert_int_eq(settle_init(&s, WINDOW), 0);
    while (b.last < ROUNDS)
        come_or_settle(&s, &b, &rng);
    for (uint64_t tag = 1; tag <= b.last; tag++) {
        if (!b.held[tag])
            continue;
        ck_assert_int_eq(settle_decide(&s, b.slot[tag], tag, SETTLE_ACK), 0);
        b.held[tag] = false;
    }
    flush(&s, &b);
    ck_assert_uint_eq(b.n_unacked, 0);
    settle_fini(&s);
}

/* In whatever order deliveries are settled, no frame names a tag that the broker has settled, and
 * none covers one that is held. */
START_TEST(settling_in_any_order_is_never_refused)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        settle_in_any_order(seed);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {acks_without_a_gap_are_one,
                                  a_held_delivery_is_never_covered,
                                  nacks_go_first,
                                  twice_is_stale,
                                  settling_in_any_order_is_never_refused,
                                  NULL};
    return suite_of("settle", tests);
}
