#include "rpc/arena.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define FIRST_BYTES (16 << 10)
#define MOST_BYTES  (64 << 20) /* two bytes of a request can ask for a hundred */

struct block {
    struct block *next;
    alignas(max_align_t) unsigned char bytes[];
};

struct arena {
    ProtobufCAllocator allocator;
    struct block *extra;
    size_t extra_bytes;
    size_t used;
    alignas(max_align_t) unsigned char first[FIRST_BYTES];
};

static void *take(void *ctx, size_t n)
{
    struct arena *a = ctx;
    size_t align = alignof(max_align_t);
    if (n > MOST_BYTES)
        return NULL;
    size_t rounded = (n + align - 1) / align * align;
    if (rounded <= FIRST_BYTES - a->used) {
        void *p = a->first + a->used;
        a->used += rounded;
        return p;
    }
    struct block *b = n <= MOST_BYTES - a->extra_bytes ? malloc(sizeof *b + n) : NULL;
    if (b == NULL)
        return NULL;
    a->extra_bytes += n;
    b->next = a->extra;
    a->extra = b;
    return b->bytes;
}

static void leave(void *ctx, void *p)
{
}

struct arena *arena_new(void)
{
    struct arena *a = malloc(sizeof *a);
    if (a == NULL)
        return NULL;
    a->allocator = (ProtobufCAllocator){take, leave, a};
    a->extra = NULL;
    a->extra_bytes = a->used = 0;
    return a;
}

ProtobufCAllocator *arena_allocator(struct arena *a)
{
    return &a->allocator;
}

void arena_reset(struct arena *a)
{
    while (a->extra != NULL) {
        struct block *next = a->extra->next;
        free(a->extra);
        a->extra = next;
    }
    a->extra_bytes = a->used = 0;
}

void arena_free(struct arena *a)
{
    if (a == NULL)
        return;
    arena_reset(a);
    free(a);
}
