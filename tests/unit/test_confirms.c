#include "amqp/confirms.h"

#include "base/err.h"
#include "lib/testmain.h"

#include <stdio.h>
#include <string.h>

/*
 * Scripts, one operation a word; what happens is written beside it.
 *   p      publish; its cookie is its tag     f    publish that must be refused as full
 *   aN nN  ack or nack of tag N               AN   ack of all up to N
 *   rN     return of the content with key N   *    everything lost
 * Output: +N confirmed, -N nacked, rN returned, lN lost, ? nothing matched
 */
struct script {
    struct confirms c;
    char out[256];
};

static void say(struct script *s, char what, const struct confirm *c)
{
    size_t n = strlen(s->out);
    snprintf(s->out + n, sizeof s->out - n, "%c%u ", what, (unsigned)(uintptr_t)c->cookie);
}

static void publish(struct script *s)
{
    struct confirm c = {.cookie = (void *)(uintptr_t)s->c.next, .key = s->c.next, .bytes = 10};
    ck_assert_int_eq(confirms_add(&s->c, &c), 0);
}

static void answer(struct script *s, char op, unsigned tag)
{
    struct confirm c;
    bool multiple = op == 'A' || op == '*';
    bool any = false;
    char what = op == 'n' ? '-' : op == '*' ? 'l' : '+';
    while (confirms_take(&s->c, tag, multiple, &c) == 0) {
        say(s, what, &c);
        any = true;
        if (!multiple)
            break;
    }
    if (!any)
        snprintf(s->out + strlen(s->out), 3, "? ");
}

static void run(const char *text, const char *expected)
{
    struct script s = {0};
    struct confirm c;
    ck_assert_int_eq(confirms_init(&s.c, 4, 1000), 0);
    for (const char *p = text; *p != '\0'; p++) {
        unsigned tag = 0;
        if (*p == ' ')
            continue;
        char op = *p;
        if (strchr("anAr", op) != NULL)
            tag = (unsigned)(*++p - '0');
        if (op == 'p') {
            publish(&s);
        } else if (op == 'f') {
            c = (struct confirm){.bytes = 10};
            ck_assert_int_eq(confirms_add(&s.c, &c), CONFIRMS_FULL);
        } else if (op == 'r') {
            if (confirms_take_key(&s.c, tag, &c) == 0)
                say(&s, 'r', &c);
            else
                snprintf(s.out + strlen(s.out), 3, "? ");
        } else {
            answer(&s, op, tag);
        }
    }
    ck_assert_msg(strcmp(s.out, expected) == 0, "%s\n  gave %s\n  not  %s", text, s.out, expected);
    confirms_fini(&s.c);
}

/* Confirms in any order settle each publish exactly once. */
START_TEST(confirms_come_in_any_order)
{
    run("pppp a1 a2 a3 a4", "+1 +2 +3 +4 ");
    run("pppp A4", "+1 +2 +3 +4 ");
    run("pppp n3 n4 A2", "-3 -4 +1 +2 "); /* as RabbitMQ was seen to do */
    run("pppp a2 A3 a4", "+2 +1 +3 +4 ");
    run("pp a2 a2 a1 a1", "+2 ? +1 ? "); /* said twice, told once */
    run("pp A2 A2", "+1 +2 ? ");
}
END_TEST

/* The window counts open publishes only, and an old one at the front does not close it too soon. */
START_TEST(the_window_is_what_is_open)
{
    run("ppppf a4 p f a5 p f", "+4 +5 ");
    run("pppp A4 ppppf A8 p", "+1 +2 +3 +4 +5 +6 +7 +8 ");
    run("pppp a2 p a3 p a4 p a5 p a6 f", "+2 +3 +4 +5 +6 "); /* tag 1 to 8: the ring's span */
}
END_TEST

/* A return is told in place of its confirm, which is then silent. */
START_TEST(a_return_takes_the_place_of_its_confirm)
{
    run("ppp r2 A3", "r2 +1 +3 ");
    run("ppp r2 a2 a1 a3", "r2 ? +1 +3 ");
    run("p r9 a1", "r1 ? "); /* alone, it must be that one */
    run("pp r9 A2", "? +1 +2 ");
}
END_TEST

/* What is lost is told in publish order, without what was settled already. */
START_TEST(losses_come_in_publish_order)
{
    run("pppp a2 r3 *", "+2 r3 l1 l4 ");
    run("* p *", "? l1 ");
}
END_TEST

/* Of equal keys the oldest open one is taken. */
START_TEST(of_equals_the_oldest_is_returned)
{
    struct confirms c;
    struct confirm x = {.key = 7}, out;
    ck_assert_int_eq(confirms_init(&c, 8, 100), 0);
    for (uintptr_t i = 1; i <= 3; i++) {
        x.cookie = (void *)i;
        ck_assert_int_eq(confirms_add(&c, &x), 0);
    }
    ck_assert_int_eq(confirms_take(&c, 1, false, &out), 0);
    ck_assert_int_eq(confirms_take_key(&c, 7, &out), 0);
    ck_assert_ptr_eq(out.cookie, (void *)2);
    confirms_fini(&c);
}
END_TEST

/* Bytes bound the window too; the first is let through whatever its size; unknown tags are known as
 * such. */
START_TEST(bytes_bound_the_window)
{
    struct confirms c;
    struct confirm big = {.bytes = 5000}, small = {.bytes = 60}, out;
    ck_assert_int_eq(confirms_init(&c, 8, 100), 0);
    ck_assert_int_eq(confirms_add(&c, &big), 0);
    ck_assert_int_eq(confirms_add(&c, &small), CONFIRMS_FULL);
    ck_assert_int_eq(confirms_take(&c, 1, false, &out), 0);
    ck_assert_int_eq(confirms_add(&c, &small), 0);
    ck_assert_int_eq(confirms_add(&c, &small), CONFIRMS_FULL);
    ck_assert(!confirms_is_unknown(&c, 2));
    ck_assert(confirms_is_unknown(&c, 3));
    ck_assert_uint_eq(confirms_oldest(&c), 2);
    confirms_reset(&c);
    ck_assert_uint_eq(confirms_oldest(&c), 0);
    ck_assert_int_eq(confirms_init(&c, 0, 1) == ERR_INVALID, 1);
    confirms_fini(&c);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {confirms_come_in_any_order,
                                  the_window_is_what_is_open,
                                  a_return_takes_the_place_of_its_confirm,
                                  losses_come_in_publish_order,
                                  of_equals_the_oldest_is_returned,
                                  bytes_bound_the_window,
                                  NULL};
    return suite_of("confirms", tests);
}
