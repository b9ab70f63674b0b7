#include "http/metrics.h"

#include "base/buf.h"
#include "base/num.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_LABELS 8

static void put(struct metrics *m, const char *text, size_t n)
{
    if (m->result == 0)
        m->result = buf_append(m->out, text, n);
}

static void put_text(struct metrics *m, const char *text)
{
    put(m, text, strlen(text));
}

static void put_escaped(struct metrics *m, const char *text, bool quotes)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            put_text(m, "\\n");
        else if (*text == '\\')
            put_text(m, "\\\\");
        else if (*text == '"' && quotes)
            put_text(m, "\\\"");
        else
            put(m, text, 1);
    }
}

/* [a-zA-Z_][a-zA-Z0-9_]*; the format also allows ':' in names, which is for recording rules. */
FOR_ASSERT static bool is_name(const char *name)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return name[0] != '\0' && (name[0] < '0' || name[0] > '9') && strspn(name, set) == strlen(name);
}

FOR_ASSERT static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static void put_double(struct metrics *m, double v)
{
    char text[32];
    if (isnan(v)) {
        put_text(m, "NaN");
    } else if (isinf(v)) {
        put_text(m, v > 0 ? "+Inf" : "-Inf");
    } else {
        num_format_double(v, text, sizeof text);
        put_text(m, text);
    }
}

static void put_u64(struct metrics *m, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    put_text(m, text);
}

/* Name, suffix, labels and the blank: what stands before a value. */
static void put_head(struct metrics *m, const char *suffix, const struct metrics_label *labels,
                     size_t n_labels)
{
    put_text(m, m->family);
    put_text(m, suffix);
    for (size_t i = 0; i < n_labels; i++) {
        assert(is_name(labels[i].name));
        put_text(m, i == 0 ? "{" : ",");
        put_text(m, labels[i].name);
        put_text(m, "=\"");
        put_escaped(m, labels[i].value, true);
        put_text(m, "\"");
    }
    put_text(m, n_labels > 0 ? "} " : " ");
}

void metrics_init(struct metrics *m, struct buf *out)
{
    *m = (struct metrics){.out = out};
}

void metrics_family(struct metrics *m, enum metrics_type type, const char *name, const char *help)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    assert(is_name(name) && (type == METRICS_COUNTER) == ends_with(name, "_total"));
    m->family = name;
    m->type = type;
    put_text(m, "# HELP ");
    put_text(m, name);
    put_text(m, " ");
    put_escaped(m, help, false);
    put_text(m, "\n# TYPE ");
    put_text(m, name);
    put_text(m, " ");
    put_text(m, types[type]);
    put_text(m, "\n");
}

void metrics_sample(struct metrics *m, const struct metrics_label *labels, size_t n_labels,
                    double value)
{
    assert(m->family != NULL && m->type != METRICS_HISTOGRAM);
    put_head(m, "", labels, n_labels);
    put_double(m, value);
    put_text(m, "\n");
}

void metrics_sample_u64(struct metrics *m, const struct metrics_label *labels, size_t n_labels,
                        uint64_t value)
{
    assert(m->family != NULL && m->type != METRICS_HISTOGRAM);
    put_head(m, "", labels, n_labels);
    put_u64(m, value);
    put_text(m, "\n");
}

void metrics_sample_histogram(struct metrics *m, const struct metrics_label *labels,
                              size_t n_labels, const struct metrics_histogram *h)
{
    assert(m->family != NULL && m->type == METRICS_HISTOGRAM && n_labels <= MAX_LABELS);
    struct metrics_label all[MAX_LABELS + 1];
    char bound[32];
    uint64_t count = 0;
    if (n_labels > 0)
        memcpy(all, labels, n_labels * sizeof *labels);
    all[n_labels] = (struct metrics_label){"le", bound};
    for (size_t i = 0; i <= h->n_bounds; i++) {
        count += h->counts[i];
        if (i < h->n_bounds)
            num_format_double(h->bounds[i], bound, sizeof bound);
        else
            snprintf(bound, sizeof bound, "+Inf");
        put_head(m, "_bucket", all, n_labels + 1);
        put_u64(m, count);
        put_text(m, "\n");
    }
    put_head(m, "_sum", labels, n_labels);
    put_double(m, h->sum);
    put_text(m, "\n");
    put_head(m, "_count", labels, n_labels);
    put_u64(m, count);
    put_text(m, "\n");
}

int metrics_end(struct metrics *m)
{
    return m->result;
}
