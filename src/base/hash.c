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

/* The bytes after the last whole word, and the length. One load that ends with the data takes the
 * place of a copy of unknown length, which costs as much as all the rounds. */
static inline uint64_t last_word(const unsigned char *data, size_t n)
{
    uint64_t word = 0, left = n % 8;
    if (n > 8 && left > 0) {
        memcpy(&word, data + n - 8, 8);
        word >>= 8 * (8 - left);
    } else {
        for (size_t i = 0; i < left; i++)
            word |= (uint64_t)data[n - left + i] << (8 * i);
    }
    return word | (uint64_t)n << 56;
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
    uint64_t last = last_word(data, n);
    s.v3 ^= last;
    sip_round(&s);
    s.v0 ^= last;

    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
