/*
 * Allocation by allocation: linked with a static libyaml, so that its allocations are counted and
 * failed too. Check's own are wrapped as well, so the fault is off and the counter read before
 * anything is asserted.
 */
#include "base/err.h"
#include "conf/conf.h"
#include "lib/testmain.h"

#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

static size_t allocations, fail_at; /* fail_at 0: none */

static int fails(void)
{
    return ++allocations == fail_at;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
    return fails() ? NULL : __real_strndup(s, n);
}

static const char good[] = "instance: a\namqp:\n  uri: [amqp://a, amqp://b]\nkey:\n  producer: "
                           "[header:p]\n  label:\n    - header:x\n"
                           "    - type\n  size: header:n\nstatic:\n  a: 0\n  \"b c\": 1\n  c: "
                           "2\nwork:\n  priorities: [9, 5, 1]\n";
static const char wrong[] = "levels: [1\n";

struct outcome {
    int result;
    size_t n_errors, n_allocations;
};

static struct outcome load_failing(const char *text, size_t at)
{
    struct conf c;
    struct conf_errors errors = {0};
    allocations = 0;
    fail_at = at;
    int r = conf_load_text("t", text, strlen(text), &c, &errors);
    struct outcome o = {r, errors.n, allocations};
    fail_at = 0;
    conf_fini(&c);
    return o;
}

/* Whichever allocation fails, loading says so, leaves nothing behind, and works the next time. */
START_TEST(each_failed_allocation_is_reported)
{
    static const char *const texts[] = {good, wrong};
    static const int expected[] = {0, ERR_CONFIG};
    for (size_t k = 0; k < 2; k++) {
        struct outcome whole = load_failing(texts[k], 0);
        ck_assert_int_eq(whole.result, expected[k]);
        ck_assert_uint_gt(whole.n_allocations, 30);
        for (size_t i = 1; i <= whole.n_allocations; i++) {
            struct outcome o = load_failing(texts[k], i);
            ck_assert_msg(o.result == ERR_NOMEM && o.n_errors >= 1, "allocation %zu of %zu: %d", i,
                          whole.n_allocations, o.result);
        }
        ck_assert_int_eq(load_failing(texts[k], 0).result, expected[k]);
    }
}
END_TEST

/* The same for printing, and for one --set, which then changes nothing. */
START_TEST(printing_and_setting_report_too)
{
    struct conf c;
    struct conf_errors none = {0};
    ck_assert_int_eq(conf_load_text("t", good, sizeof good - 1, &c, &none), 0);
    int r = ERR_NOMEM;
    for (size_t i = 1; r == ERR_NOMEM; i++) {
        struct buf out = {0};
        allocations = 0;
        fail_at = i;
        r = conf_print(&c, &out);
        fail_at = 0;
        buf_fini(&out);
    }
    ck_assert_int_eq(r, 0);
    r = ERR_NOMEM;
    for (size_t i = 1; r == ERR_NOMEM; i++) {
        struct conf_errors errors = {0};
        ck_assert_uint_eq(c.key.label.n, 2);
        allocations = 0;
        fail_at = i;
        r = conf_set(&c, "key.label=[header:q, header:r, header:s]", &errors);
        fail_at = 0;
    }
    ck_assert_int_eq(r, 0);
    ck_assert_uint_eq(c.key.label.n, 3);
    conf_fini(&c);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {each_failed_allocation_is_reported,
                                  printing_and_setting_report_too, NULL};
    return suite_of("conf_memory", tests);
}
