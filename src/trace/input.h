/*
 * Bytes from a file, a pipe or memory, through a window that slides over them. Gzip (also several
 * members in a row) is recognised by its first bytes and unpacked on the way; other archives are
 * refused by their name. Memory is fixed, whatever the input.
 */
#ifndef HARBINGER_TRACE_INPUT_H
#define HARBINGER_TRACE_INPUT_H

#include "base/compiler.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* The most that input_ahead can be asked for. */
enum { INPUT_AHEAD_MAX = 128 * 1024 };

struct input;

/* "-" is standard input. 0 with *out, or negative: ERR_SYSTEM (*e names the file), ERR_NOMEM,
 * ERR_INVALID (an archive that is not gzip), ERR_CORRUPT (damaged gzip). */
int input_open(struct input **out, const char *path, struct err *e) MUST_CHECK;
/* Borrows the bytes until input_close. */
int input_open_bytes(struct input **out, const char *name, const void *bytes, size_t n,
                     struct err *e) MUST_CHECK;
void input_close(struct input *in);

/* Sets *p to the unread bytes and returns how many there are: at least `n`, unless the end comes
 * first. They are valid until the next call. Negative: ERR_SYSTEM, ERR_CORRUPT (gzip cut off or
 * damaged), *e naming the file. */
int64_t input_ahead(struct input *in, size_t n, const uint8_t **p, struct err *e) MUST_CHECK;

/* Takes `n` bytes off, which input_ahead has shown. */
void input_skip(struct input *in, size_t n);

/* How many (unpacked) bytes have been taken off. */
uint64_t input_offset(const struct input *in);
/* As it was given; "standard input" for "-". */
const char *input_name(const struct input *in);

/* Back to the first byte. ERR_INVALID for a pipe, ERR_SYSTEM. */
int input_rewind(struct input *in, struct err *e) MUST_CHECK;

#endif
