#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct names {
    char path[PATH_MAX], prev[PATH_MAX], tmp[PATH_MAX], prev_tmp[PATH_MAX];
};

static int fail(struct err *err, const char *path, const char *step)
{
    return err_set(err, ERR_SYSTEM, "%s: %s: %s", path, step, strerror(errno));
}

static int names_init(struct names *n, const char *path, struct err *err)
{
    size_t length = strlen(path);
    if (length == 0 || length + sizeof ".prev.tmp" > PATH_MAX) {
        errno = length == 0 ? ENOENT : ENAMETOOLONG;
        return fail(err, path, "cannot use this path");
    }
    snprintf(n->path, sizeof n->path, "%s", path);
    snprintf(n->prev, sizeof n->prev, "%.*s.prev", (int)length, path);
    snprintf(n->tmp, sizeof n->tmp, "%.*s.tmp", (int)length, path);
    snprintf(n->prev_tmp, sizeof n->prev_tmp, "%.*s.prev.tmp", (int)length, path);
    return 0;
}

/* Absent is fine. A link or a directory under that name was put there by somebody for some reason.
 */
static int check_replaceable(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : fail(err, path, "cannot look at it");
    if (S_ISREG(st.st_mode))
        return 0;
    return err_set(err, ERR_SYSTEM, "%s: %s, not a regular file", path,
                   S_ISLNK(st.st_mode)   ? "a symbolic link"
                   : S_ISDIR(st.st_mode) ? "a directory"
                                         : "a special file");
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

/* A left-over of a crash goes first, so that the new file is ours alone and no link is followed. */
static int write_tmp(const char *tmp, const void *bytes, size_t n, struct err *err)
{
    if (unlink(tmp) < 0 && errno != ENOENT)
        return fail(err, tmp, "cannot remove the left-over");
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail(err, tmp, "cannot create");
    int r = 0;
    if (write_all(fd, bytes, n) < 0)
        r = fail(err, tmp, "cannot write");
    else if (fsync(fd) < 0)
        r = fail(err, tmp, "cannot sync");
    if (close(fd) < 0 && r == 0)
        r = fail(err, tmp, "cannot close");
    if (r < 0)
        unlink(tmp);
    return r;
}

/* Gives the current content a second name, then lets that replace the rollback copy: PATH stays in
 * place throughout. On a file system without hard links the older rollback copy stays. */
static int keep_previous(const struct names *n, struct err *err)
{
    if (unlink(n->prev_tmp) < 0 && errno != ENOENT)
        return fail(err, n->prev_tmp, "cannot remove the left-over");
    if (link(n->path, n->prev_tmp) < 0) {
        if (errno == ENOENT || errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK)
            return 0;
        return fail(err, n->prev_tmp, "cannot link");
    }
    if (rename(n->prev_tmp, n->prev) == 0)
        return 0;
    int r = fail(err, n->prev, "cannot replace");
    unlink(n->prev_tmp);
    return r;
}

static int sync_directory_of(const char *path, struct err *err)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail(err, path, "cannot open its directory");
    int r = fsync(fd) < 0 ? fail(err, path, "cannot sync its directory") : 0;
    close(fd);
    return r;
}

int store_save(const char *path, const void *bytes, size_t n, struct err *err)
{
    struct names names;
    int r = names_init(&names, path, err);
    if (r == 0)
        r = check_replaceable(names.path, err);
    if (r == 0)
        r = check_replaceable(names.prev, err);
    if (r == 0)
        r = write_tmp(names.tmp, bytes, n, err);
    if (r < 0)
        return r;
    r = keep_previous(&names, err);
    if (r == 0 && rename(names.tmp, names.path) < 0)
        r = fail(err, names.path, "cannot replace");
    if (r < 0) {
        unlink(names.tmp);
        return r;
    }
    return sync_directory_of(names.path, err);
}

static int read_all(int fd, char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = read(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k == 0)
            errno = EIO; /* it shrank under our hands */
        if (k <= 0)
            return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

static int take_opened(const char *path, int fd, store_take_fn take, void *ctx, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return fail(err, path, "cannot look at it");
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_SYSTEM, "%s: not a regular file", path);
    if ((unsigned long long)st.st_size > STORE_BYTES_MAX)
        return err_set(err, ERR_CORRUPT, "%s: %lld bytes are more than any snapshot has", path,
                       (long long)st.st_size);
    size_t n = (size_t)st.st_size;
    char *bytes = malloc(n + 1);
    if (bytes == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory for its %zu bytes", path, n);
    int r = read_all(fd, bytes, n) < 0 ? fail(err, path, "cannot read") : 0;
    if (r == 0) {
        r = take(ctx, bytes, n, err);
        if (r < 0)
            err_prefix(err, "%s", path);
    }
    free(bytes);
    return r;
}

enum { OFFER_ABSENT = 1 };

/* 0 = taken, OFFER_ABSENT, or negative with *err. */
static int offer(const char *path, store_take_fn take, void *ctx, struct err *err)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        err_set(err, ERR_SYSTEM, "%s: absent", path);
        return OFFER_ABSENT;
    }
    if (fd < 0)
        return fail(err, path, errno == ELOOP ? "a symbolic link" : "cannot open");
    int r = take_opened(path, fd, take, ctx, err);
    close(fd);
    return r;
}

void store_load(const char *path, store_take_fn take, void *ctx, struct store_loaded *out)
{
    struct names names;
    struct err err = {0}, prev_err = {0};
    *out = (struct store_loaded){.source = STORE_REFUSED};
    int r = names_init(&names, path, &err);
    if (r < 0) {
        snprintf(out->note, sizeof out->note, "%s", err.msg);
        return;
    }
    r = offer(names.path, take, ctx, &err);
    if (r == 0) {
        out->source = STORE_CURRENT;
        snprintf(out->note, sizeof out->note, "%.1100s", names.path);
        return;
    }
    int prev = offer(names.prev, take, ctx, &prev_err);
    if (prev == 0)
        out->source = STORE_PREVIOUS;
    else if (r == OFFER_ABSENT && prev == OFFER_ABSENT)
        out->source = STORE_ABSENT;
    if (prev == 0)
        snprintf(out->note, sizeof out->note, "%.500s (%.600s)", names.prev, err.msg);
    else
        snprintf(out->note, sizeof out->note, "%.550s; %.550s", err.msg, prev_err.msg);
}
