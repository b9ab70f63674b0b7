/*
 * The one place that finds rabbitmq-c's headers: they moved in 0.12.
 *
 * The library is used as a codec of single methods only (amqp_encode_method, amqp_decode_method).
 * None of its sockets, connection states or buffers are: its calls block, and its content decoder
 * recurses on nested tables.
 */
#ifndef HARBINGER_AMQP_LIB_H
#define HARBINGER_AMQP_LIB_H

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#endif

#include "base/text.h"

/* A view of the same bytes; rabbitmq-c's type is not const, but encoding only reads. */
static inline amqp_bytes_t lib_bytes(struct text t)
{
    union {
        const char *in;
        void *out;
    } p = {.in = t.p};
    return (amqp_bytes_t){.len = t.n, .bytes = p.out};
}

static inline struct text lib_text(amqp_bytes_t b)
{
    return (struct text){b.len > 0 ? b.bytes : "", b.len};
}

#endif
