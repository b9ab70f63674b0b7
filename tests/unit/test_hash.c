#include "base/hash.h"

#include "lib/testmain.h"

#include <stdio.h>

/* Different seeds give different values, and no input length is read past its end or ignored. */
START_TEST(seed_and_every_byte_matter)
{
    struct hash_seed a = {1, 2}, b = {1, 3};
    char text[40];
    for (int i = 0; i < 40; i++)
        text[i] = (char)i;
    for (size_t n = 0; n <= sizeof text; n++) {
        uint64_t h = hash_bytes(&a, text, n);
        ck_assert_uint_eq(h, hash_bytes(&a, text, n));
        ck_assert_uint_ne(h, hash_bytes(&b, text, n));
        for (size_t i = 0; i < n; i++) {
            text[i] ^= 0x40;
            ck_assert_uint_ne(h, hash_bytes(&a, text, n));
            text[i] ^= 0x40;
        }
    }
}
END_TEST

/* Keys that differ in a counter spread over a small table: no bucket of 1024 holds over 40 of
 * 16,384. */
START_TEST(counters_spread)
{
    static unsigned bucket[1024];
    struct hash_seed seed = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    for (int i = 0; i < 16384; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "producer-%d", i);
        bucket[hash_bytes(&seed, key, (size_t)n) & 1023]++;
    }
    for (int i = 0; i < 1024; i++)
        ck_assert_uint_le(bucket[i], 40);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {seed_and_every_byte_matter, counters_spread, NULL};
    return suite_of("hash", tests);
}
