#include "base/buf.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `more` bytes and the NUL; doubles, so that appends are amortised O(1). */
static int buf_reserve(struct buf *b, size_t more)
{
    if (more > SIZE_MAX / 2 - b->n - 1)
        return ERR_NOMEM;
    size_t need = b->n + more + 1;
    if (need <= b->cap)
        return 0;
    size_t cap = b->cap > 0 ? b->cap : 256;
    while (cap < need)
        cap *= 2;
    char *p = realloc(b->p, cap);
    if (p == NULL)
        return ERR_NOMEM;
    b->p = p;
    b->cap = cap;
    return 0;
}

char *buf_extend(struct buf *b, size_t n)
{
    if (buf_reserve(b, n) < 0)
        return NULL;
    char *added = b->p + b->n;
    b->n += n;
    b->p[b->n] = '\0';
    return added;
}

int buf_append(struct buf *b, const void *data, size_t n)
{
    char *added = buf_extend(b, n);
    if (added == NULL)
        return ERR_NOMEM;
    if (n > 0)
        memcpy(added, data, n);
    return 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    int r = n < 0 ? ERR_INVALID : buf_reserve(b, (size_t)n);
    if (r == 0) {
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    return r;
}

void buf_reset(struct buf *b)
{
    b->n = 0;
    if (b->p != NULL)
        b->p[0] = '\0';
}

void buf_fini(struct buf *b)
{
    free(b->p);
    *b = (struct buf){0};
}
