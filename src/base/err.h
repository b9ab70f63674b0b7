/*
 * Errors, in two families that share an int.
 *
 *   negative   this unit of work cannot go on; one of the ERR_* codes below; callers pass it up
 *              unchanged
 *   0          done
 *   positive   an outcome that the function's contract names (EMPTY, FULL, STALE, ...); the caller
 *              handles it on the spot and never forwards it
 *
 * Where a person will read why, the last parameter is a `struct err`: the inner layer writes the
 * fact, the outer layers prefix it with the object they were working on (queue, key, file:line).
 */
#ifndef HARBINGER_BASE_ERR_H
#define HARBINGER_BASE_ERR_H

#include "base/compiler.h"

#define ERR_MAP(X)                                       \
    X(ERR_NOMEM, -1, "out of memory")                    \
    X(ERR_SYSTEM, -2, "a system call failed")            \
    X(ERR_INVALID, -3, "invalid input")                  \
    X(ERR_CONFIG, -4, "the configuration is not usable") \
    X(ERR_PROTOCOL, -5, "the peer broke the protocol")   \
    X(ERR_REFUSED, -6, "the peer refused")               \
    X(ERR_LOST, -7, "the connection is lost")            \
    X(ERR_TIMEOUT, -8, "no answer in time")              \
    X(ERR_CORRUPT, -9, "stored data is damaged")         \
    X(ERR_MISMATCH, -10, "stored data belongs to another configuration")

enum {
#define ERR_ENUM(name, value, text) name = value,
    ERR_MAP(ERR_ENUM)
#undef ERR_ENUM
};

struct err {
    int code;      /* 0 or one of ERR_* */
    char msg[512]; /* always terminated; longer texts are cut */
};

/* Sets code and text; returns `code`, so that `return err_set(e, ERR_INVALID, ...)` reads well. `e`
 * may be NULL. */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts the formatted text and ": " before the message. Keeps the code and returns it (0 when `e` is
 * NULL). */
int err_prefix(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The fixed words for a code; "ok" for 0, "unknown error" for anything else. Never NULL. */
const char *err_name(int code);

#endif
