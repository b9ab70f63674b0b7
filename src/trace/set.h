/*
 * Jobs in memory, in any order, with their texts: what converters fill, what is sorted and counted.
 * 32 bytes a job. The fields are open to read; `jobs` may be changed in place.
 */
#ifndef HARBINGER_TRACE_SET_H
#define HARBINGER_TRACE_SET_H

#include "trace/names.h"
#include "trace/trace.h"

#include <stddef.h>

struct trace_set {
    struct trace_job *jobs; /* arrivals may be negative until trace_set_arrange */
    size_t n, cap;
    struct names keys, producers;
};

void trace_set_init(struct trace_set *s);
void trace_set_fini(struct trace_set *s);

/* 0, or ERR_NOMEM with nothing changed. */
int trace_set_add(struct trace_set *s, const struct trace_job *job) MUST_CHECK;

/* Sorts by arrival, jobs of the same microsecond stay in their order; and moves all of them, so
 * that the first arrives at 0. 0, or ERR_NOMEM with nothing changed. */
int trace_set_arrange(struct trace_set *s) MUST_CHECK;

/* Adds all jobs of a trace. 0, or negative as trace_next. The set must be empty before. */
int trace_set_read(struct trace_set *s, struct trace_reader *r, struct err *e) MUST_CHECK;

/* Writes all jobs, which must be in order. 0, or negative as trace_write. */
int trace_set_write(const struct trace_set *s, struct trace_writer *w, struct err *e) MUST_CHECK;

#endif
