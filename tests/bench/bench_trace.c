/*
 * bench-trace [--json] [--runs N]: how fast traces are read and written, in million jobs per second
 * of CPU time, plain and packed. The trace is the generated serverless one, of 1,980,951 jobs; each
 * number is the median of N runs.
 */
#include "trace/gen_serverless.h"
#include "trace/set.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 9, RUNS_MAX = 1000 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void need(bool yes, const struct err *e)
{
    if (yes)
        return;
    fprintf(stderr, "bench-trace: %s\n", e != NULL ? e->msg : "out of memory");
    exit(EXIT_FAILURE);
}

static struct trace_set generate(void)
{
    struct serverless_options o;
    struct trace_set set;
    trace_set_init(&set);
    serverless_options_init(&o, 1);
    set.jobs = calloc(o.jobs, sizeof *set.jobs);
    need(set.jobs != NULL, NULL);
    set.n = set.cap = o.jobs;
    need(serverless_generate(&o, set.jobs) == 0, NULL);
    for (uint32_t k = 0; k < SERVERLESS_KEYS; k++) {
        char name[32];
        uint32_t at;
        serverless_key_name(k, name);
        need(names_add(&set.keys, text_of(name), &at, NULL) == 0, NULL);
    }
    return set;
}

/* One pass; its CPU time. */
static double write_once(const struct trace_set *set, const char *path)
{
    struct trace_writer *w;
    struct err e;
    double start = now_s();
    need(trace_create(&w, path, &e) == 0, &e);
    need(trace_set_write(set, w, &e) == 0, &e);
    need(trace_finish(w, &e) == 0, &e);
    return now_s() - start;
}

static double read_once(const struct trace_set *set, const char *path)
{
    struct trace_reader *r;
    struct trace_job j;
    struct err e;
    size_t n = 0;
    int f;
    double start = now_s();
    need(trace_open(&r, path, &e) == 0, &e);
    while ((f = trace_next(r, &j, &e)) == 1)
        n++;
    need(f == 0, &e);
    double took = now_s() - start;
    trace_close(r);
    if (n != set->n)
        abort();
    return took;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Million jobs per second. */
static double measure(double (*pass)(const struct trace_set *, const char *),
                      const struct trace_set *set, const char *path, int runs)
{
    double took[RUNS_MAX];
    for (int i = 0; i < runs; i++)
        took[i] = pass(set, path);
    qsort(took, (size_t)runs, sizeof *took, by_value);
    return (double)set->n / took[runs / 2] / 1e6;
}

static int usage(void)
{
    fputs("usage: bench-trace [--json] [--runs N]\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    static const char *const suffixes[] = {"", ".gz"}, *const names[] = {"plain", "packed"};
    bool json = false;
    int runs = RUNS;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            runs = atoi(argv[++i]);
        else
            return usage();
    }
    if (runs < 1 || runs > RUNS_MAX)
        return usage();
    struct trace_set set = generate();
    json_t *all = json_object();
    printf("%-10s %12s %12s   million jobs/s\n", "", "write", "read");
    for (int k = 0; k < 2; k++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/bench-trace-%d.hbt%s", (int)getpid(), suffixes[k]);
        fprintf(stderr, "bench-trace: %s, %d runs of %zu jobs\n", names[k], runs, set.n);
        double w = measure(write_once, &set, path, k == 0 ? runs : 1);
        double r = measure(read_once, &set, path, runs);
        unlink(path);
        printf("%-10s %12.1f %12.1f\n", names[k], w, r);
        json_object_set_new(
            all, names[k],
            json_pack("{s:f, s:f}", "write_million_jobs_per_s", w, "read_million_jobs_per_s", r));
    }
    if (json) {
        json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        puts("");
    }
    json_decref(all);
    trace_set_fini(&set);
    return EXIT_SUCCESS;
}
