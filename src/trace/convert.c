#include "trace/convert.h"

#include "base/hash.h"
#include "base/num.h"
#include "trace/convert_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    struct convert_options options;
} formats[] = {
    {"swf", {.swf = true, .key = "user,queue"}},
    {"azure",
     {.key = "app,func",
      .separator = ',',
      .end = "end_timestamp",
      .cost = "duration",
      .duration = "duration",
      .arrival_unit = CONVERT_S,
      .duration_unit = CONVERT_S}},
    {"huawei",
     {.key = "funcName",
      .size = "requestBodySize",
      .separator = ',',
      .end = "time_frontend",
      .cost = "totalCost_frontend",
      .duration = "runtimeCost",
      .arrival_unit = CONVERT_S,
      .duration_unit = CONVERT_S}},
    {"results",
     {.key = "job_type",
      .producer = "service",
      .separator = '\t',
      .arrival = "submit_ns",
      .duration = "handler_ms",
      .done = "done",
      .arrival_unit = CONVERT_NS,
      .duration_unit = CONVERT_MS}},
    {"csv",
     {.key = "key",
      .separator = ',',
      .arrival = "arrival",
      .duration = "duration",
      .arrival_unit = CONVERT_S,
      .duration_unit = CONVERT_S}},
};

bool convert_options_for(const char *format, struct convert_options *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        if (strcmp(formats[i].name, format) == 0) {
            *out = formats[i].options;
            return true;
        }
    }
    return false;
}

bool convert_unit_of(const char *text, enum convert_unit *out)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (strcmp(units[i], text) == 0) {
            *out = (enum convert_unit)i;
            return true;
        }
    }
    return false;
}

int conversion_skip(struct conversion *c, enum row_reason reason, int column)
{
    struct row_place place = {.file = input_name(c->lines.in), .line = c->lines.number};
    char what[48] = "";
    if (column != NO_COLUMN) {
        snprintf(what, sizeof what, "%.*s", (int)c->names[column].n, c->names[column].p);
        place.what = what;
        if ((size_t)column < c->csv.n)
            place.value = c->csv.fields[column];
    }
    return rows_skip(c->rows, reason, &place, c->e);
}

int conversion_decimal(struct conversion *c, int column, double *out)
{
    if ((size_t)column >= c->csv.n)
        return conversion_skip(c, ROW_FIELDS, NO_COLUMN);
    struct text t = c->csv.fields[column];
    if (num_parse_double(t.p, t.n, out) < 0)
        return conversion_skip(c, ROW_NUMBER, column);
    return 1;
}

int conversion_size(struct conversion *c, uint64_t *out)
{
    double v = 0;
    if (c->size.n == 0)
        return 1;
    int r = conversion_decimal(c, c->size.index[0], &v);
    if (r <= 0)
        return r;
    if (v == -1 && c->options->swf) /* not known */
        return 1;
    if (v < 0)
        return conversion_skip(c, ROW_NEGATIVE, c->size.index[0]);
    if (v >= 0x1p63)
        return conversion_skip(c, ROW_RANGE, c->size.index[0]);
    *out = (uint64_t)v;
    return 1;
}

/* Fields of a row, as one text in `out`, which has room for a whole line three times over. */
static size_t join(const struct conversion *c, const struct columns *columns, char *out)
{
    size_t n = 0;
    for (int i = 0; i < columns->n; i++) {
        struct text t = c->csv.fields[columns->index[i]];
        if (i > 0)
            out[n++] = '/';
        for (size_t k = 0; k < t.n; k++) {
            bool written = columns->n > 1 && (t.p[k] == '/' || t.p[k] == '%');
            if (written)
                n += (size_t)sprintf(out + n, "%%%02X", (unsigned)t.p[k]);
            else
                out[n++] = t.p[k];
        }
    }
    return n;
}

/* A text that is too long becomes a label: the same in every run, so the seed is fixed. Two of 2^32
 * texts would meet. */
static size_t shorten(char *text, size_t n)
{
    static const struct hash_seed seed = {1, 2};
    return (size_t)sprintf(text, "~%016" PRIx64, hash_bytes(&seed, text, n));
}

/* The index of the text that these fields make. 1, 0, negative as conversion_decimal. */
static int name_of(struct conversion *c, const struct columns *columns, struct names *t,
                   uint32_t *out, bool *shortened)
{
    char text[3 * LINES_MAX_BYTES + COLUMNS_MAX];
    size_t n_bytes = 0;
    for (int i = 0; i < columns->n; i++) {
        if ((size_t)columns->index[i] >= c->csv.n)
            return conversion_skip(c, ROW_FIELDS, NO_COLUMN);
        n_bytes += c->csv.fields[columns->index[i]].n;
    }
    if (n_bytes == 0)
        return conversion_skip(c, ROW_NO_KEY, columns->index[0]);
    if (n_bytes > LINES_MAX_BYTES) /* one column, named again and again */
        return conversion_skip(c, ROW_RANGE, columns->index[0]);
    size_t n = join(c, columns, text);
    if (n > TRACE_NAME_BYTES) {
        n = shorten(text, n);
        *shortened = true;
    }
    int r = names_add(t, (struct text){text, n}, out, NULL);
    if (r == ERR_NOMEM)
        return err_set(c->e, r, "out of memory");
    if (r < 0 && names_valid((struct text){text, n}))
        return err_set(c->e, r, "%s:%" PRIu64 ": more than %d different keys or producers",
                       input_name(c->lines.in), c->lines.number, TRACE_MAX_NAMES);
    return r < 0 ? conversion_skip(c, ROW_CONTROL, NO_COLUMN) : 1;
}

int conversion_names(struct conversion *c, struct trace_job *out)
{
    bool shortened = false;
    int r = name_of(c, &c->key, &c->set->keys, &out->key, &shortened);
    if (r == 1 && c->producer.n > 0)
        r = name_of(c, &c->producer, &c->set->producers, &out->producer, &shortened);
    if (r == 1 && shortened)
        c->rows->shortened++;
    return r;
}

int conversion_take(struct conversion *c, const struct trace_job *job)
{
    if (trace_set_add(c->set, job) < 0)
        return err_set(c->e, ERR_NOMEM, "out of memory after %zu jobs", c->set->n);
    rows_take(c->rows);
    return 0;
}

int convert_read(struct trace_set *out, struct input *in, const struct convert_options *o,
                 struct rows *rows, struct err *e)
{
    struct conversion *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, ERR_NOMEM, "out of memory");
    *c = (struct conversion){.set = out, .options = o, .rows = rows, .lines = {.in = in}, .e = e};
    int r = o->swf ? convert_swf(c) : convert_table(c);
    free(c);
    if (r == 0 && trace_set_arrange(out) < 0)
        r = err_set(e, ERR_NOMEM, "out of memory to sort %zu jobs", out->n);
    return r;
}
