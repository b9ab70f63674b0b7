#include "sidecar/journal.h"

#include "flow/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLUSH_BYTES ((size_t)64 << 10)

struct journal {
    char *path;
    const struct log_sink *log;
    struct event *each_second;
    struct buf lines;
    unsigned n_lines; /* in it */
    uint64_t n_lost;
    int fd;
    bool failing;
};

/* ---- the file ---- */

static int open_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || (S_ISREG(st.st_mode) && st.st_size == 0 &&
                               write(fd, JOURNAL_HEAD, strlen(JOURNAL_HEAD)) < 0)) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

/* A line that is cut off would be read as a wrong one: what a short write has left goes. */
static bool write_lines(struct journal *j)
{
    off_t before = lseek(j->fd, 0, SEEK_END);
    ssize_t n = write(j->fd, j->lines.p, j->lines.n);
    if (n == (ssize_t)j->lines.n)
        return true;
    if (n >= 0)
        errno = ENOSPC;
    if (n > 0 && before >= 0) {
        int why = errno;
        if (ftruncate(j->fd, before) < 0)
            why = errno;
        errno = why;
    }
    return false;
}

static void flush(struct journal *j)
{
    if (j->lines.n == 0)
        return;
    bool written = write_lines(j);
    if (!written) {
        j->n_lost += j->n_lines;
        if (!j->failing)
            log_event(j->log, LOG_ERROR, "journal.lost", "path=" LOG_Q " reason=" LOG_Q, j->path,
                      strerror(errno));
    } else if (j->failing) {
        log_event(j->log, LOG_INFO, "journal.again", "path=" LOG_Q " lost=%" PRIu64, j->path,
                  j->n_lost);
    }
    j->failing = !written;
    buf_reset(&j->lines);
    j->n_lines = 0;
}

static void on_second(evutil_socket_t fd, short what, void *ctx)
{
    flush(ctx);
}

/* ---- lines ---- */

static void put(struct journal *j, const struct journal_entry *e)
{
    if (journal_print(e, &j->lines) < 0) {
        j->n_lost++;
        return;
    }
    j->n_lines++;
    if (j->lines.n >= FLUSH_BYTES)
        flush(j);
}

static void set_key(struct key *out, struct hb_key key, size_t n_parent)
{
    out->n = key.n <= KEY_MAX_BYTES ? key.n : 0;
    out->n_parent = n_parent;
    if (out->n > 0)
        memcpy(out->raw, key.p, out->n);
}

static void decided(void *ctx, const struct ticket *t, mono_t now)
{
    struct journal_entry e = {
        .at = now,
        .event = JOURNAL_JOB,
        .level = t->level,
        .ms = t->estimate_ms,
        .reason = text_of(t->reason),
    };
    set_key(&e.key, (struct hb_key){t->raw_key.p, t->raw_key.n}, t->n_parent);
    put(ctx, &e);
}

static void learned(void *ctx, struct hb_key key, struct hb_key parent, double ms, mono_t now)
{
    struct journal_entry e = {.at = now, .event = JOURNAL_LEARNED, .ms = ms};
    set_key(&e.key, key, parent.n);
    put(ctx, &e);
}

static void timed_out(void *ctx, struct hb_key key, struct hb_key parent, mono_t now)
{
    struct journal_entry e = {.at = now, .event = JOURNAL_TIMEOUT, .ms = -1};
    set_key(&e.key, key, parent.n);
    put(ctx, &e);
}

struct flow_witness journal_witness(struct journal *j)
{
    if (j == NULL)
        return (struct flow_witness){0};
    return (struct flow_witness){decided, learned, timed_out, j};
}

/* ---- life ---- */

int journal_new(struct event_base *base, const char *path, const struct log_sink *log,
                struct journal **out, struct err *err)
{
    static const struct timeval second = {.tv_sec = 1};
    struct journal *j = calloc(1, sizeof *j);
    if (j == NULL)
        return err_set(err, ERR_NOMEM, "journal: %s", err_name(ERR_NOMEM));
    j->log = log;
    j->fd = open_file(path);
    if (j->fd < 0) {
        err_set(err, ERR_SYSTEM, "journal.path: %s: %s", path, strerror(errno));
        journal_free(j);
        return err->code;
    }
    j->path = strdup(path);
    j->each_second = event_new(base, -1, EV_PERSIST, on_second, j);
    if (j->path == NULL || j->each_second == NULL || event_add(j->each_second, &second) < 0) {
        journal_free(j);
        return err_set(err, ERR_NOMEM, "journal: %s", err_name(ERR_NOMEM));
    }
    *out = j;
    return 0;
}

void journal_free(struct journal *j)
{
    if (j == NULL)
        return;
    if (j->fd >= 0) {
        flush(j);
        close(j->fd);
    }
    if (j->each_second != NULL)
        event_free(j->each_second);
    buf_fini(&j->lines);
    free(j->path);
    free(j);
}

void journal_reopen(struct journal *j)
{
    if (j == NULL)
        return;
    flush(j);
    int fd = open_file(j->path);
    if (fd < 0) {
        log_event(j->log, LOG_ERROR, "journal.reopen", "path=" LOG_Q " reason=" LOG_Q, j->path,
                  strerror(errno));
        return;
    }
    close(j->fd);
    j->fd = fd;
}

uint64_t journal_lost(const struct journal *j)
{
    return j != NULL ? j->n_lost : 0;
}
