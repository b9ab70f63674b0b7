/*
 * Protobuf by hand, for what is on every message's way: a header is kept in its wire form, so that
 * a delivery splices it. All other messages go through protobuf-c.
 */
#ifndef HARBINGER_RPC_PB_H
#define HARBINGER_RPC_PB_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* Field numbers and types as a tag byte; numbers up to 15. */
#define PB_VARINT(field) ((uint8_t)((field) << 3 | 0))
#define PB_BYTES(field)  ((uint8_t)((field) << 3 | 2))

/* The field of the headers in SubmitRequest, PulledMessage and DlqEntry alike. */
#define PB_HEADERS_TAG PB_BYTES(3)

size_t pb_varint_bytes(uint64_t v);
uint8_t *pb_put_varint(uint8_t *p, uint64_t v);
/* Tag, length and bytes of one field. */
size_t pb_field_bytes(size_t n);
uint8_t *pb_put_field(uint8_t *p, uint8_t tag, const void *data, size_t n);

/* The next field of a message. */
enum { PB_TYPE_VARINT = 0, PB_TYPE_FIXED64 = 1, PB_TYPE_BYTES = 2, PB_TYPE_FIXED32 = 5 };
struct pb_field {
    uint32_t number, type;
    uint64_t value;    /* of PB_TYPE_VARINT */
    struct text bytes; /* of all others; a part of the message */
};
enum pb_next { PB_FIELD, PB_END, PB_BAD };
enum pb_next pb_next_field(struct text *rest, struct pb_field *out) MUST_CHECK;

/* Replaces each byte that belongs to no valid UTF-8 sequence by '?'. */
void pb_make_utf8(char *p, size_t n);

/* One header of a run of them: advances *rest; false at the end (or at what is no header). */
bool pb_next_header(struct text *rest, struct text *name, struct text *value);

#endif
