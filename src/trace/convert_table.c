/* Tables with a header row that names the columns. */
#include "base/buf.h"
#include "base/num.h"
#include "trace/convert_internal.h"
#include "trace/date.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double us_per[] = {
    [CONVERT_NS] = 1e-3, [CONVERT_US] = 1, [CONVERT_MS] = 1e3, [CONVERT_S] = 1e6};

struct header {
    struct buf bytes; /* the names, one after the other */
    struct text names[CSV_FIELDS_MAX];
    size_t n;
};

static int header_keep(struct header *h, const struct csv *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (buf_append(&h->bytes, c->fields[i].p, c->fields[i].n) < 0)
            return ERR_NOMEM;
    size_t at = 0;
    for (size_t i = 0; i < c->n; i++) {
        h->names[i] = (struct text){h->bytes.p + at, c->fields[i].n};
        at += c->fields[i].n;
    }
    h->n = c->n;
    return 0;
}

/* The first line's fields; a byte order mark in front of them is none of them. */
static int read_header(struct conversion *c, struct header *h)
{
    struct text line;
    const char *file = input_name(c->lines.in);
    int r = lines_next(&c->lines, &line, c->e);
    if (r < 0)
        return r;
    if (r == 0)
        return err_set(c->e, ERR_INVALID, "%s: empty, without a header row", file);
    if (line.n >= 3 && memcmp(line.p, "\xef\xbb\xbf", 3) == 0)
        line = (struct text){line.p + 3, line.n - 3};
    if (csv_split(&c->csv, line, c->options->separator) < 0)
        return err_set(c->e, ERR_INVALID, "%s:1: a quoted field that does not end", file);
    if (header_keep(h, &c->csv) < 0)
        return err_set(c->e, ERR_NOMEM, "out of memory");
    c->names = h->names;
    return 0;
}

static int no_such_column(struct conversion *c, const struct header *h, struct text name)
{
    char all[200];
    size_t n = 0;
    all[0] = '\0';
    for (size_t i = 0; i < h->n && n < sizeof all; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%.*s", i > 0 ? ", " : "",
                              (int)h->names[i].n, h->names[i].p);
    return err_set(c->e, ERR_INVALID, "%s:1: there is no column '%.*s'; the header has: %s%s",
                   input_name(c->lines.in), (int)name.n, name.p, all, n >= sizeof all ? "..." : "");
}

/* The columns that a list names; none for NULL. */
static int find(struct conversion *c, const struct header *h, const char *list, struct columns *out)
{
    out->n = 0;
    while (list != NULL && *list != '\0') {
        struct text name = {list, strcspn(list, ",")};
        size_t i = 0;
        while (i < h->n && !text_equal(h->names[i], name))
            i++;
        if (i == h->n)
            return no_such_column(c, h, name);
        if (out->n == COLUMNS_MAX)
            return err_set(c->e, ERR_INVALID, "more than %d columns in one key", COLUMNS_MAX);
        out->index[out->n++] = (int)i;
        list += name.n + (list[name.n] == ',');
    }
    return 0;
}

static int find_all(struct conversion *c, const struct header *h)
{
    const struct convert_options *o = c->options;
    const struct {
        const char *list;
        struct columns *out;
    } wanted[] = {
        {o->key, &c->key},
        {o->producer, &c->producer},
        {o->end != NULL ? NULL : o->arrival, &c->arrival},
        {o->end, &c->end},
        {o->end != NULL ? o->cost : NULL, &c->cost},
        {o->duration, &c->duration},
        {o->size, &c->size},
        {o->done, &c->done},
    };
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        int r = find(c, h, wanted[i].list, wanted[i].out);
        if (r < 0)
            return r;
    }
    if (c->key.n == 0 || c->duration.n != 1 || c->arrival.n + c->end.n != 1 ||
        (c->end.n == 1 && c->cost.n != 1) || c->size.n > 1 || c->done.n > 1)
        return err_set(c->e, ERR_INVALID,
                       "a table needs columns for the key, and one each for duration and arrival "
                       "(or end and cost)");
    return 0;
}

/* A time of the row at hand in microseconds. 1, 0, negative as conversion_decimal. */
static int take_time(struct conversion *c, int column, enum convert_unit unit, int64_t *out)
{
    double v = 0;
    int r = conversion_decimal(c, column, &v);
    if (r <= 0)
        return r;
    if (v < 0)
        return conversion_skip(c, ROW_NEGATIVE, column);
    if (v * us_per[unit] > (double)TRACE_MAX_US)
        return conversion_skip(c, ROW_RANGE, column);
    *out = (int64_t)llround(v * us_per[unit]);
    return 1;
}

/* A moment of the row at hand, as a number or a date. As take_time. */
static int take_moment(struct conversion *c, int column, enum convert_unit unit, int64_t *out)
{
    double v;
    if ((size_t)column >= c->csv.n)
        return conversion_skip(c, ROW_FIELDS, NO_COLUMN);
    struct text t = c->csv.fields[column];
    if (num_parse_double(t.p, t.n, &v) == 0)
        return take_time(c, column, unit, out);
    if (date_parse(t, out) < 0)
        return conversion_skip(c, ROW_TIME, column);
    if (*out < 0 || *out > TRACE_MAX_US)
        return conversion_skip(c, ROW_RANGE, column);
    return 1;
}

static int take_arrival(struct conversion *c, int64_t *out)
{
    const struct convert_options *o = c->options;
    if (c->end.n == 0)
        return take_moment(c, c->arrival.index[0], o->arrival_unit, out);
    int64_t end = 0, cost = 0;
    int r = take_moment(c, c->end.index[0], o->arrival_unit, &end);
    if (r == 1)
        r = take_time(c, c->cost.index[0], o->duration_unit, &cost);
    if (r == 1)
        *out = end - cost;
    return r;
}

static int take_row(struct conversion *c, struct trace_job *job)
{
    if (c->done.n > 0) {
        int column = c->done.index[0];
        if ((size_t)column >= c->csv.n)
            return conversion_skip(c, ROW_FIELDS, NO_COLUMN);
        if (!text_equal(c->csv.fields[column], text_of("1")))
            return conversion_skip(c, ROW_NOT_DONE, NO_COLUMN);
    }
    int r = take_time(c, c->duration.index[0], c->options->duration_unit, &job->duration_us);
    if (r == 1)
        r = take_arrival(c, &job->arrival_us);
    if (r == 1)
        r = conversion_size(c, &job->size);
    return r == 1 ? conversion_names(c, job) : r;
}

static int take_line(struct conversion *c, struct text line)
{
    struct trace_job job = {.size = TRACE_NO_SIZE, .producer = TRACE_NO_PRODUCER};
    if (line.n == 0)
        return 0;
    if (csv_split(&c->csv, line, c->options->separator) < 0)
        return conversion_skip(c, ROW_QUOTE, NO_COLUMN);
    int r = take_row(c, &job);
    return r == 1 ? conversion_take(c, &job) : r;
}

int convert_table(struct conversion *c)
{
    struct text line;
    struct header *h = calloc(1, sizeof *h);
    if (h == NULL)
        return err_set(c->e, ERR_NOMEM, "out of memory");
    int r = read_header(c, h);
    if (r == 0)
        r = find_all(c, h);
    while (r == 0) {
        r = lines_next(&c->lines, &line, c->e);
        if (r <= 0)
            break;
        r = take_line(c, line);
    }
    buf_fini(&h->bytes);
    free(h);
    return r;
}
