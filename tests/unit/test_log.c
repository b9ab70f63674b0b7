#include "base/log.h"

#include "lib/testmain.h"

#include <stdio.h>
#include <string.h>

struct seen {
    int n;
    char last[4096];
};

static void remember(void *ctx, enum log_level level, const char *event, const char *fields)
{
    struct seen *s = ctx;
    s->n++;
    snprintf(s->last, sizeof s->last, "%s %s %s", log_level_name(level), event, fields);
}

/* Text from outside cannot start a line of its own. */
START_TEST(control_characters_are_escaped)
{
    struct seen s = {0};
    struct log_sink sink = {remember, &s, LOG_INFO};
    log_event(&sink, LOG_WARN, "x.y", "key=" LOG_Q, "a\nlevel=error\x7f");
    ck_assert_str_eq(s.last, "warning x.y key=\"a\\x0alevel=error\\x7f\"");
}
END_TEST

/* Events above the sink's level cost nothing and a line too long is cut. */
START_TEST(level_and_length_are_bounded)
{
    struct seen s = {0};
    struct log_sink sink = {remember, &s, LOG_INFO};
    log_event(&sink, LOG_DEBUG, "x", "%s", "");
    ck_assert_int_eq(s.n, 0);
    char big[4000];
    memset(big, '\n', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    log_event(&sink, LOG_ERROR, "x", "%s", big);
    ck_assert_uint_lt(strlen(s.last), 2100);
    log_event(NULL, LOG_ERROR, "x", "%s", "");
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {control_characters_are_escaped, level_and_length_are_bounded,
                                  NULL};
    return suite_of("log", tests);
}
