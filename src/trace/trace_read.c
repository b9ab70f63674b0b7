#include "trace/format.h"
#include "trace/input.h"
#include "trace/names.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Bytes are taken off the input, and summed, a good number at a time. */
enum { CHUNK = 64 * 1024 };

struct trace_reader {
    struct input *in;
    struct names keys, producers;
    uint32_t n_keys, n_producers; /* defined in this pass */

    const uint8_t *chunk; /* what input_ahead has shown, from input_offset on */
    size_t at, n;

    int64_t last_us;
    uint64_t n_jobs;
    uint32_t crc; /* of what has been taken off */
    bool ended;
    struct err failed; /* code 0: not */
};

/* Writes why, with the place; the reader stays at it. */
static int broken(struct trace_reader *r, int code, const char *why)
{
    return err_set(&r->failed, code, "%s: byte %" PRIu64 ": %s", input_name(r->in),
                   input_offset(r->in) + r->at, why);
}

static int cut_off(struct trace_reader *r)
{
    return broken(r, ERR_CORRUPT, "the trace is cut off");
}

/* Takes off what has been read, and looks ahead. */
static int advance(struct trace_reader *r)
{
    if (r->at > 0) /* to zlib, no bytes at NULL are a new sum */
        r->crc = (uint32_t)crc32(r->crc, r->chunk, (uInt)r->at);
    input_skip(r->in, r->at);
    r->at = r->n = 0;
    int64_t n = input_ahead(r->in, CHUNK, &r->chunk, &r->failed);
    if (n < 0)
        return (int)n;
    r->n = (size_t)n;
    return 0;
}

static int get_byte(struct trace_reader *r, uint8_t *out)
{
    if (r->at == r->n)
        return cut_off(r);
    *out = r->chunk[r->at++];
    return 0;
}

/* LEB128: seven bits a byte, the lowest first; the tenth byte has one. */
static int get(struct trace_reader *r, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = 0;
        int f = get_byte(r, &b);
        if (f < 0)
            return f;
        if (shift == 63 && b > 1)
            break;
        v |= (uint64_t)(b & 0x7f) << shift;
        if ((b & 0x80) == 0) {
            *out = v;
            return 0;
        }
    }
    return broken(r, ERR_CORRUPT, "a number of more than 64 bits");
}

static int get_time(struct trace_reader *r, int64_t from, int64_t *out)
{
    uint64_t v;
    int f = get(r, &v);
    if (f < 0)
        return f;
    if (v > (uint64_t)(TRACE_MAX_US - from))
        return broken(r, ERR_CORRUPT, "a time of more than 100 years");
    *out = from + (int64_t)v;
    return 0;
}

/* A text at its first place. In a second pass it must be the one it was. */
static int define(struct trace_reader *r, struct names *t, uint32_t *n_defined, uint32_t *out)
{
    uint8_t n = 0;
    int f = get_byte(r, &n);
    if (f < 0)
        return f;
    if (r->n - r->at < n)
        return cut_off(r);
    struct text name = {(const char *)r->chunk + r->at, n};
    bool again = *n_defined < t->n, is_new;
    if (names_add(t, name, out, &is_new) == ERR_NOMEM)
        return broken(r, ERR_NOMEM, "out of memory");
    if (!names_valid(name) || (!is_new && !again))
        return broken(r, ERR_CORRUPT, "a text that is none, or was there before");
    if (again && *out != *n_defined)
        return broken(r, ERR_CORRUPT, "the file has changed since it was first read");
    r->at += n;
    ++*n_defined;
    return 0;
}

static int get_name(struct trace_reader *r, struct names *t, uint32_t *n_defined, bool is_new,
                    uint32_t *out)
{
    if (is_new)
        return define(r, t, n_defined, out);
    uint64_t i;
    int f = get(r, &i);
    if (f < 0)
        return f;
    if (i >= *n_defined)
        return broken(r, ERR_CORRUPT, "a text that is not defined");
    *out = (uint32_t)i;
    return 0;
}

static int get_job(struct trace_reader *r, uint8_t tag, struct trace_job *j)
{
    const uint8_t known =
        TRACE_JOB | TRACE_NEW_KEY | TRACE_HAS_PRODUCER | TRACE_NEW_PRODUCER | TRACE_HAS_SIZE;
    if ((tag & TRACE_JOB) == 0 || (tag & ~known) != 0 ||
        (tag & (TRACE_HAS_PRODUCER | TRACE_NEW_PRODUCER)) == TRACE_NEW_PRODUCER)
        return broken(r, ERR_CORRUPT, "a record of unknown kind");
    *j = (struct trace_job){.size = TRACE_NO_SIZE, .producer = TRACE_NO_PRODUCER};
    int f = get_time(r, r->last_us, &j->arrival_us);
    if (f == 0)
        f = get_time(r, 0, &j->duration_us);
    if (f == 0)
        f = get_name(r, &r->keys, &r->n_keys, (tag & TRACE_NEW_KEY) != 0, &j->key);
    if (f == 0 && (tag & TRACE_HAS_PRODUCER) != 0)
        f = get_name(r, &r->producers, &r->n_producers, (tag & TRACE_NEW_PRODUCER) != 0,
                     &j->producer);
    if (f == 0 && (tag & TRACE_HAS_SIZE) != 0)
        f = get(r, &j->size);
    if (f < 0)
        return f;
    r->last_us = j->arrival_us;
    r->n_jobs++;
    return 1;
}

