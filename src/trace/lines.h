/* The lines of an input, with their numbers. A line may end in LF, CRLF, or with the input. */
#ifndef HARBINGER_TRACE_LINES_H
#define HARBINGER_TRACE_LINES_H

#include "base/text.h"
#include "trace/input.h"

#include <stdint.h>

enum { LINES_MAX_BYTES = 64 * 1024 };

struct lines {
    struct input *in; /* borrowed */
    uint64_t number;  /* of the line last returned, from 1 */
    size_t n_taken;   /* its bytes, which the next call takes off */
};

/* 1 with the line, without its end, valid until the next call; 0 at the end; or negative: as
 * input_ahead; ERR_INVALID when a line is longer than LINES_MAX_BYTES or holds a NUL, *e naming
 * file and line. */
int lines_next(struct lines *l, struct text *out, struct err *e) MUST_CHECK;

#endif
