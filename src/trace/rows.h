/*
 * What became of the rows of a foreign log: taken, left out by a rule, or bad. Nothing is skipped
 * without a count; bad rows are told one by one, too, as long as they are few.
 */
#ifndef HARBINGER_TRACE_ROWS_H
#define HARBINGER_TRACE_ROWS_H

#include "base/compiler.h"
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* name, whether such a row is bad (a rule leaves the others out), words */
#define ROW_MAP(X)                                     \
    X(NEVER_RAN, false, "never ran")                   \
    X(PARALLEL, false, "not known to be serial")       \
    X(NOT_DONE, false, "not done")                     \
    X(FIELDS, true, "too few fields")                  \
    X(QUOTE, true, "a quoted field that does not end") \
    X(NUMBER, true, "not a number")                    \
    X(TIME, true, "neither a number nor a date")       \
    X(NEGATIVE, true, "negative")                      \
    X(RANGE, true, "out of range")                     \
    X(NO_KEY, true, "no key")                          \
    X(CONTROL, true, "a control character in a key or producer")

enum row_reason {
#define ROW_ENUM(name, bad, text) ROW_##name,
    ROW_MAP(ROW_ENUM)
#undef ROW_ENUM
        ROW_N_REASONS
};

struct rows {
    /* Set by the caller. */
    bool strict;                               /* the first bad row is an error */
    void (*tell)(void *ctx, const char *text); /* "FILE:LINE: why", of each of the first bad rows */
    void (*progress)(void *ctx, uint64_t n);   /* every 65536 rows; NULL: never */
    void *ctx;

    uint64_t taken, skipped[ROW_N_REASONS];
    uint64_t shortened; /* taken, with a label in place of a key or producer of over 128 bytes */
};

enum { ROWS_TOLD = 10 };

const char *row_reason_name(enum row_reason r); /* "NEVER_RAN" */
const char *row_reason_text(enum row_reason r);
bool row_reason_bad(enum row_reason r);
uint64_t rows_bad(const struct rows *r);
uint64_t rows_left_out(const struct rows *r);

/* Counts a row that was taken. */
void rows_take(struct rows *r);

/* Where a row stands, and the part of it that is wrong. */
struct row_place {
    const char *file;
    uint64_t line;
    const char *what;  /* the field's name; NULL: the row as a whole */
    struct text value; /* of the field; {0}: not to be shown */
};

/* Counts a skipped row, and tells it when it is bad. 0; or ERR_INVALID when it is bad and the rows
 * are strict. */
int rows_skip(struct rows *r, enum row_reason reason, const struct row_place *place,
              struct err *e) MUST_CHECK;

#endif
