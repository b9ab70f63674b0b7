/*
 * The outstanding publishes of one confirm-mode channel, a ring over their tags. Tags count from 1
 * in publish order; confirms come in any order and for many at once (nack 3, nack 4, then ack 2
 * with `multiple`), so each tag has a slot of its own.
 *
 *   open      published, no answer yet
 *   closed    answered: returned (its confirm, still to come, says nothing more), confirmed or
 * nacked
 *
 * The ring spans from the oldest open tag to the newest. Pure.
 */
#ifndef HARBINGER_AMQP_CONFIRMS_H
#define HARBINGER_AMQP_CONFIRMS_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Outcomes. */
enum { CONFIRMS_NONE = 1, CONFIRMS_FULL = 2 };

struct confirm {
    void *cookie;
    uint64_t key; /* identifies its content, for returns */
    uint64_t bytes;
    bool open;
};

struct confirms {
    struct confirm *slots;
    uint32_t mask;
    uint32_t max_open;
    uint64_t max_bytes;
    uint64_t first, next; /* tags: the oldest that may be open, and the one to come */
    uint32_t n_open;
    uint64_t open_bytes;
};

/* Returns 0, ERR_INVALID (max_open 0 or over 2^24) or ERR_NOMEM. */
int confirms_init(struct confirms *c, uint32_t max_open, uint64_t max_bytes) MUST_CHECK;
void confirms_fini(struct confirms *c);
/* Forgets everything; the next tag is 1: a new channel. */
void confirms_reset(struct confirms *c);

/* A publish of that many bytes fits. The first always fits in bytes. */
bool confirms_has_room(const struct confirms *c, uint64_t bytes);
/* Adds a publish under the next tag. Returns 0 or CONFIRMS_FULL. */
int confirms_add(struct confirms *c, const struct confirm *what) MUST_CHECK;

/* Takes an open tag out: `tag` alone, or (multiple) the oldest up to it; tag 0 with multiple means
 * all. Returns 0 with *out, or CONFIRMS_NONE. For `multiple` call again until NONE; adding in
 * between is fine unless the tag is 0, which takes what was just added as well. */
int confirms_take(struct confirms *c, uint64_t tag, bool multiple, struct confirm *out) MUST_CHECK;
/* Takes the oldest open one with this key, or the only one there is. Returns 0 or CONFIRMS_NONE. */
int confirms_take_key(struct confirms *c, uint64_t key, struct confirm *out) MUST_CHECK;
/* A tag that was never given out: the broker is not talking about this channel. */
bool confirms_is_unknown(const struct confirms *c, uint64_t tag);
/* The oldest open tag; 0 when there is none. */
uint64_t confirms_oldest(const struct confirms *c);

#endif
