/* Big-endian integers in a byte stream, at any alignment. The caller has checked the length. */
#ifndef HARBINGER_AMQP_WIRE_H
#define HARBINGER_AMQP_WIRE_H

#include <stdint.h>

static inline uint16_t wire_get16(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint16_t)(b[0] << 8 | b[1]);
}

static inline uint32_t wire_get32(const char *p)
{
    return (uint32_t)wire_get16(p) << 16 | wire_get16(p + 2);
}

static inline uint64_t wire_get64(const char *p)
{
    return (uint64_t)wire_get32(p) << 32 | wire_get32(p + 4);
}

static inline void wire_put16(char *p, uint16_t v)
{
    p[0] = (char)(v >> 8);
    p[1] = (char)v;
}

static inline void wire_put32(char *p, uint32_t v)
{
    wire_put16(p, (uint16_t)(v >> 16));
    wire_put16(p + 2, (uint16_t)v);
}

static inline void wire_put64(char *p, uint64_t v)
{
    wire_put32(p, (uint32_t)(v >> 32));
    wire_put32(p + 4, (uint32_t)v);
}

#endif
