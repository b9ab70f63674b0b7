/* What the intake's files share: intake.c takes and settles, intake_keep.c is about deliveries that
 * outlive their tags. */
#ifndef HARBINGER_SIDECAR_INTAKE_INTERNAL_H
#define HARBINGER_SIDECAR_INTAKE_INTERNAL_H

#include "sidecar/intake.h"
#include "sidecar/unbacked.h"

#include <event2/event.h>

struct intake_channel {
    struct intake *intake;
    struct consumer *consumer;
    struct list tagged; /* held with a tag of this channel, the oldest tag first */
    uint64_t downs;     /* times its consumer was lost */
    bool lost;          /* not up since */
    mono_t up_at;       /* after a loss */
};

struct intake {
    struct intake_options options;
    struct intake_channel *channels; /* options.channels of them */
    struct list waiting;             /* struct held: not yet taken by the sink, oldest first */
    struct intake_stats stats;
    bool draining;
    bool paused_for_bytes;
    uint32_t n_accepted; /* deliveries since the last refusal, or the last growth */
    uint32_t limit;      /* whole channels; stats.prefetch is less when bytes say so, and more after
                            a loss */

    struct unbacked unbacked;
    struct event *timer;    /* with a sink that keeps its messages */
    mono_t renew_after;     /* 0: never */
    bool counts_deliveries; /* a quorum queue: each renewal would count against its limit */
};

static inline struct intake *intake_of(const struct held *h)
{
    return h->channel->intake;
}

static inline bool intake_keeps(const struct intake *i)
{
    return i->options.sink.waits != NULL;
}

static inline uint32_t intake_whole_window(const struct intake_options *o)
{
    return o->channels * (uint32_t)o->window;
}

static inline bool intake_sleeps(const struct intake *i)
{
    return i->limit == 0;
}

/* intake.c */

/* Sends one settlement. */
void intake_settle_tag(struct intake_channel *c, struct consumer_tag tag, enum held_settlement how);
/* Out of every list, counted out, freed. */
void intake_forget(struct held *h);
/* Consumes again although bytes are held. */
void intake_unpause(struct intake *i);
/* The same, with a prefetch that what is awaited fits into beside what is held. */
void intake_make_room(struct intake *i);
void intake_tell_if_idle(struct intake *i);
/* A channel's part of the prefetch: the first ones have a window each, the others have none. */
uint16_t intake_share(const struct intake *i, const struct intake_channel *c);

/* intake_keep.c */

/* 0 or ERR_NOMEM. */
int intake_keep_init(struct intake *i, struct link *l) MUST_CHECK;
void intake_keep_fini(struct intake *i);

/* A channel is gone: what it delivered is awaited again. */
void intake_keep_all(struct intake_channel *c);
/* Settled while its tag is void. */
void intake_keep_settlement(struct held *h, enum held_settlement how);
/* True: the delivery is one that was awaited; it has its tag, and `m` is freed. */
bool intake_recognise(struct intake_channel *c, struct consumer_tag tag, bool redelivered,
                      struct message *m);

#endif