/* The count, the checksum, and nothing behind. */
static int get_end(struct trace_reader *r)
{
    uint64_t n_jobs;
    int f = get(r, &n_jobs);
    if (f < 0)
        return f;
    uint32_t crc = (uint32_t)crc32(r->crc, r->chunk, (uInt)r->at), said = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint8_t b = 0;
        f = get_byte(r, &b);
        if (f < 0)
            return f;
        said |= (uint32_t)b << (8 * i);
    }
    if (n_jobs != r->n_jobs || said != crc)
        return broken(r, ERR_CORRUPT, "count or checksum differ: the trace is damaged");
    if (r->at < r->n)
        return broken(r, ERR_CORRUPT, "something follows the end");
    r->ended = true;
    return 0;
}

int trace_next(struct trace_reader *r, struct trace_job *out, struct err *e)
{
    if (r->ended)
        return 0;
    int f = r->failed.code;
    if (f == 0 && r->n - r->at < TRACE_RECORD_BYTES)
        f = advance(r);
    uint8_t tag = 0;
    if (f == 0)
        f = get_byte(r, &tag);
    if (f == 0)
        f = tag == TRACE_END ? get_end(r) : get_job(r, tag, out);
    if (f < 0)
        err_set(e, f, "%s", r->failed.msg);
    return f;
}

static int read_magic(struct trace_reader *r, struct err *e)
{
    const uint8_t *p;
    int64_t n = input_ahead(r->in, TRACE_MAGIC_BYTES, &p, e);
    if (n < 0)
        return (int)n;
    if (n < TRACE_MAGIC_BYTES || memcmp(p, TRACE_MAGIC, TRACE_MAGIC_BYTES - 1) != 0)
        return err_set(e, ERR_CORRUPT, "%s: this is no trace; `harbinger trace convert` makes one",
                       input_name(r->in));
    if (p[TRACE_MAGIC_BYTES - 1] != (uint8_t)TRACE_MAGIC[TRACE_MAGIC_BYTES - 1])
        return err_set(e, ERR_CORRUPT, "%s: a trace of version %d, this Harbinger reads version %d",
                       input_name(r->in), p[TRACE_MAGIC_BYTES - 1],
                       TRACE_MAGIC[TRACE_MAGIC_BYTES - 1]);
    r->crc = (uint32_t)crc32(0, p, TRACE_MAGIC_BYTES);
    input_skip(r->in, TRACE_MAGIC_BYTES);
    return 0;
}

/* Takes the input, also when it fails. */
static int reader_new(struct trace_reader **out, struct input *in, struct err *e)
{
    struct trace_reader *r = calloc(1, sizeof *r);
    if (r == NULL) {
        int f = err_set(e, ERR_NOMEM, "%s: out of memory", input_name(in));
        input_close(in);
        return f;
    }
    r->in = in;
    names_init(&r->keys);
    names_init(&r->producers);
    int f = read_magic(r, e);
    if (f < 0)
        trace_close(r);
    else
        *out = r;
    return f;
}

int trace_open(struct trace_reader **out, const char *path, struct err *e)
{
    struct input *in;
    int f = input_open(&in, path, e);
    return f < 0 ? f : reader_new(out, in, e);
}

int trace_open_bytes(struct trace_reader **out, const char *name, const void *bytes, size_t n,
                     struct err *e)
{
    struct input *in;
    int f = input_open_bytes(&in, name, bytes, n, e);
    return f < 0 ? f : reader_new(out, in, e);
}

void trace_close(struct trace_reader *r)
{
    if (r == NULL)
        return;
    input_close(r->in);
    names_fini(&r->keys);
    names_fini(&r->producers);
    free(r);
}

int trace_rewind(struct trace_reader *r, struct err *e)
{
    int f = input_rewind(r->in, e);
    if (f < 0)
        return f;
    r->n_keys = r->n_producers = 0;
    r->chunk = NULL;
    r->at = r->n = 0;
    r->last_us = 0;
    r->n_jobs = 0;
    r->ended = false;
    r->failed.code = 0;
    return read_magic(r, e);
}

uint32_t trace_n_keys(const struct trace_reader *r)
{
    return r->keys.n;
}

struct text trace_key(const struct trace_reader *r, uint32_t i)
{
    return r->keys.texts[i];
}

uint32_t trace_n_producers(const struct trace_reader *r)
{
    return r->producers.n;
}

struct text trace_producer(const struct trace_reader *r, uint32_t i)
{
    return r->producers.texts[i];
}
