/*
 * How the last attempts ended, by token, so that a settlement that is sent again is told from one
 * that comes too late. A ring in order of time with chained buckets over it; all memory is taken at
 * the start.
 */
#ifndef HARBINGER_BROKER_HISTORY_H
#define HARBINGER_BROKER_HISTORY_H

#include "base/compiler.h"
#include "base/mono.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum history_ending { HISTORY_ACKED, HISTORY_NACKED, HISTORY_REJECTED, HISTORY_EXPIRED };

struct history_entry {
    uint64_t token, id, consumer;
    mono_t ended_at;
    uint32_t next; /* older entry of the same bucket: its place + 1, 0 = none */
    uint32_t ending;
};

struct history {
    struct history_entry *ring;
    uint32_t *buckets; /* the newest entry's place + 1, 0 = empty */
    uint32_t capacity, first, n;
    unsigned bucket_bits;
    mono_t kept_for;
};

/* Remembers at most `capacity` (1..2^24) endings, each for `kept_for`. False when memory is short.
 */
bool history_init(struct history *h, uint32_t capacity, mono_t kept_for) MUST_CHECK;
void history_fini(struct history *h);

/* A full history forgets the oldest entry. The token must be new. */
void history_add(struct history *h, const struct history_entry *e);

/* NULL when nothing is remembered of this token. Forgets a few entries that are too old. */
const struct history_entry *history_find(struct history *h, uint64_t token, mono_t now);

/* Forgets at most `limit` entries that are too old. */
void history_prune(struct history *h, mono_t now, uint32_t limit);

const char *history_check(const struct history *h);

#endif
