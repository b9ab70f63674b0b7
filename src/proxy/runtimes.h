/*
 * Durations from Celery's own events. A worker that sends events (`celery worker -E`) publishes
 * task-succeeded, with the task's id and its `runtime`, through the proxy; here that is joined to
 * the delivery. It is the better number: it is right also for workers that acknowledge before the
 * work, and for those that prefetch.
 *
 * Remembered are the latest deliveries, in one table of fixed size: a newer one takes the place of an
 * older one, which costs a lesson, nothing else.
 */
#ifndef HARBINGER_PROXY_RUNTIMES_H
#define HARBINGER_PROXY_RUNTIMES_H

#include "base/hash.h"
#include "base/mono.h"
#include "base/text.h"
#include "proxy/service.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    RUNTIMES_MAX = 8192,
    RUNTIMES_EVENT_BYTES = 256 << 10, /* larger ones are not read */
};

#define RUNTIMES_BELIEVED_FOR (60 * MONO_S) /* after an event that told of a delivery */

struct runtimes_entry;

/* Zeroed but for the seed: empty. */
struct runtimes {
    struct hash_seed seed;
    struct runtimes_entry *v; /* RUNTIMES_MAX; NULL until one is needed */
    mono_t believed_until;    /* workers send events: times to acks of tasks are not wanted */
};

void runtimes_fini(struct runtimes *r);

/* True when the delivery has a task's id and a lesson, and is remembered. */
bool runtimes_remember(struct runtimes *r, const struct proxy_delivery *d);

/* Whether the content that is published there are events of finished tasks. */
bool runtimes_are_events(struct text exchange, struct text routing_key);

/* Reads one or a list of them; returns how many told the runtime of a delivery, which the station has
 * been taught then. What is no event is passed over. */
unsigned runtimes_read(struct runtimes *r, struct text json, mono_t now,
                       const struct proxy_station *station);

#endif
