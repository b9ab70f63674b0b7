/*
 * Deliveries whose tag is void: their channel was lost, or they were given back to RabbitMQ so that
 * their time starts anew. RabbitMQ delivers them again, and they are recognised by what they are: a
 * digest over address, properties and body, without what a redelivery adds to it. Messages with the
 * same digest are interchangeable: each acknowledgement stands for one of them that was handled.
 *
 * A delivery can be settled while it is here. Then its message is freed, and how it was settled is
 * kept until RabbitMQ delivers it again.
 */
#ifndef HARBINGER_SIDECAR_UNBACKED_H
#define HARBINGER_SIDECAR_UNBACKED_H

#include "base/compiler.h"
#include "base/hash.h"
#include "base/list.h"
#include "sidecar/held.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unbacked {
    struct hash_seed seed;
    struct list *buckets;
    struct list order; /* by `since`, the oldest first */
    size_t n;
};

/* The seed is random. 0 or ERR_NOMEM. */
int unbacked_init(struct unbacked *u, const struct hash_seed *seed) MUST_CHECK;
/* It must be empty. Nothing for a zeroed one. */
void unbacked_fini(struct unbacked *u);

/* The delivery, which is in no list of tagged ones any more, joins; h->since is set. */
void unbacked_add(struct unbacked *u, struct held *h, mono_t now);
void unbacked_remove(struct unbacked *u, struct held *h);
/* As if it had joined just now. */
void unbacked_touch(struct unbacked *u, struct held *h, mono_t now);

/* The oldest that `m` is again, and takes it out; NULL when there is none. `redelivered`: RabbitMQ
 * says that it has delivered `m` before; else it is only taken for one that `is_untouched`, so that
 * a new message is never settled by work that was begun before it came. */
struct held *unbacked_take(struct unbacked *u, const struct message *m, bool redelivered,
                           bool (*is_untouched)(const struct held *h));

/* NULL when it is empty. */
struct held *unbacked_oldest(struct unbacked *u);

#endif
