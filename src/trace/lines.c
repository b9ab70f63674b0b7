#include "trace/lines.h"

#include <inttypes.h>

static int refuse(const struct lines *l, const char *why, struct err *e)
{
    return err_set(e, ERR_INVALID, "%s:%" PRIu64 ": %s", input_name(l->in), l->number, why);
}

int lines_next(struct lines *l, struct text *out, struct err *e)
{
    const uint8_t *p;
    input_skip(l->in, l->n_taken);
    l->n_taken = 0;
    int64_t n = input_ahead(l->in, 1, &p, e);
    const uint8_t *end = n > 0 ? memchr(p, '\n', (size_t)n) : NULL;
    if (n > 0 && end == NULL) { /* the window ends within the line, or it is the last one */
        n = input_ahead(l->in, LINES_MAX_BYTES + 2, &p, e);
        end = n > 0 ? memchr(p, '\n', (size_t)n) : NULL;
    }
    if (n <= 0)
        return (int)n;
    l->number++;
    size_t length = end != NULL ? (size_t)(end - p) : (size_t)n;
    l->n_taken = length + (end != NULL ? 1 : 0);
    if (length > 0 && p[length - 1] == '\r')
        length--;
    if (length > LINES_MAX_BYTES)
        return refuse(l, "a line of more than 65536 bytes", e);
    if (memchr(p, '\0', length) != NULL)
        return refuse(l, "a NUL byte: this is no text", e);
    *out = (struct text){(const char *)p, length};
    return 1;
}
