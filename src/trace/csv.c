#include "trace/csv.h"

#include "base/err.h"

/* One quoted field, from behind its opening quote; returns what follows its closing one. NULL when
 * there is none. */
static const char *unquote(struct csv *c, size_t *used, const char *p, const char *end)
{
    char *out = c->unquoted + *used;
    size_t n = 0;
    for (; p < end; p++) {
        if (*p == '"') {
            if (p + 1 == end || p[1] != '"')
                break;
            p++;
        }
        out[n++] = *p;
    }
    if (p == end)
        return NULL;
    c->fields[c->n - 1] = (struct text){out, n};
    *used += n;
    return p + 1;
}

int csv_split(struct csv *c, struct text line, char separator)
{
    const char *p = line.p, *end = line.p + line.n;
    size_t used = 0;
    c->n = 0;
    while (c->n < CSV_FIELDS_MAX) {
        c->n++;
        if (p < end && *p == '"') {
            p = unquote(c, &used, p + 1, end);
            if (p == NULL || (p < end && *p != separator))
                return ERR_INVALID;
        } else {
            const char *stop = memchr(p, separator, (size_t)(end - p));
            stop = stop != NULL ? stop : end;
            c->fields[c->n - 1] = (struct text){p, (size_t)(stop - p)};
            p = stop;
        }
        if (p == end)
            break;
        p++;
    }
    return 0;
}

void csv_split_blanks(struct csv *c, struct text line)
{
    const char *p = line.p, *end = line.p + line.n;
    c->n = 0;
    for (;;) {
        while (p < end && (*p == ' ' || *p == '\t'))
            p++;
        if (p == end || c->n == CSV_FIELDS_MAX)
            return;
        const char *from = p;
        while (p < end && *p != ' ' && *p != '\t')
            p++;
        c->fields[c->n++] = (struct text){from, (size_t)(p - from)};
    }
}
