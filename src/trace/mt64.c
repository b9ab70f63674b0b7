#include "trace/mt64.h"

#include <math.h>

enum { MIDDLE = 156 };

static const uint64_t upper = UINT64_C(0xffffffff80000000), lower = UINT64_C(0x7fffffff);

void mt64_seed(struct mt64 *r, uint64_t seed)
{
    r->state[0] = seed;
    for (uint64_t i = 1; i < MT64_WORDS; i++) {
        uint64_t x = r->state[i - 1] ^ (r->state[i - 1] >> 62);
        r->state[i] = UINT64_C(6364136223846793005) * x + i;
    }
    r->at = MT64_WORDS;
}

static void refill(struct mt64 *r)
{
    uint64_t *s = r->state;
    for (int i = 0; i < MT64_WORDS; i++) {
        uint64_t x = (s[i] & upper) | (s[(i + 1) % MT64_WORDS] & lower);
        uint64_t twist = (x & 1) != 0 ? UINT64_C(0xb5026f5aa96619e9) : 0;
        s[i] = s[(i + MIDDLE) % MT64_WORDS] ^ (x >> 1) ^ twist;
    }
    r->at = 0;
}

uint64_t mt64_next(struct mt64 *r)
{
    if (r->at == MT64_WORDS)
        refill(r);
    uint64_t x = r->state[r->at++];
    x ^= (x >> 29) & UINT64_C(0x5555555555555555);
    x ^= (x << 17) & UINT64_C(0x71d67fffeda60000);
    x ^= (x << 37) & UINT64_C(0xfff7eee000000000);
    return x ^ (x >> 43);
}

double mt64_unit(struct mt64 *r)
{
    double u = (double)mt64_next(r) * 0x1.0p-64;
    return u < 1 ? u : 0x1.fffffffffffffp-1;
}

double mt64_exponential(struct mt64 *r, double rate)
{
    return -log(1 - mt64_unit(r)) / rate;
}

double mt64_normal(struct mt64 *r)
{
    double x, y, r2;
    do {
        x = 2 * mt64_unit(r) - 1;
        y = 2 * mt64_unit(r) - 1;
        r2 = x * x + y * y;
    } while (r2 > 1 || r2 == 0);
    return y * sqrt(-2 * log(r2) / r2);
}

double mt64_lognormal(struct mt64 *r, double median, double sigma)
{
    return exp(sigma * mt64_normal(r) + log(median));
}

uint64_t mt64_mix(uint64_t x)
{
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}
