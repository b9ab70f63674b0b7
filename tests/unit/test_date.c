/* Dates against the C library's calendar. */
#include "base/err.h"
#include "base/rng.h"
#include "trace/date.h"

#include "lib/testmain.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

START_TEST(all_usual_forms)
{
    static const struct {
        const char *text;
        int64_t us;
    } same[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01 00:00", 0},
        {"1970-01-01T00:00:00.000001", 1},
        {"1970-01-01T01:00:00,5+01:00", 500000},
        {"1969-12-31T23:59:59.25Z", -750000},
        {"2026-12-01T11:39:30Z", INT64_C(1796125170000000)},
        {"2026-12-01T12:39:30+01", INT64_C(1796125170000000)},
        {"2026-12-01t11:39:30Z", -1},
        {"2026-12-01 06:09:30.1234567-0530", INT64_C(1796125170123456)},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000000)},
    };
    for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
        int64_t us = -1;
        int r = date_parse(text_of(same[i].text), &us);
        ck_assert_msg((r == 0) == (same[i].text[10] != 't') && us == same[i].us, "%s: %d %lld",
                      same[i].text, r, (long long)us);
    }
}
END_TEST

START_TEST(what_is_no_date_is_refused)
{
    static const char *const wrong[] = {
        "",
        "12",
        "2026-12-01",
        "2026-12-01T",
        "2026-12-01T11",
        "2026-12-01T11:39:",
        "2026-12-01T11:39:3",
        "2026-12-01T11:39:30.",
        "2026-12-01T24:00:00",
        "2026-12-01T11:60:00",
        "2026-12-01T11:39:61",
        "2026-13-01T11:39:30",
        "2026-00-01T11:39:30",
        "2026-02-29T11:39:30",
        "2100-02-29T11:39:30",
        "2026-12-00T11:39:30",
        "2026-12-01T11:39:30ZZ",
        "2026-12-01T11:39:30+1",
        "2026-12-01T11:39:30+24:00",
        "2026-12-01T11:39:30+01:60",
        "2026-12-01T11:39:30 UTC",
        "0000-01-01T00:00:00Z",
        "26-12-01T11:39:30",
        "2026/12/01T11:39:30",
    };
    int64_t us = 7;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        ck_assert_msg(date_parse(text_of(wrong[i]), &us) == ERR_INVALID && us == 7, "taken: %s",
                      wrong[i]);
}
END_TEST

/* Over four thousand years. */
START_TEST(the_calendar_is_the_librarys)
{
    struct rng rng = {3};
    for (int i = 0; i < 20000; i++) {
        time_t at = (time_t)(rng_next(&rng) % UINT64_C(120000000000)) - 60000000000;
        struct tm tm;
        char text[64];
        int64_t us = 0;
        ck_assert_ptr_nonnull(gmtime_r(&at, &tm));
        snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        ck_assert_msg(date_parse(text_of(text), &us) == 0 && us == (int64_t)at * 1000000,
                      "%s: %lld", text, (long long)us);
    }
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {all_usual_forms, what_is_no_date_is_refused,
                                  the_calendar_is_the_librarys, NULL};
    return suite_of("date", tests);
}
