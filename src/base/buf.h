/*
 * A growing byte buffer. A zeroed struct is an empty buffer. A failed append leaves it as it was.
 * The content is always followed by a NUL that `n` does not count, once anything was appended.
 */
#ifndef HARBINGER_BASE_BUF_H
#define HARBINGER_BASE_BUF_H

#include "base/compiler.h"

#include <stddef.h>

struct buf {
    char *p;
    size_t n;   /* bytes used */
    size_t cap; /* bytes allocated */
};

/* Returns 0, or ERR_NOMEM with the buffer unchanged. */
int buf_append(struct buf *b, const void *data, size_t n) MUST_CHECK;
/* Makes room for n bytes more and counts them as used; returns them, to be written by the caller.
 * NULL when memory is short, with the buffer unchanged. */
char *buf_extend(struct buf *b, size_t n) MUST_CHECK;
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;

/* Empties the buffer and keeps its memory. */
void buf_reset(struct buf *b);

/* Frees the memory; the buffer is empty and usable again. */
void buf_fini(struct buf *b);

#endif
