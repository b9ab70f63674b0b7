/* Every allocation of a whole scenario fails once: an error says so, and nothing crashes or leaks. */
#include "lib/failing_malloc.h"
#include "lib/testmain.h"
#include "trace/convert.h"
#include "trace/gen_prodflow.h"
#include "trace/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__real_reallocarray(void *p, size_t n, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    return fails() ? NULL : __real_reallocarray(p, n, size);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

static char log_text[20000]; /* a table, not in order */

static int convert_and_describe(struct trace_set *set, struct err *e)
{
    struct convert_options o;
    struct rows rows = {0};
    struct input *in;
    struct info info;
    convert_options_for("csv", &o);
    int r = input_open_bytes(&in, "log", log_text, strlen(log_text), e);
    if (r < 0)
        return r;
    r = convert_read(set, in, &o, &rows, e);
    input_close(in);
    if (r == 0 && info_of(set, 1, &info) < 0)
        r = err_set(e, ERR_NOMEM, "out of memory");
    return r;
}

static int read_back(const char *path, struct err *e)
{
    struct trace_reader *r;
    struct trace_set again;
    int f = trace_open(&r, path, e);
    if (f < 0)
        return f;
    trace_set_init(&again);
    f = trace_set_read(&again, r, e);
    trace_set_fini(&again);
    trace_close(r);
    return f;
}

static int write_and_read(const struct trace_set *set, struct err *e)
{
    struct trace_writer *w;
    char path[] = "/dev/shm/harbinger-alloc-XXXXXX";
    int fd = mkstemp(path), r;
    if (fd >= 0)
        close(fd);
    r = trace_create(&w, path, e);
    if (r == 0) {
        r = trace_set_write(set, w, e);
        if (r == 0)
            r = trace_finish(w, e);
        else
            trace_abandon(w);
    }
    if (r == 0)
        r = read_back(path, e);
    unlink(path);
    return r;
}

static int scenario(struct err *e)
{
    struct trace_set set;
    struct prodflow_options o;
    struct prodflow_job *jobs;
    size_t n;
    trace_set_init(&set);
    int r = convert_and_describe(&set, e);
    if (r == 0)
        r = write_and_read(&set, e);
    trace_set_fini(&set);
    prodflow_options_init(&o, 1);
    o.seconds = 1;
    if (r == 0) {
        r = prodflow_generate(&o, &jobs, &n);
        if (r == 0)
            free(jobs);
        else
            err_set(e, r, "out of memory");
    }
    return r;
}

START_TEST(each_failed_allocation_is_an_error)
{
    size_t at = (size_t)snprintf(log_text, sizeof log_text, "key,arrival,duration\n");
    for (unsigned i = 0; i < 600; i++)
        at += (size_t)snprintf(log_text + at, sizeof log_text - at, "k%u,%u,1\n", i % 300,
                               i * 7 % 100);
    struct err e = {0};
    long before = seen;
    int whole = scenario(&e);
    long n = seen - before;
    ck_assert_int_eq(whole, 0);
    ck_assert_int_gt(n, 25);
    for (long i = 0; i < n; i++) {
        e = (struct err){0};
        countdown = i;
        int r = scenario(&e);
        countdown = -1;
        ck_assert_msg(r == ERR_NOMEM, "allocation %ld: %d %s", i, r, e.msg);
        ck_assert_msg(strstr(e.msg, "out of memory") != NULL, "allocation %ld: %s", i, e.msg);
    }
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {each_failed_allocation_is_an_error, NULL};
    return suite_of("trace_alloc", tests);
}
