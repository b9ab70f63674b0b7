/*
 * One entry of an AMQP field table, read where it lies. Shared by the codec (tables inside methods)
 * and props.h (the header table of a message). Nested tables and arrays are one value each, skipped
 * by their length.
 */
#ifndef HARBINGER_AMQP_HEADER_H
#define HARBINGER_AMQP_HEADER_H

#include "base/compiler.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* One entry of a header table. `value` is the content without its length prefix for S, x, A and F,
 * and the bare bytes for all other types, so that an entry that was read can be added again under
 * another name. */
struct header {
    struct text name;
    char type; /* t b B s u I i l L f d D S A T F V x */
    struct text value;
};

/* Outcomes of header_next. */
enum { HEADER_END = 1 };

/* Reads the entry at *at of a table's content (an array's has no names: `named` false) and moves
 * *at behind it. Returns 0; HEADER_END; ERR_PROTOCOL when the rest cannot be read (cut, or an
 * unknown type). */
int header_next(struct text table, bool named, size_t *at, struct header *out) MUST_CHECK;

/* How the value of a type is laid out: its bytes, or -1 with a 4-byte length before it, or -2 for
 * an unknown type. */
int header_width(char type);

/* A header's number: all integer types, booleans, timestamps, floats and decimals. False for other
 * types. */
bool header_number(const struct header *h, double *out) MUST_CHECK;

#define HEADER_SCRATCH_BYTES 32

/* A header's value as text: a text as it is; a number in decimal, exactly, and as short as it reads
 * back the same (written into `scratch`), booleans as 1 and 0. Absent for other types. */
struct text header_value(const struct header *h, char scratch[HEADER_SCRATCH_BYTES]);

/* Writes a header's value for a person: text as it is, numbers in decimal, the rest as "(table)",
 * "(array)", "(void)". Always terminated, cut if `size` is short. */
void header_print(const struct header *h, char *out, size_t size);

/* A header to add, of type S. */
static inline struct header header_text(const char *name, struct text value)
{
    return (struct header){text_of(name), 'S', value};
}

#endif
