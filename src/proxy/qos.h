/*
 * How much a worker may have unsettled. It asks by prefetch; a clamp bounds what it gets, since a
 * prefetch above what it works on at once hides how long each job takes and binds short jobs behind
 * long ones.
 *
 * A client that raises its prefetch later does so because it keeps messages for later (Celery does
 * by one for each task with an ETA, and lowers it again): the clamp rises as much, or else it would
 * wait for ever.
 */
#ifndef HARBINGER_PROXY_QOS_H
#define HARBINGER_PROXY_QOS_H

#include <stdbool.h>
#include <stdint.h>

#define QOS_NO_LIMIT UINT32_MAX

struct qos {
    bool said;
    uint32_t asked; /* 0: no limit */
    uint32_t extra; /* what it was raised by since */
};

static inline void qos_ask(struct qos *q, uint16_t count)
{
    if (!q->said || q->asked == 0 || count == 0)
        q->extra = 0;
    else if (count > q->asked)
        q->extra += count - q->asked;
    else
        q->extra -= q->asked - count < q->extra ? q->asked - count : q->extra;
    q->said = true;
    q->asked = count;
}

/* `otherwise` where no limit was asked for; `clamp` 0 = none. */
static inline uint32_t qos_window(const struct qos *q, uint32_t otherwise, uint32_t clamp)
{
    uint32_t window = q->asked > 0 ? q->asked : otherwise;
    if (clamp == 0 || window <= clamp)
        return window;
    return window - clamp > q->extra ? clamp + q->extra : window;
}

#endif
