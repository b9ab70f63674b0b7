#include "flow/report.h"

#include "lib/testmain.h"

#include <stdio.h>
#include <stdlib.h>

/* Writes each element as one line: `id|key|duration|outcome`, or `none`. */
struct lines {
    char text[4096];
    size_t n;
};

static void write_line(void *ctx, const struct report *r)
{
    struct lines *l = ctx;
    char duration[32] = "absent";
    if (r == NULL) {
        l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "none\n");
        return;
    }
    if (r->has_duration)
        snprintf(duration, sizeof duration, "%g", r->duration_ms);
    l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%.*s|%.*s|%s|%d\n",
                             (int)r->id.n, r->id.p != NULL ? r->id.p : "", (int)r->key.n,
                             r->key.p != NULL ? r->key.p : "", duration, r->outcome);
}

static const char *parsed(const char *body)
{
    static struct lines l;
    l.n = 0;
    l.text[0] = '\0';
    report_parse(body, strlen(body), write_line, &l);
    return l.text;
}

/* Body in, elements out: one object or a list, absent members absent, unknown members ignored. */
START_TEST(bodies_and_their_elements)
{
    static const struct {
        const char *body, *lines;
    } rows[] = {
        {"{\"id\":\"1-2-0-x\",\"key\":\"a/b\",\"duration_ms\":12.5,\"outcome\":\"ok\"}",
         "1-2-0-x|a/b|12.5|0\n"},
        {"{\"key\":\"a\",\"duration_ms\":3}", "|a|3|0\n"},
        {"{\"key\":\"a\",\"duration_ms\":null,\"worker\":7}", "|a|absent|0\n"},
        {"{\"key\":\"a\",\"duration_ms\":-1,\"outcome\":\"error\"}", "|a|-1|1\n"},
        {"[{\"key\":\"a\",\"outcome\":\"timeout\"},7,{\"duration_ms\":1e308}]",
         "|a|absent|2\nnone\n||1e+308|0\n"},
        {"[]", ""},
        {"", "none\n"},
        {"{", "none\n"},
        {"null", "none\n"},
        {"\"text\"", "none\n"},
        {"{\"duration_ms\":\"12\"}", "none\n"},
        {"{\"duration_ms\":NaN}", "none\n"},
        {"{\"duration_ms\":1e999}", "none\n"},
        {"{\"duration_ms\":true}", "none\n"},
        {"{\"id\":7}", "none\n"},
        {"{\"outcome\":\"maybe\"}", "none\n"},
        {"{\"id\":\"a\",\"id\":\"b\"}", "none\n"},
        {"{\"key\":\"a\\u0000b\"}", "none\n"},
        {"{\"key\":\"\xff\"}", "none\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_str_eq(parsed(rows[i].body), rows[i].lines);
}
END_TEST

/* A body nested 100,000 deep is refused, not followed. */
START_TEST(deep_nesting_is_refused)
{
    size_t n = 100000;
    char *body = malloc(n + 1);
    memset(body, '[', n);
    body[n] = '\0';
    ck_assert_str_eq(parsed(body), "none\n");
    free(body);
}
END_TEST

/* Fields from headers follow the same rules as members. */
START_TEST(fields_follow_the_same_rules)
{
    struct report r;
    struct text none = {NULL, 0};
    ck_assert(report_from_fields(text_of("i"), text_of("k"), text_of("2.5"), none, &r));
    ck_assert(r.has_duration && r.outcome == REPORT_OK);
    ck_assert_double_eq(r.duration_ms, 2.5);
    ck_assert(report_from_fields(none, text_of("k"), none, text_of("timeout"), &r));
    ck_assert(!r.has_duration && r.outcome == REPORT_TIMEOUT);
    ck_assert(!report_from_fields(none, text_of("k"), text_of("nan"), none, &r));
    ck_assert(!report_from_fields(none, text_of("k"), none, text_of("OK"), &r));
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {bodies_and_their_elements, deep_nesting_is_refused,
                                  fields_follow_the_same_rules, NULL};
    return suite_of("report", tests);
}
