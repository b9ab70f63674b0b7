#include "amqp/backoff.h"

#define PROVEN_FOR (5 * MONO_S)

void backoff_init(struct backoff *b, mono_t min_for, mono_t max_for)
{
    *b = (struct backoff){.min_for = min_for, .max_for = max_for, .up_at = MONO_NEVER};
}

void backoff_up(struct backoff *b, mono_t now)
{
    b->up_at = now;
}

mono_t backoff_down(struct backoff *b, mono_t now, double unit)
{
    if (b->up_at != MONO_NEVER && now - b->up_at >= PROVEN_FOR)
        b->n_failures = 0;
    b->up_at = MONO_NEVER;

    mono_t delay = b->min_for;
    for (unsigned i = 0; i < b->n_failures && delay < b->max_for; i++)
        delay = delay > b->max_for / 2 ? b->max_for : delay * 2;
    if (delay < b->max_for)
        b->n_failures++;
    else
        delay = b->max_for;
    mono_t half = delay / 2;
    return half + (mono_t)((double)(delay - half) * unit);
}
