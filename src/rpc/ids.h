/*
 * Ids as text: messages and attempt tokens are `<instance>-<number>` (hexadecimal, decimal), clients
 * are `producer-<n>` and `consumer-<n>` with n from 0.
 */
#ifndef HARBINGER_RPC_IDS_H
#define HARBINGER_RPC_IDS_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define IDS_BYTES     40  /* with the terminating NUL */
#define IDS_TOKEN_MAX 128 /* bytes of a token that may be well-formed */

/* Returns the length. */
size_t ids_print(uint64_t instance, uint64_t number, char out[IDS_BYTES]);

/* The number; 0 when the text is none of this instance's: nothing has that number. */
uint64_t ids_parse(uint64_t instance, struct text id);

/* 1 to 128 ASCII letters, digits and '-'. */
bool ids_token_is_well_formed(struct text token);

/* The number after `prefix`, which must be below `n`; false otherwise. */
bool ids_client(struct text id, const char *prefix, uint64_t n, uint64_t *out);

#endif
