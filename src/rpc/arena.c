#include "rpc/arena.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define FIRST_BYTES (16 << 10)

struct block {
    struct block *next;
    alignas(max_align_t) unsigned char bytes[];
};

struct arena {
    ProtobufCAllocator allocator;
    struct block *extra;
    size_t used;
    alignas(max_align_t) unsigned char first[FIRST_BYTES];
};

static void *take(void *ctx, size_t n)
{
    struct arena *a = ctx;
    size_t align = alignof(max_align_t);
    if (n > SIZE_MAX - sizeof(struct block) - align)
        return NULL;
    size_t rounded = (n + align - 1) / align * align;
    if (rounded <= FIRST_BYTES - a->used) {
        void *p = a->first + a->used;
        a->used += rounded;
        return p;
    }
    struct block *b = malloc(sizeof *b + n);
    if (b == NULL)
        return NULL;
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
    a->used = 0;
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
    a->used = 0;
}

void arena_free(struct arena *a)
{
    if (a == NULL)
        return;
    arena_reset(a);
    free(a);
}
