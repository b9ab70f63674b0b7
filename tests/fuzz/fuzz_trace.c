/*
 * Exercises src/trace on files of others: the trace format (trace_read.c, input.c, names.c) and the
 * foreign logs (convert*.c, csv.c, lines.c, rows.c, set.c). The first byte chooses which.
 *
 * What is accepted is in order and in range, a second pass gives the same jobs, and each row of a log
 * ends in exactly one count.
 */
#include "fuzz/target.h"
#include "trace/convert.h"
#include "trace/info.h"

#include <stdlib.h>
#include <string.h>

static void must(int yes)
{
    if (!yes)
        abort();
}

static void check_job(const struct trace_job *j, int64_t last_us, uint32_t n_keys,
                      uint32_t n_producers)
{
    must(j->arrival_us >= last_us && j->arrival_us <= 2 * TRACE_MAX_US);
    must(j->duration_us >= 0 && j->duration_us <= TRACE_MAX_US);
    must(j->key < n_keys);
    must(j->producer < n_producers || j->producer == TRACE_NO_PRODUCER);
}

/* Reads to the end or the error; how it ended. Sums up what was read. */
static int read_all(struct trace_reader *r, uint64_t *sum)
{
    struct trace_job j;
    struct err e;
    int64_t last_us = 0;
    int f;
    *sum = 0;
    while ((f = trace_next(r, &j, &e)) == 1) {
        check_job(&j, last_us, trace_n_keys(r), trace_n_producers(r));
        must(j.arrival_us <= TRACE_MAX_US && names_valid(trace_key(r, j.key)));
        last_us = j.arrival_us;
        *sum = (*sum ^ (uint64_t)j.arrival_us ^ j.key) * 31 + (uint64_t)j.duration_us + j.size;
    }
    must(trace_next(r, &j, &e) == f);
    return f;
}

static void read_trace(const uint8_t *data, size_t size)
{
    struct trace_reader *r;
    struct err e;
    uint64_t sum, again;
    if (trace_open_bytes(&r, "input", data, size, &e) < 0)
        return;
    int f = read_all(r, &sum);
    must(trace_rewind(r, &e) == 0);
    must(read_all(r, &again) == f && again == sum);
    trace_close(r);
}

static void convert(const char *format, const uint8_t *data, size_t size)
{
    struct convert_options o;
    struct trace_set set;
    struct rows rows = {0};
    struct input *in;
    struct info info;
    struct err e;
    must(convert_options_for(format, &o));
    if (input_open_bytes(&in, "input", data, size, &e) < 0)
        return;
    trace_set_init(&set);
    int f = convert_read(&set, in, &o, &rows, &e);
    must(f <= 0 && rows.taken == set.n);
    for (size_t i = 0; f == 0 && i < set.n; i++)
        check_job(&set.jobs[i], i > 0 ? set.jobs[i - 1].arrival_us : 0, set.keys.n,
                  set.producers.n);
    if (f == 0 && set.n > 0 && set.n < 1000)
        must(info_of(&set, 1, &info) == 0 && info.jobs == set.n);
    input_close(in);
    trace_set_fini(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const formats[] = {"swf", "azure", "huawei", "results", "csv"};
    if (size == 0)
        return 0;
    size_t which = data[0] % (1 + sizeof formats / sizeof *formats);
    if (which == 0)
        read_trace(data + 1, size - 1);
    else
        convert(formats[which - 1], data + 1, size - 1);
    return 0;
}
