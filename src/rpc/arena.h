/*
 * Memory for one decoded request: protobuf-c allocates each field by itself, and all of it is
 * dropped at once when the request is handled. The first block is kept; a larger request gets
 * further ones, which are freed.
 */
#ifndef HARBINGER_RPC_ARENA_H
#define HARBINGER_RPC_ARENA_H

#include <protobuf-c/protobuf-c.h>

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *a);

/* What protobuf_c_message_unpack takes; valid as long as the arena. Freeing does nothing. */
ProtobufCAllocator *arena_allocator(struct arena *a);

/* Drops everything. */
void arena_reset(struct arena *a);

#endif
