#include "trace/format.h"
#include "trace/names.h"
#include "trace/output.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK = 64 * 1024 };

struct trace_writer {
    struct output *out;
    struct names keys, producers;
    uint32_t n_keys_written, n_producers_written;
    int64_t last_us;
    uint64_t n_jobs;
    uint32_t crc; /* of what has left the chunk */
    size_t n;     /* used of the chunk */
    uint8_t chunk[CHUNK];
};

int trace_create(struct trace_writer **out, const char *path, struct err *e)
{
    struct trace_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return err_set(e, ERR_NOMEM, "%s: out of memory", path);
    int r = output_open(&w->out, path, e);
    if (r < 0) {
        free(w);
        return r;
    }
    names_init(&w->keys);
    names_init(&w->producers);
    w->crc = (uint32_t)crc32(0, NULL, 0);
    memcpy(w->chunk, TRACE_MAGIC, TRACE_MAGIC_BYTES);
    w->n = TRACE_MAGIC_BYTES;
    *out = w;
    return 0;
}

static int add(struct names *t, const char *what, struct text name, uint32_t *out, struct err *e)
{
    int r = names_add(t, name, out, NULL);
    if (r == ERR_INVALID && names_valid(name))
        return err_set(e, r, "more than %d %ss", TRACE_MAX_NAMES, what);
    if (r == ERR_INVALID)
        return err_set(e, r, "a %s has 1 to %d bytes and no control character", what,
                       TRACE_NAME_BYTES);
    return r < 0 ? err_set(e, r, "out of memory") : 0;
}

int trace_add_key(struct trace_writer *w, struct text key, uint32_t *out, struct err *e)
{
    return add(&w->keys, "key", key, out, e);
}

int trace_add_producer(struct trace_writer *w, struct text producer, uint32_t *out, struct err *e)
{
    return add(&w->producers, "producer", producer, out, e);
}

static int flush(struct trace_writer *w, struct err *e)
{
    w->crc = (uint32_t)crc32(w->crc, w->chunk, (uInt)w->n);
    int r = output_write(w->out, w->chunk, w->n, e);
    w->n = 0;
    return r;
}

static void put(struct trace_writer *w, uint64_t v)
{
    while (v >= 0x80) {
        w->chunk[w->n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    w->chunk[w->n++] = (uint8_t)v;
}

static void put_text(struct trace_writer *w, struct text t)
{
    w->chunk[w->n++] = (uint8_t)t.n;
    memcpy(w->chunk + w->n, t.p, t.n);
    w->n += t.n;
}

/* Texts are defined in the file in the order of their indices. One that was added but whose first
 * job comes out of that order cannot be: the reader counts. */
static int check(const struct trace_writer *w, const struct trace_job *j, struct err *e)
{
    if (j->arrival_us < w->last_us || j->arrival_us > TRACE_MAX_US)
        return err_set(e, ERR_INVALID, "arrival %lld us: arrivals are 0 to 100 years and in order",
                       (long long)j->arrival_us);
    if (j->duration_us < 0 || j->duration_us > TRACE_MAX_US)
        return err_set(e, ERR_INVALID, "duration %lld us: durations are 0 to 100 years",
                       (long long)j->duration_us);
    if (j->key > w->n_keys_written || j->key >= w->keys.n)
        return err_set(e, ERR_INVALID, "key %u is not known, or not the next one", j->key);
    if (j->producer != TRACE_NO_PRODUCER &&
        (j->producer > w->n_producers_written || j->producer >= w->producers.n))
        return err_set(e, ERR_INVALID, "producer %u is not known, or not the next one",
                       j->producer);
    return 0;
}

int trace_write(struct trace_writer *w, const struct trace_job *j, struct err *e)
{
    int r = check(w, j, e);
    if (r == 0 && CHUNK - w->n < TRACE_RECORD_BYTES)
        r = flush(w, e);
    if (r < 0)
        return r;
    bool new_key = j->key == w->n_keys_written, has_producer = j->producer != TRACE_NO_PRODUCER;
    bool new_producer = has_producer && j->producer == w->n_producers_written;
    w->chunk[w->n++] = (uint8_t)(TRACE_JOB | (new_key ? TRACE_NEW_KEY : 0) |
                                 (has_producer ? TRACE_HAS_PRODUCER : 0) |
                                 (new_producer ? TRACE_NEW_PRODUCER : 0) |
                                 (j->size != TRACE_NO_SIZE ? TRACE_HAS_SIZE : 0));
    put(w, (uint64_t)(j->arrival_us - w->last_us));
    put(w, (uint64_t)j->duration_us);
    if (new_key)
        put_text(w, w->keys.texts[w->n_keys_written++]);
    else
        put(w, j->key);
    if (new_producer)
        put_text(w, w->producers.texts[w->n_producers_written++]);
    else if (has_producer)
        put(w, j->producer);
    if (j->size != TRACE_NO_SIZE)
        put(w, j->size);
    w->last_us = j->arrival_us;
    w->n_jobs++;
    return 0;
}

static void writer_free(struct trace_writer *w)
{
    names_fini(&w->keys);
    names_fini(&w->producers);
    free(w);
}

int trace_finish(struct trace_writer *w, struct err *e)
{
    w->chunk[w->n++] = TRACE_END; /* a record's room is always left */
    put(w, w->n_jobs);
    int r = flush(w, e);
    uint8_t crc[4] = {(uint8_t)w->crc, (uint8_t)(w->crc >> 8), (uint8_t)(w->crc >> 16),
                      (uint8_t)(w->crc >> 24)};
    if (r == 0)
        r = output_write(w->out, crc, sizeof crc, e);
    if (r == 0)
        r = output_close(w->out, e);
    else
        output_abandon(w->out);
    writer_free(w);
    return r;
}

void trace_abandon(struct trace_writer *w)
{
    if (w == NULL)
        return;
    output_abandon(w->out);
    writer_free(w);
}
