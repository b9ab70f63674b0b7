#include "lab/mt19937.h"

enum { N = 624, M = 397 };

static uint32_t scramble(const uint32_t *s, unsigned i)
{
    return s[i - 1] ^ (s[i - 1] >> 30);
}

/* init_genrand and init_by_array of Matsumoto and Nishimura (2002). */
void mt19937_seed(struct mt19937 *m, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    unsigned n_key = key[1] != 0 ? 2 : 1, i = 1, k = 0;
    uint32_t *s = m->state;
    s[0] = 19650218;
    for (unsigned j = 1; j < N; j++)
        s[j] = UINT32_C(1812433253) * scramble(s, j) + j;
    for (unsigned round = 0; round < N; round++) {
        s[i] = (s[i] ^ scramble(s, i) * UINT32_C(1664525)) + key[k] + k;
        k = k + 1 == n_key ? 0 : k + 1;
        if (++i == N) {
            s[0] = s[N - 1];
            i = 1;
        }
    }
    for (unsigned round = 1; round < N; round++) {
        s[i] = (s[i] ^ scramble(s, i) * UINT32_C(1566083941)) - i;
        if (++i == N) {
            s[0] = s[N - 1];
            i = 1;
        }
    }
    s[0] = UINT32_C(0x80000000);
    m->next = N;
}

static void refill(struct mt19937 *m)
{
    uint32_t *s = m->state;
    for (unsigned i = 0; i < N; i++) {
        uint32_t y = (s[i] & UINT32_C(0x80000000)) | (s[(i + 1) % N] & UINT32_C(0x7fffffff));
        s[i] = s[(i + M) % N] ^ (y >> 1) ^ ((y & 1) != 0 ? UINT32_C(0x9908b0df) : 0);
    }
    m->next = 0;
}

static uint32_t next(struct mt19937 *m)
{
    if (m->next == N)
        refill(m);
    uint32_t y = m->state[m->next++];
    y ^= y >> 11;
    y ^= (y << 7) & UINT32_C(0x9d2c5680);
    y ^= (y << 15) & UINT32_C(0xefc60000);
    return y ^ (y >> 18);
}

double mt19937_unit(struct mt19937 *m)
{
    uint32_t a = next(m) >> 5, b = next(m) >> 6;
    return (a * 67108864.0 + b) * (1.0 / 9007199254740992.0);
}
