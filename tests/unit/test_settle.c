#include "amqp/settle.h"

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

Suite *suite(void)
{
    const TTest *const tests[] = {acks_without_a_gap_are_one, a_held_delivery_is_never_covered,
                                  nacks_go_first, twice_is_stale, NULL};
    return suite_of("settle", tests);
}
