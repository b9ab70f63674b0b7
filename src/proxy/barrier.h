/*
 * Acks that wait for what their channel has published.
 *
 * On RabbitMQ's own channels an ack means that the publishes before it have arrived. Ours take a
 * shorter way than the publish; a crash in between would lose the job's result. So after a publish
 * an ack waits until RabbitMQ has answered a channel.flow that was sent behind it: methods of one
 * channel are handled in order.
 *
 *   publish ─► ack comes: held, flow sent ─► flow-ok: settled
 *
 * What is held while a flow is under way goes with the next one, if its channel published again
 * since. Held deliveries count as unsettled, so their number is that of the channel's window.
 */
#ifndef HARBINGER_PROXY_BARRIER_H
#define HARBINGER_PROXY_BARRIER_H

#include "base/compiler.h"
#include "proxy/service.h"

#include <stdbool.h>
#include <stddef.h>

struct proxy_consumer;

struct barrier_held {
    struct proxy_settlement settlement;
    struct proxy_consumer *consumer; /* NULL for basic.get */
};

/* Zeroed: nothing published, nothing held. */
struct barrier {
    bool published;  /* since the latest flow was sent */
    bool under_way;  /* a flow of ours is not answered */
    unsigned others; /* flows of the client that are answered before ours */
    unsigned theirs; /* all that are not answered */
    struct barrier_held *v;
    size_t first, n, cap; /* v[first..first + n) */
    size_t n_covered;     /* the first ones, by the flow that is under way */
};

void barrier_fini(struct barrier *b);

/* Whether an ack has to be held now. */
bool barrier_holds(const struct barrier *b);
int barrier_hold(struct barrier *b, const struct barrier_held *held) MUST_CHECK;

/* Whether a flow is to be sent; and that it was. */
bool barrier_wants_flow(const struct barrier *b);
void barrier_flow_sent(struct barrier *b);

/* The client has sent a flow of its own. */
void barrier_flow_of_client(struct barrier *b);
/* A flow-ok has come: true when it is the answer to ours, which the client must not see. */
bool barrier_flow_ok(struct barrier *b);

/* The next one that may be settled; false when there is none. */
bool barrier_next(struct barrier *b, struct barrier_held *out);
/* Ends the wait: what is held may be settled, all of it. */
void barrier_open(struct barrier *b);

#endif
