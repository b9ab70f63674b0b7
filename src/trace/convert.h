/*
 * Foreign logs into jobs: the Standard Workload Format, and tables with a header row (Azure
 * Functions 2021, Huawei Cloud requests, Harbinger's own messages.tsv, any CSV with named columns).
 *
 * The result is in order of arrival and begins at 0 (trace_set_arrange). A key is made of one
 * field, or of several joined by "/"; a "/" or "%" inside one of several is written %2F and %25. A
 * key or producer of more than 128 bytes becomes a label, "~" and 16 hexadecimal digits of its
 * hash, the same in every file.
 */
#ifndef HARBINGER_TRACE_CONVERT_H
#define HARBINGER_TRACE_CONVERT_H

#include "trace/input.h"
#include "trace/rows.h"
#include "trace/set.h"

#include <stdbool.h>

enum convert_unit { CONVERT_NS, CONVERT_US, CONVERT_MS, CONVERT_S };

/*
 * What to take from where. convert_options_for fills in the defaults of a format; every text may be
 * replaced, or NULL where the column is optional. Texts are borrowed. Lists are separated by
 * commas.
 */
struct convert_options {
    bool swf; /* else a table */

    const char *key;      /* columns, at least one */
    const char *producer; /* columns; NULL: none */
    const char *size;     /* column; NULL: none */

    /* SWF only: leave out what is not known to run on one processor. */
    bool serial;

    /* Tables only. When `end` is given, a job arrived at end - cost; else at `arrival`. */
    char separator;
    const char *arrival, *end, *cost, *duration;
    const char *done; /* column; rows that do not say 1 there are left out. NULL: none */
    enum convert_unit arrival_unit;  /* of `arrival` and `end` */
    enum convert_unit duration_unit; /* of `duration` and `cost` */
};

/* "swf", "azure", "huawei", "results", "csv". False when there is no such format. */
bool convert_options_for(const char *format, struct convert_options *out);

/* "ns", "us", "ms", "s". */
bool convert_unit_of(const char *text, enum convert_unit *out);

/*
 * Reads all of the input into the empty set. 0; or negative, *e naming file and line: the input's
 * errors, ERR_INVALID (no text, no such column, a strict row), ERR_NOMEM. `rows` says what became
 * of them, and calls its `progress` now and then.
 */
int convert_read(struct trace_set *out, struct input *in, const struct convert_options *o,
                 struct rows *rows, struct err *e) MUST_CHECK;

#endif
