/*
 * One file that is replaced as a whole, with a rollback copy beside it.
 *
 *   PATH                      the latest content
 *   PATH.prev                 the one before
 *   PATH.tmp, PATH.prev.tmp   half of a save; left by a crash, overwritten by the next save, never
 *                             read
 *
 * At every moment of a save, and after a crash at any of them, PATH or PATH.prev holds a complete
 * content: the new one is written and synced as PATH.tmp, the current one gets a second name that
 * replaces PATH.prev, then PATH.tmp replaces PATH, each by one rename. All messages name the path.
 */
#ifndef HARBINGER_STORE_STORE_H
#define HARBINGER_STORE_STORE_H

#include "base/compiler.h"
#include "base/err.h"

#include <stddef.h>

/* More than any snapshot; a larger file is refused unread. */
#define STORE_BYTES_MAX ((size_t)1 << 30)

/*
 * Makes the n bytes the content of `path`, mode 0600. Returns 0, or ERR_SYSTEM with *err naming the
 * path and the failed step; then PATH and PATH.prev are as they were, and PATH.tmp is gone if it
 * could be removed. Refuses to replace anything but a regular file (a symbolic link too).
 */
int store_save(const char *path, const void *bytes, size_t n, struct err *err) MUST_CHECK;

/* Takes a content, or returns a negative ERR_* code and says why not. The bytes are valid during
 * the call. */
typedef int (*store_take_fn)(void *ctx, const void *bytes, size_t n, struct err *err);

enum store_source {
    STORE_CURRENT = 1, /* PATH was taken */
    STORE_PREVIOUS,    /* PATH was absent or refused, and PATH.prev was taken */
    STORE_ABSENT,      /* there is neither */
    STORE_REFUSED,     /* what there is could not be read or was refused */
};

struct store_loaded {
    enum store_source source;
    char note[1200]; /* words for the log: which file, and why the other was not used */
};

/* Offers PATH to `take` and, if that is absent or refused, PATH.prev. Fills *out; cannot fail,
 * because a daemon starts without its snapshot too. Changes no file. */
void store_load(const char *path, store_take_fn take, void *ctx, struct store_loaded *out);

#endif
