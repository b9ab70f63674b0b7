/* Lines of the journal: what is printed is read again, and nothing else is. */
#include "base/err.h"
#include "base/rng.h"
#include "flow/journal.h"

#include "lib/testmain.h"

#include <string.h>

static int parse(const char *line, struct journal_entry *e)
{
    return journal_parse(text_of(line), e);
}

static void expect_line(const struct journal_entry *e, const char *line)
{
    struct buf out = {0};
    ck_assert_int_eq(journal_print(e, &out), 0);
    ck_assert_int_eq(buf_append(&out, "", 1), 0);
    ck_assert_str_eq(out.p, line);
    buf_fini(&out);
}

static struct key key_of_text(const char *printed)
{
    struct key k = {0};
    if (*printed != '\0')
        ck_assert_int_eq(key_parse(text_of(printed), &k), 0);
    return k;
}

START_TEST(lines_are_as_the_header_says)
{
    struct journal_entry job = {.at = 8123456,
                                .event = JOURNAL_JOB,
                                .key = key_of_text("orders/mail%2F1"),
                                .level = 1,
                                .ms = 12.5,
                                .reason = text_of("predicted")};
    expect_line(&job, "8123456\tjob\torders/mail%2F1\t1\t12.5\tpredicted\n");
    job.ms = -1;
    job.key.n = 0;
    expect_line(&job, "8123456\tjob\t\t1\t-\tpredicted\n");
    expect_line(&(struct journal_entry){9, JOURNAL_LEARNED, key_of_text("a"), 0, 0.1, {NULL, 0}},
                "9\tlearned\ta\t-\t0.1\t-\n");
    expect_line(&(struct journal_entry){9, JOURNAL_TIMEOUT, key_of_text("a"), 0, -1, {NULL, 0}},
                "9\ttimeout\ta\t-\t-\t-\n");
}
END_TEST

START_TEST(other_lines_are_refused)
{
    static const char *const wrong[] = {
        "",
        "time_ns\tevent\tkey\tlevel\tms\treason",
        "1\tjob\ta\t0\t-",
        "1\tjob\ta\t0\t-\tx\ty",
        "-1\tjob\ta\t0\t-\tx",
        "1.5\tjob\ta\t0\t-\tx",
        "1\tpulled\ta\t0\t-\tx",
        "1\tjob\ta%zz\t0\t-\tx",
        "1\tjob\ta\t-\t-\tx",
        "1\tjob\ta\t255\t-\tx",
        "1\tjob\ta\t0\tnan\tx",
        "1\tjob\ta\t0\t-2\tx",
        "1\tlearned\ta\t-\t-\t-",
        "1\tlearned\t\t-\t1\t-",
        "1\ttimeout\t\t-\t-\t-",
    };
    struct journal_entry e;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        ck_assert_msg(parse(wrong[i], &e) == ERR_INVALID, "taken: %s", wrong[i]);
    ck_assert_int_eq(parse("1\tjob\ta/b/s3\t254\t0\t", &e), 0);
    ck_assert_uint_eq(e.key.n_parent, 3);
}
END_TEST

/* Any double, any bytes of a key. */
START_TEST(what_is_printed_is_read_again)
{
    struct rng rng = {11};
    struct buf out = {0};
    for (int i = 0; i < 20000; i++) {
        struct journal_entry e = {.at = (mono_t)(rng_next(&rng) >> (1 + rng_next(&rng) % 60)),
                                  .ms = -1},
                             again;
        e.event = (enum journal_event)(rng_next(&rng) % 3);
        e.key.n = 1 + rng_next(&rng) % 40;
        for (size_t k = 0; k < e.key.n; k++)
            e.key.raw[k] = (char)(0x20 + rng_next(&rng) % 0x5f);
        if (e.event == JOURNAL_JOB) {
            e.level = (unsigned)(rng_next(&rng) % 255);
            e.reason = text_of("cold_key");
        }
        if (e.event == JOURNAL_LEARNED || (e.event == JOURNAL_JOB && i % 2 == 0))
            e.ms = rng_unit(&rng) * (i % 5 == 0 ? 1e-9 : 1e6);
        buf_reset(&out);
        ck_assert_int_eq(journal_print(&e, &out), 0);
        ck_assert_int_eq(journal_parse((struct text){out.p, out.n - 1}, &again), 0);
        ck_assert_int_eq(again.at, e.at);
        ck_assert_int_eq(again.event, e.event);
        ck_assert_uint_eq(again.key.n, e.key.n);
        ck_assert_mem_eq(again.key.raw, e.key.raw, e.key.n);
        ck_assert_uint_eq(again.level, e.level);
        ck_assert(again.ms <= e.ms && again.ms >= e.ms);
        ck_assert(text_equal(again.reason, e.reason));
    }
    buf_fini(&out);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {lines_are_as_the_header_says, other_lines_are_refused,
                                  what_is_printed_is_read_again, NULL};
    return suite_of("journal", tests);
}
