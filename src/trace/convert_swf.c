/* The Standard Workload Format: a job a line, 18 numbers; -1 is "not known"; ';' begins a comment.
 * */
#include "trace/convert_internal.h"

#include <math.h>

enum { SUBMIT = 1, RUN = 3, PROCESSORS = 4, REQUESTED_PROCESSORS = 7, N_FIELDS = 18 };

static const struct text fields[N_FIELDS] = {
#define FIELD(s)         \
    {                    \
        s, sizeof(s) - 1 \
    }
    FIELD("job"),        FIELD("submit"),     FIELD("wait"),   FIELD("run"),
    FIELD("processors"), FIELD("cpu"),        FIELD("memory"), FIELD("req_processors"),
    FIELD("req_time"),   FIELD("req_memory"), FIELD("status"), FIELD("user"),
    FIELD("group"),      FIELD("executable"), FIELD("queue"),  FIELD("partition"),
    FIELD("previous"),   FIELD("think"),
#undef FIELD
};

/* The fields that a list names. */
static int find(struct conversion *c, const char *list, struct columns *out)
{
    out->n = 0;
    while (list != NULL && *list != '\0') {
        struct text name = {list, strcspn(list, ",")};
        int i = 0;
        while (i < N_FIELDS && !text_equal(fields[i], name))
            i++;
        if (i == N_FIELDS)
            return err_set(c->e, ERR_INVALID,
                           "a log in SWF has no field '%.*s'; it has user, group, executable, "
                           "queue, partition and others",
                           (int)name.n, name.p);
        if (out->n == COLUMNS_MAX)
            return err_set(c->e, ERR_INVALID, "more than %d fields in one key", COLUMNS_MAX);
        out->index[out->n++] = i;
        list += name.n + (list[name.n] == ',');
    }
    return 0;
}

/* Times in whole seconds, some logs have fractions. 1, 0, negative as conversion_decimal. */
static int take_times(struct conversion *c, double submit, double run, struct trace_job *out)
{
    if (submit < 0)
        return conversion_skip(c, ROW_NEGATIVE, SUBMIT);
    if (submit * 1e6 > (double)TRACE_MAX_US)
        return conversion_skip(c, ROW_RANGE, SUBMIT);
    if (run * 1e6 > (double)TRACE_MAX_US)
        return conversion_skip(c, ROW_RANGE, RUN);
    out->arrival_us = (int64_t)llround(submit * 1e6);
    out->duration_us = (int64_t)llround(run * 1e6);
    return 1;
}

static int take_row(struct conversion *c, struct trace_job *job)
{
    static const int needed[] = {SUBMIT, RUN, PROCESSORS, REQUESTED_PROCESSORS};
    double v[ARRAY_SIZE(needed)];
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        int r = conversion_decimal(c, needed[i], &v[i]);
        if (r <= 0)
            return r;
    }
    double run = v[1], processors = v[2] > 0 ? v[2] : v[3];
    if (run < 0 && run != -1)
        return conversion_skip(c, ROW_NEGATIVE, RUN);
    /* Not known, or none: no work. Whether it failed is not asked; it took a worker all the same. The
     * paper's log has its published number of jobs by just this rule. */
    if (run <= 0)
        return conversion_skip(c, ROW_NEVER_RAN, NO_COLUMN);
    if (c->options->serial && processors != 1)
        return conversion_skip(c, ROW_PARALLEL, NO_COLUMN);
    int r = take_times(c, v[0], run, job);
    if (r == 1)
        r = conversion_size(c, &job->size);
    return r == 1 ? conversion_names(c, job) : r;
}

static bool is_comment(struct text line)
{
    size_t i = 0;
    while (i < line.n && (line.p[i] == ' ' || line.p[i] == '\t'))
        i++;
    return i == line.n || line.p[i] == ';';
}

static int take_line(struct conversion *c, struct text line)
{
    struct trace_job job = {.size = TRACE_NO_SIZE, .producer = TRACE_NO_PRODUCER};
    if (is_comment(line))
        return 0;
    csv_split_blanks(&c->csv, line);
    int r = take_row(c, &job);
    return r == 1 ? conversion_take(c, &job) : r;
}

int convert_swf(struct conversion *c)
{
    struct text line;
    c->names = fields;
    int r = find(c, c->options->key, &c->key);
    if (r == 0)
        r = find(c, c->options->producer, &c->producer);
    if (r == 0)
        r = find(c, c->options->size, &c->size);
    if (r == 0 && (c->key.n == 0 || c->size.n > 1))
        return err_set(c->e, ERR_INVALID, "a key needs a field, and a size has one at most");
    while (r == 0) {
        r = lines_next(&c->lines, &line, c->e);
        if (r <= 0)
            break;
        r = take_line(c, line);
    }
    return r;
}
