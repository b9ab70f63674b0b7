/*
 * What gRPC adds to HTTP/2, for both ends: status codes, the frame around each message, timeouts
 * and the coding of status messages. Pure.
 */
#ifndef HARBINGER_RPC_GRPC_H
#define HARBINGER_RPC_GRPC_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/mono.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers and names of gRPC's status codes. */
#define GRPC_STATUS_MAP(X)                                \
    X(GRPC_OK, 0, "OK")                                   \
    X(GRPC_CANCELLED, 1, "CANCELLED")                     \
    X(GRPC_UNKNOWN, 2, "UNKNOWN")                         \
    X(GRPC_INVALID_ARGUMENT, 3, "INVALID_ARGUMENT")       \
    X(GRPC_DEADLINE_EXCEEDED, 4, "DEADLINE_EXCEEDED")     \
    X(GRPC_NOT_FOUND, 5, "NOT_FOUND")                     \
    X(GRPC_ALREADY_EXISTS, 6, "ALREADY_EXISTS")           \
    X(GRPC_PERMISSION_DENIED, 7, "PERMISSION_DENIED")     \
    X(GRPC_RESOURCE_EXHAUSTED, 8, "RESOURCE_EXHAUSTED")   \
    X(GRPC_FAILED_PRECONDITION, 9, "FAILED_PRECONDITION") \
    X(GRPC_ABORTED, 10, "ABORTED")                        \
    X(GRPC_OUT_OF_RANGE, 11, "OUT_OF_RANGE")              \
    X(GRPC_UNIMPLEMENTED, 12, "UNIMPLEMENTED")            \
    X(GRPC_INTERNAL, 13, "INTERNAL")                      \
    X(GRPC_UNAVAILABLE, 14, "UNAVAILABLE")                \
    X(GRPC_DATA_LOSS, 15, "DATA_LOSS")                    \
    X(GRPC_UNAUTHENTICATED, 16, "UNAUTHENTICATED")

enum grpc_status {
#define GRPC_STATUS_ENUM(name, value, text) name = value,
    GRPC_STATUS_MAP(GRPC_STATUS_ENUM)
#undef GRPC_STATUS_ENUM
};

/* "OK", "CANCELLED", ...; "UNKNOWN" for any other number. Never NULL. */
const char *grpc_status_name(unsigned status);

/* ---- messages ---- */

/* Each message is preceded by a flag (0 = not compressed) and its length, big-endian. */
enum { GRPC_PREFIX = 5 };

void grpc_put_prefix(uint8_t out[GRPC_PREFIX], uint32_t n);

/* Puts the messages of a stream together again. Zeroed and with `max` set, it is ready. */
struct grpc_reader {
    struct buf buf;
    size_t at;  /* bytes of buf that are done with */
    size_t max; /* bytes; a longer message is refused */
};

/* Takes bytes that came. Returns 0, or ERR_NOMEM with nothing taken. Messages handed out before are
 * no longer valid. */
int grpc_reader_feed(struct grpc_reader *r, const void *data, size_t n) MUST_CHECK;

enum grpc_next {
    GRPC_MESSAGE,    /* *out is one, valid until the next feed or fini */
    GRPC_MORE,       /* it is not complete yet */
    GRPC_COMPRESSED, /* it is, and nobody asked for that; nothing more comes of this stream */
    GRPC_TOO_LONG,   /* it is over `max`; the same */
};

enum grpc_next grpc_reader_next(struct grpc_reader *r, struct text *out) MUST_CHECK;

/* Whether bytes are left: the stream ended inside a message. */
bool grpc_reader_partial(const struct grpc_reader *r);
void grpc_reader_fini(struct grpc_reader *r);

/* ---- header fields ---- */

/* grpc-timeout: at most 8 digits and a unit. Rounds up, so that no deadline comes early; `for_ns`
 * not negative. `out` has room for it and its NUL. */
void grpc_timeout_format(mono_t for_ns, char out[12]);
/* Returns 0, or ERR_INVALID with *out_ns unchanged. */
int grpc_timeout_parse(const char *text, size_t n, mono_t *out_ns) MUST_CHECK;

/* grpc-message: percent-coded outside of printable ASCII. Appends; 0 or ERR_NOMEM. */
int grpc_percent_encode(struct buf *out, const char *text, size_t n) MUST_CHECK;
/* Decodes in place and returns the new length. What is no valid code stays as it is. */
size_t grpc_percent_decode(char *text, size_t n);

#endif
