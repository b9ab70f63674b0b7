/*
 * The key under which a message's duration is learned: `producer`, or `producer 0x1F label`, and
 * with size bins one more part `0x1F s<n>`, n = floor(log2(size)) (paper 3.4 and 3.8;
 * docs/amqp.md, "Key").
 *
 * The producer is the first configured source that gives a usable text, else "-". The label
 * likewise, else none. A usable text is 1..128 bytes without control characters: so no producer can
 * write the separator and borrow another's history. A binned key always has three parts, the middle
 * one empty without a label; its parent is the key without the bin.
 *
 * Printed, the parts are percent-encoded and joined by '/': what stands in the header
 * x-harbinger-key and in reports.
 */
#ifndef HARBINGER_FLOW_KEY_H
#define HARBINGER_FLOW_KEY_H

#include "base/compiler.h"
#include "base/text.h"
#include "flow/job.h"

#include <stdbool.h>
#include <stddef.h>

#define KEY_MAX_BYTES   256
#define KEY_PART_BYTES  128
#define KEY_MAX_SOURCES 8
#define KEY_SEPARATOR   '\x1f'                  /* between the parts, not printed */
#define KEY_PRINT_BYTES (3 * KEY_MAX_BYTES + 1) /* with the terminating NUL */

enum key_source_kind { KEY_NONE, KEY_USER_ID, KEY_APP_ID, KEY_TYPE, KEY_BODY, KEY_HEADER };

struct key_source {
    enum key_source_kind kind;
    const char *header; /* KEY_HEADER: its name, borrowed */
};

struct key_rules {
    struct key_source producer[KEY_MAX_SOURCES], label[KEY_MAX_SOURCES];
    size_t n_producer, n_label;
    struct key_source size; /* KEY_NONE, KEY_BODY or KEY_HEADER */
};

struct key {
    size_t n;        /* bytes used; 0 = no valid key */
    size_t n_parent; /* the parent is raw[0..n_parent); 0 = it has none */
    char raw[KEY_MAX_BYTES];
};

/* The message's key, and its label ({NULL, 0} without one) as it came. `label` borrows from the job
 * or `scratch`. */
void key_of(const struct key_rules *rules, const struct job *job, struct key *out,
            struct text *label, char scratch[JOB_SCRATCH_BYTES]);

static inline struct text key_parent(const struct key *k)
{
    return (struct text){k->n_parent > 0 ? k->raw : NULL, k->n_parent};
}

/* Printed form, terminated; returns its length. An invalid key prints as "". */
size_t key_print(const struct key *k, char out[KEY_PRINT_BYTES]);

/* Reads a printed key. 0, or ERR_INVALID when it is none (empty, too long, bad escape, over three
 * parts). */
int key_parse(struct text printed, struct key *out) MUST_CHECK;

#endif
