/* A gRPC server with a broker and one connection to it, for the fuzz targets. The time stands still
 * but for rpc_world_pass. All of the world is made anew for each input. */
#ifndef HARBINGER_TESTS_FUZZ_RPC_WORLD_H
#define HARBINGER_TESTS_FUZZ_RPC_WORLD_H

#include "rpc/rpc_internal.h"

struct rpc_world {
    struct rpc_server *server;
    struct hb_broker *broker;
    mono_t now;
    int client; /* our end of the connection; -1: closed */
    bool draining, deaf;
};

void rpc_world_init(struct rpc_world *w);
/* Whatever happened, nothing is left of the connection and nothing is lost. */
void rpc_world_fini(struct rpc_world *w);

/* The client sends it; the server does all that follows from it. With w->deaf nobody reads what it
 * answers. */
void rpc_world_feed(struct rpc_world *w, const void *data, size_t n);
void rpc_world_pass(struct rpc_world *w, mono_t time);

void must(bool holds);

#endif
