/* A line of separated fields, as RFC 4180 has them, except that a field cannot span lines. */
#ifndef HARBINGER_TRACE_CSV_H
#define HARBINGER_TRACE_CSV_H

#include "base/text.h"
#include "trace/lines.h"

enum { CSV_FIELDS_MAX = 256 };

struct csv {
    struct text fields[CSV_FIELDS_MAX]; /* in the line, or in `unquoted` */
    size_t n;                           /* fields beyond the limit are not there */
    char unquoted[LINES_MAX_BYTES];     /* fields that were quoted, without their quotes */
};

/* 0, or ERR_INVALID when a quote does not end or something follows it. The fields are valid as long
 * as the line and until the next call. */
int csv_split(struct csv *c, struct text line, char separator) MUST_CHECK;

/* The fields of a line that blanks separate; no quotes. */
void csv_split_blanks(struct csv *c, struct text line);

#endif
