/* The arguments of a method, read in order where they lie. What is missing reads as 0 or empty and
 * sets `cut`: such a method is forwarded as it is, and RabbitMQ says what is wrong with it. */
#ifndef HARBINGER_PROXY_ARGS_H
#define HARBINGER_PROXY_ARGS_H

#include "amqp/wire.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct args {
    char *p; /* the next argument */
    size_t n;
    bool cut;
};

/* The next `n` bytes; NULL when there are fewer. */
static inline char *args_take(struct args *a, size_t n)
{
    if (a->cut || a->n < n) {
        a->cut = true;
        return NULL;
    }
    char *p = a->p;
    a->p += n;
    a->n -= n;
    return p;
}

static inline uint8_t args_u8(struct args *a)
{
    const char *p = args_take(a, 1);
    return p != NULL ? (uint8_t)p[0] : 0;
}

static inline uint16_t args_u16(struct args *a)
{
    const char *p = args_take(a, 2);
    return p != NULL ? wire_get16(p) : 0;
}

static inline uint32_t args_u32(struct args *a)
{
    const char *p = args_take(a, 4);
    return p != NULL ? wire_get32(p) : 0;
}

static inline uint64_t args_u64(struct args *a)
{
    const char *p = args_take(a, 8);
    return p != NULL ? wire_get64(p) : 0;
}

static inline struct text args_text(struct args *a, size_t n)
{
    const char *p = args_take(a, n);
    return (struct text){p, p != NULL ? n : 0};
}

static inline struct text args_short(struct args *a)
{
    return args_text(a, args_u8(a));
}

static inline struct text args_long(struct args *a)
{
    return args_text(a, args_u32(a));
}

#endif
