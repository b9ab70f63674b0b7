/*
 * Bytes into a file or standard output, in pieces; gzip where the name ends in ".gz". Nothing in
 * the file depends on the time or the machine.
 */
#ifndef HARBINGER_TRACE_OUTPUT_H
#define HARBINGER_TRACE_OUTPUT_H

#include "base/compiler.h"
#include "base/err.h"

#include <stddef.h>

struct output;

/* "-" is standard output. 0 with *out, or negative: ERR_SYSTEM, ERR_NOMEM, *e naming the file. */
int output_open(struct output **out, const char *path, struct err *e) MUST_CHECK;
/* 0, or ERR_SYSTEM. */
int output_write(struct output *o, const void *data, size_t n, struct err *e) MUST_CHECK;
/* Writes what is left and frees it in any case. 0, or ERR_SYSTEM: the file is not complete. */
int output_close(struct output *o, struct err *e) MUST_CHECK;
/* Frees it, and removes the file where it is a plain one. */
void output_abandon(struct output *o);

#endif
