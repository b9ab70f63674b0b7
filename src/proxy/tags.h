/*
 * The unsettled deliveries of one channel in the order of their tags. Its client numbers what it
 * gets from RabbitMQ and from us in one row; here is which is which.
 *
 * Only what is unsettled takes room, however long the oldest stays: appends and removals are
 * amortised O(1), a search is O(log n).
 */
#ifndef HARBINGER_PROXY_TAGS_H
#define HARBINGER_PROXY_TAGS_H

#include "base/compiler.h"
#include "base/mono.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy_consumer;

enum tag_kind {
    TAG_GONE,
    TAG_OURS,
    TAG_UPSTREAM,
    TAG_RETURNED, /* ours, and settled as the client sees it: how it ends is not decided yet */
};

struct tag {
    enum tag_kind kind;
    uint64_t client;                 /* as the client knows it */
    uint64_t id;                     /* ours: the message's; else RabbitMQ's tag */
    uint64_t token;                  /* ours only */
    mono_t at;                       /* delivered; returned */
    bool evented;                    /* ours only: runtimes.h remembers it */
    struct proxy_consumer *consumer; /* NULL: it was asked for by basic.get */
};

/* Zeroed = empty. */
struct tags {
    struct tag *v;
    size_t first, end; /* v[first..end); neither the first nor the last is TAG_GONE */
    size_t cap, n_live;
};

enum { TAGS_MAX = 1 << 20 }; /* unsettled ones */

void tags_fini(struct tags *t);

/* Appends; `new.client` must be above all before. 0; ERR_NOMEM; ERR_INVALID at TAGS_MAX. */
int tags_append(struct tags *t, const struct tag *new) MUST_CHECK;
/* The one that the client may settle; NULL when there is none. Valid until the next append. */
struct tag *tags_find(struct tags *t, uint64_t client);
/* The oldest one that it may, of those from `client` on; NULL. */
struct tag *tags_from(struct tags *t, uint64_t client);
struct tag *tags_returned_from(struct tags *t, uint64_t client);
/* Of any kind; NULL. */
struct tag *tags_oldest(struct tags *t);
struct tag *tags_newest(struct tags *t);
/* The newest of a kind up to `client`; NULL. */
struct tag *tags_newest_of(struct tags *t, enum tag_kind kind, uint64_t client);
void tags_remove(struct tags *t, struct tag *tag);

#endif
