/* Text to numbers, strictly: the whole text must be the number. No locale, no sign unless stated.
 */
#ifndef HARBINGER_BASE_NUM_H
#define HARBINGER_BASE_NUM_H

#include "base/compiler.h"
#include "base/mono.h"

#include <stddef.h>
#include <stdint.h>

/* Each returns 0, or ERR_INVALID (not of that form) with *out unchanged; a value out of the type's
 * range is of no valid form. `text` need not be terminated. */
int num_parse_u64(const char *text, size_t n, uint64_t *out) MUST_CHECK;
int num_parse_i64(const char *text, size_t n, int64_t *out) MUST_CHECK;
/* Decimal with optional sign, fraction and exponent, at most 64 characters; finite only. */
int num_parse_double(const char *text, size_t n, double *out) MUST_CHECK;
/* An integer or decimal and a unit: ns, us, ms, s, min, h, d. "0" needs none. At most 365 days. */
int num_parse_duration(const char *text, size_t n, mono_t *out_ns) MUST_CHECK;
/* An integer and a unit: B, KiB, MiB, GiB (and kB, MB, GB: powers of 1000). "0" needs none. */
int num_parse_size(const char *text, size_t n, uint64_t *out_bytes) MUST_CHECK;

/* The shortest exact text of these forms ("90s" rather than "1.5min"); NUL-terminated. Cut if
 * `size` is short; 32 bytes always suffice. */
void num_format_duration(mono_t ns, char *out, size_t size);
void num_format_size(uint64_t bytes, char *out, size_t size);

/* The shortest decimal that reads back as the same double; "inf", "-inf", "nan" for what is not
 * finite. */
void num_format_double(double v, char *out, size_t size);

#endif
