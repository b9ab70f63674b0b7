/* What the sessions of one server share. */
#ifndef HARBINGER_PROXY_WORLD_H
#define HARBINGER_PROXY_WORLD_H

#include "base/list.h"
#include "base/mono.h"
#include "proxy/runtimes.h"
#include "proxy/server.h"
#include "proxy/service.h"

#include <stdbool.h>
#include <stdint.h>

struct world {
    struct proxy_options options; /* with the defaults filled in */
    struct proxy_station station;
    struct proxy_stats stats;
    mono_t now;        /* of this turn: whoever calls a session sets it first */
    struct list ready; /* proxy_consumer.ready: who could take a message, the next one first */
    struct list
        returning; /* chan.returning: who has returned something, the first to be decided first */
    struct list dirty; /* session.dirty: who has something to be sent, or an end to come to */
    uint64_t n_numbers;
    struct runtimes runtimes;
    bool used; /* the station was, in this turn */
    bool shut;
};

void world_init(struct world *w, const struct proxy_options *o, const struct proxy_station *s);
void world_fini(struct world *w);

/* Another number for the station: see proxy_station.pull. */
uint64_t world_number(struct world *w);

/* Gives waiting messages to those who are ready, in turn. True when more could be done at once: so
 * many were given that others should have their turn now. */
bool world_pump(struct world *w);

/* Decides what was returned long enough ago. The time of the next decision; MONO_NEVER. */
mono_t world_end_returns(struct world *w);

#endif
