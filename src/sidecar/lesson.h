/*
 * What a message's duration would teach, as bytes: for durations that are known only when the message
 * is gone. Of this process alone.
 */
#ifndef HARBINGER_SIDECAR_LESSON_H
#define HARBINGER_SIDECAR_LESSON_H

#include "base/compiler.h"
#include "base/text.h"

#include <harbinger/broker.h>

#include <stdbool.h>
#include <stddef.h>

enum { LESSON_BYTES = 16 + HB_KEY_MAX };

/* How many bytes it takes; 0 without a key. */
size_t lesson_pack(const struct hb_lesson *l, char out[LESSON_BYTES]);
/* Its key and parent are views into `packed`. False when those bytes are no lesson. */
bool lesson_unpack(struct text packed, struct hb_lesson *out) MUST_CHECK;

#endif
