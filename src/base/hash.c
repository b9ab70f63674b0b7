#include "base/hash.h"

#include <string.h>

/* State and rounds as in Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), c = 1, d
 * = 3. */
struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t x, int b)
{
    return (x << b) | (x >> (64 - b));
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v2 = rotl(s->v2, 32);
}

/* Words are taken in the machine's byte order: the value never leaves the process. */
uint64_t hash_bytes(const struct hash_seed *seed, const void *data, size_t n)
{
    struct sip s = {
        .v0 = seed->k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = seed->k1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = seed->k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = seed->k1 ^ UINT64_C(0x7465646279746573),
    };
    const unsigned char *p = data;
    size_t left = n;
    for (; left >= 8; p += 8, left -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        s.v3 ^= word;
        sip_round(&s);
        s.v0 ^= word;
    }
    unsigned char tail[8] = {0};
    if (left > 0)
        memcpy(tail, p, left);
    tail[7] = (unsigned char)n;
    uint64_t last;
    memcpy(&last, tail, 8);
    s.v3 ^= last;
    sip_round(&s);
    s.v0 ^= last;

    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
