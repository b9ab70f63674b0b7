#include "flow/seen.h"

#include "lib/testmain.h"

#include <stdlib.h>

/* Exactly the latest `capacity` distinct values are remembered: equal to a plain array over 200,000
 * random adds, with values that crowd the same part of the table. */
START_TEST(equals_a_plain_list)
{
    enum { CAPACITY = 37 };
    uint64_t list[CAPACITY];
    size_t n = 0, oldest = 0;
    struct seen *s = seen_new(CAPACITY);
    srand(11);
    for (int step = 0; step < 200000; step++) {
        uint64_t value = (uint64_t)(rand() % 20) | (uint64_t)(rand() % 6) << 40;
        bool known = false;
        for (size_t i = 0; i < n; i++)
            known = known || list[i] == value;
        ck_assert_int_eq(seen_add(s, value), known);
        if (known)
            continue;
        if (n < CAPACITY) {
            list[n++] = value;
        } else {
            list[oldest] = value;
            oldest = (oldest + 1) % CAPACITY;
        }
        ck_assert_uint_eq(seen_count(s), n);
    }
    seen_free(s);
}
END_TEST

START_TEST(zero_remembers_nothing)
{
    struct seen *s = seen_new(0);
    ck_assert(!seen_add(s, 1));
    ck_assert(!seen_add(s, 1));
    seen_free(s);
    seen_free(NULL);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {equals_a_plain_list, zero_remembers_nothing, NULL};
    return suite_of("seen", tests);
}
