/* What the converters share; never included from another folder. */
#ifndef HARBINGER_TRACE_CONVERT_INTERNAL_H
#define HARBINGER_TRACE_CONVERT_INTERNAL_H

#include "trace/convert.h"
#include "trace/csv.h"

#include <limits.h>

enum { COLUMNS_MAX = 16, NO_COLUMN = INT_MAX };

/* Which fields of a row make a text. */
struct columns {
    int index[COLUMNS_MAX];
    int n; /* 0: there is none */
};

/* One conversion under way, and the row at hand. */
struct conversion {
    struct trace_set *set;
    const struct convert_options *options;
    struct rows *rows;
    struct lines lines;
    struct csv csv;
    struct err *e;
    struct columns key, producer, arrival, end, cost, duration, size, done;
    const struct text *names; /* of the columns, for messages */
};

/* Skips the row at hand; `column` is the field to blame, NO_COLUMN for none. 0, or ERR_INVALID. */
int conversion_skip(struct conversion *c, enum row_reason reason, int column);

/* Each of these takes a value from the row at hand. 1; 0 when that skipped the row; negative when
 * that is an error. */
int conversion_decimal(struct conversion *c, int column, double *out);
int conversion_size(struct conversion *c, uint64_t *out);
/* Key and producer. */
int conversion_names(struct conversion *c, struct trace_job *out);

/* Takes the job. 0, or ERR_NOMEM. */
int conversion_take(struct conversion *c, const struct trace_job *job);

int convert_swf(struct conversion *c);
int convert_table(struct conversion *c);

#endif
