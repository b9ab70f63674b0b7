/*
 * A trace: jobs in the order of their arrival, each with its key and how long it took. One file
 * format, which `harbinger trace` writes and the simulator reads; docs/trace.md describes its
 * bytes.
 *
 * Times are whole microseconds. Arrivals count from the trace's start (the first arrival need not
 * be 0) and never decrease. Keys and producers are texts, named by index: index i is the i-th one
 * to occur, so a stream can be read without knowing what comes.
 *
 * A file is read and written as a stream in a fixed amount of memory; only the table of texts
 * grows, up to TRACE_MAX_NAMES of each kind. Gzip is recognised by its first bytes when read, and
 * written where the name ends in ".gz".
 */
#ifndef HARBINGER_TRACE_TRACE_H
#define HARBINGER_TRACE_TRACE_H

#include "base/compiler.h"
#include "base/err.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

#define TRACE_MAX_US      INT64_C(3153600000000000) /* 100 years: in ns it still fits an int64_t */
#define TRACE_NO_SIZE     UINT64_MAX
#define TRACE_NO_PRODUCER UINT32_MAX

/* A text has 1..TRACE_NAME_BYTES bytes and no control character, as labels on the wire have. */
enum { TRACE_NAME_BYTES = 128, TRACE_MAX_NAMES = 1 << 24 };

struct trace_job {
    int64_t arrival_us;  /* 0..TRACE_MAX_US */
    int64_t duration_us; /* 0..TRACE_MAX_US */
    uint64_t size;       /* TRACE_NO_SIZE: not known */
    uint32_t key;
    uint32_t producer; /* TRACE_NO_PRODUCER: not known */
};

struct trace_reader;

/* Opens a trace; "-" is standard input. 0 with *out, to be closed with trace_close; or negative, *e
 * naming the file: ERR_SYSTEM, ERR_NOMEM, ERR_CORRUPT (it is no trace, or of another version). */
int trace_open(struct trace_reader **out, const char *path, struct err *e) MUST_CHECK;
/* The same over bytes in memory, plain or gzip, which must outlive the reader; `name` stands in
 * messages. */
int trace_open_bytes(struct trace_reader **out, const char *name, const void *bytes, size_t n,
                     struct err *e) MUST_CHECK;
void trace_close(struct trace_reader *r);

/* 1 with the next job in *out; 0 at the end, as often as asked; or negative, *e naming file, byte
 * offset in the (unpacked) stream and reason: ERR_CORRUPT (cut off, damaged, not in order),
 * ERR_SYSTEM, ERR_NOMEM. After an error every call returns it again. */
int trace_next(struct trace_reader *r, struct trace_job *out, struct err *e) MUST_CHECK;

/* Back to the first job, for a second pass. The texts read so far stay known, with the same
 * indices. 0, or negative: ERR_INVALID when the input is a pipe. */
int trace_rewind(struct trace_reader *r, struct err *e) MUST_CHECK;

/* The texts that have occurred so far. A text is valid until trace_close; `i` is an index from a
 * job that trace_next has returned. */
uint32_t trace_n_keys(const struct trace_reader *r);
struct text trace_key(const struct trace_reader *r, uint32_t i);
uint32_t trace_n_producers(const struct trace_reader *r);
struct text trace_producer(const struct trace_reader *r, uint32_t i);

struct trace_writer;

/* Creates (or empties) the file; "-" is standard output; gzip when the name ends in ".gz". 0 with
 * *out, to be ended with trace_finish or trace_abandon; or negative: ERR_SYSTEM, ERR_NOMEM. */
int trace_create(struct trace_writer **out, const char *path, struct err *e) MUST_CHECK;

/* The index of a text, which it gets when it is first asked for. 0; or negative: ERR_INVALID (not a
 * text as above, or too many), ERR_NOMEM. */
int trace_add_key(struct trace_writer *w, struct text key, uint32_t *out, struct err *e) MUST_CHECK;
int trace_add_producer(struct trace_writer *w, struct text producer, uint32_t *out,
                       struct err *e) MUST_CHECK;

/* Writes one job. 0; or negative: ERR_INVALID (earlier than the one before, a time out of range, an
 * unknown index), with nothing written; ERR_SYSTEM, ERR_NOMEM, after which only trace_abandon
 * is left. */
int trace_write(struct trace_writer *w, const struct trace_job *job, struct err *e) MUST_CHECK;

/* Writes the end, without which a file counts as cut off, and frees the writer in any case. 0, or
 * negative. */
int trace_finish(struct trace_writer *w, struct err *e) MUST_CHECK;
/* Frees the writer and removes the file. */
void trace_abandon(struct trace_writer *w);

#endif
