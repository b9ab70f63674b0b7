/*
 * How long to wait before the next attempt: doubling from min to max, of which the second half is
 * random, so that many clients of one broker do not come back at once. What was up for a while
 * starts over; what fails right after coming up does not, or it would spin.
 */
#ifndef HARBINGER_AMQP_BACKOFF_H
#define HARBINGER_AMQP_BACKOFF_H

#include "base/mono.h"

struct backoff {
    mono_t min_for, max_for;
    unsigned n_failures;
    mono_t up_at; /* MONO_NEVER while down */
};

void backoff_init(struct backoff *b, mono_t min_for, mono_t max_for);
void backoff_up(struct backoff *b, mono_t now);
/* A failure or the end of an up time. `unit` is random in [0, 1). Returns the delay, in [d/2, d) of
 * d = min * 2^failures, at most max. An up time of at least 5 s has reset the failures first. */
mono_t backoff_down(struct backoff *b, mono_t now, double unit);

#endif
