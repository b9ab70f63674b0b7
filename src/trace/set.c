#include "trace/set.h"

#include <stdlib.h>
#include <string.h>

void trace_set_init(struct trace_set *s)
{
    *s = (struct trace_set){0};
    names_init(&s->keys);
    names_init(&s->producers);
}

void trace_set_fini(struct trace_set *s)
{
    free(s->jobs);
    names_fini(&s->keys);
    names_fini(&s->producers);
    *s = (struct trace_set){0};
}

int trace_set_add(struct trace_set *s, const struct trace_job *job)
{
    if (s->n == s->cap) {
        size_t cap = s->cap > 0 ? 2 * s->cap : 1024;
        struct trace_job *jobs = reallocarray(s->jobs, cap, sizeof *jobs);
        if (jobs == NULL)
            return ERR_NOMEM;
        s->jobs = jobs;
        s->cap = cap;
    }
    s->jobs[s->n++] = *job;
    return 0;
}

/* Merges the runs [from, middle) and [middle, to); of equals, the left one comes first. */
static void merge(const struct trace_job *in, struct trace_job *out, size_t from, size_t middle,
                  size_t to)
{
    size_t a = from, b = middle;
    for (size_t i = from; i < to; i++) {
        bool left = b == to || (a < middle && in[a].arrival_us <= in[b].arrival_us);
        out[i] = in[left ? a++ : b++];
    }
}

static bool in_order(const struct trace_set *s)
{
    for (size_t i = 1; i < s->n; i++)
        if (s->jobs[i].arrival_us < s->jobs[i - 1].arrival_us)
            return false;
    return true;
}

/* Bottom-up merge sort: qsort(3) may change the order of equals. */
static int sort(struct trace_set *s)
{
    struct trace_job *from = s->jobs, *to = reallocarray(NULL, s->n, sizeof *to);
    if (to == NULL)
        return ERR_NOMEM;
    for (size_t width = 1; width < s->n; width *= 2) {
        for (size_t i = 0; i < s->n; i += 2 * width) {
            size_t middle = s->n - i < width ? s->n : i + width;
            size_t end = s->n - i < 2 * width ? s->n : i + 2 * width;
            merge(from, to, i, middle, end);
        }
        struct trace_job *swap = from;
        from = to;
        to = swap;
    }
    if (from != s->jobs)
        s->cap = s->n;
    s->jobs = from;
    free(to);
    return 0;
}

int trace_set_arrange(struct trace_set *s)
{
    if (!in_order(s) && sort(s) < 0)
        return ERR_NOMEM;
    int64_t first = s->n > 0 ? s->jobs[0].arrival_us : 0;
    for (size_t i = 0; i < s->n; i++)
        s->jobs[i].arrival_us -= first;
    return 0;
}

static int copy_names(struct names *t, struct trace_reader *r, bool producers, struct err *e)
{
    uint32_t n = producers ? trace_n_producers(r) : trace_n_keys(r), at;
    for (uint32_t i = 0; i < n; i++) {
        int f = names_add(t, producers ? trace_producer(r, i) : trace_key(r, i), &at, NULL);
        if (f < 0)
            return err_set(e, f, "out of memory");
    }
    return 0;
}

int trace_set_read(struct trace_set *s, struct trace_reader *r, struct err *e)
{
    struct trace_job j;
    int f;
    while ((f = trace_next(r, &j, e)) == 1)
        if (trace_set_add(s, &j) < 0)
            return err_set(e, ERR_NOMEM, "out of memory");
    if (f == 0)
        f = copy_names(&s->keys, r, false, e);
    return f < 0 ? f : copy_names(&s->producers, r, true, e);
}

/* Index in the set -> index in the file, where texts are numbered as they occur. */
struct map {
    uint32_t *to, n;
};

static int map_init(struct map *m, uint32_t n)
{
    m->n = n;
    m->to = malloc(n > 0 ? n * sizeof *m->to : 1);
    if (m->to == NULL)
        return ERR_NOMEM;
    memset(m->to, 0xff, n * sizeof *m->to);
    return 0;
}

static int write_one(const struct trace_set *s, struct trace_writer *w, struct map maps[2],
                     struct trace_job j, struct err *e)
{
    int f = 0;
    if (maps[0].to[j.key] == UINT32_MAX)
        f = trace_add_key(w, s->keys.texts[j.key], &maps[0].to[j.key], e);
    j.key = maps[0].to[j.key];
    if (f == 0 && j.producer != TRACE_NO_PRODUCER) {
        if (maps[1].to[j.producer] == UINT32_MAX)
            f = trace_add_producer(w, s->producers.texts[j.producer], &maps[1].to[j.producer], e);
        j.producer = maps[1].to[j.producer];
    }
    return f < 0 ? f : trace_write(w, &j, e);
}

int trace_set_write(const struct trace_set *s, struct trace_writer *w, struct err *e)
{
    struct map maps[2] = {0};
    int f = 0;
    if (map_init(&maps[0], s->keys.n) < 0 || map_init(&maps[1], s->producers.n) < 0)
        f = err_set(e, ERR_NOMEM, "out of memory");
    for (size_t i = 0; f == 0 && i < s->n; i++)
        f = write_one(s, w, maps, s->jobs[i], e);
    free(maps[0].to);
    free(maps[1].to);
    return f;
}
