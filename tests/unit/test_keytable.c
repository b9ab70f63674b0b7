#include "predict/keytable.h"

#include "base/rng.h"
#include "lib/keys.h"
#include "lib/testmain.h"

#include <stdio.h>

enum { MAX = 600, NAMES = 1500 };

/* Lengths around what lies inline, and the longest. */
static struct hb_key name_of(unsigned i, char text[HB_KEY_MAX + 1])
{
    static const int lengths[] = {5, 39, 40, 41, 120, 256};
    snprintf(text, HB_KEY_MAX + 1, "%0*u", lengths[i % 6], i);
    return k(text);
}

/* Random insertions, removals and moves over several chunks agree with a plain array. */
START_TEST(agrees_with_an_array)
{
    struct histogram_layout *l = histogram_layout_new(8, 1, 10);
    struct hash_seed seed = {1, 2};
    struct keytable *t = keytable_new(MAX, &seed, l);
    uint32_t slot[NAMES], count = 0;
    for (int i = 0; i < NAMES; i++)
        slot[i] = KEYTABLE_NONE;
    struct rng rng = {4};
    char text[HB_KEY_MAX + 1];
    for (int step = 0; step < 60000; step++) {
        unsigned i = (unsigned)(rng_unit(&rng) * NAMES);
        struct hb_key key = name_of(i, text);
        ck_assert_uint_eq(keytable_find(t, key), slot[i]);
        if (slot[i] == KEYTABLE_NONE) {
            if (keytable_full(t))
                continue;
            slot[i] = keytable_insert(t, key, step);
            ck_assert_uint_ne(slot[i], KEYTABLE_NONE);
            count++;
        } else if (rng_unit(&rng) < 0.5) {
            keytable_remove(t, slot[i]);
            slot[i] = KEYTABLE_NONE;
            count--;
        } else {
            keytable_entry(t, slot[i])->last_active_at = step;
            keytable_move_to_front(t, slot[i]);
            ck_assert_uint_eq(keytable_newest(t), slot[i]);
        }
        ck_assert_uint_eq(keytable_count(t), count);
        if (step % 1000 == 0)
            ck_assert_ptr_null(keytable_check(t));
    }
    ck_assert_ptr_null(keytable_check(t));
    ck_assert_uint_gt(keytable_bytes(t), count * (sizeof(struct keytable_entry) + l->bytes));
    keytable_free(t);
    histogram_layout_free(l);
}
END_TEST

/* The list is walked from the newest to the oldest, and a key can be sent to its end. */
START_TEST(the_list_is_by_activity)
{
    struct histogram_layout *l = histogram_layout_new(8, 1, 10);
    struct hash_seed seed = {0};
    struct keytable *t = keytable_new(3, &seed, l);
    ck_assert_uint_eq(keytable_newest(t), KEYTABLE_NONE);
    uint32_t a = keytable_insert(t, k("a"), 0), b = keytable_insert(t, k("b"), 0),
             c = keytable_insert(t, k("c"), 0);
    ck_assert(keytable_full(t));
    keytable_move_to_front(t, a);
    keytable_move_to_back(t, c);
    ck_assert_uint_eq(keytable_newest(t), a);
    ck_assert_uint_eq(keytable_next_older(t, a), b);
    ck_assert_uint_eq(keytable_next_older(t, b), c);
    ck_assert_uint_eq(keytable_next_older(t, c), KEYTABLE_NONE);
    ck_assert_uint_eq(keytable_oldest(t), c);
    ck_assert_ptr_null(keytable_check(t));
    keytable_remove(t, b);
    ck_assert_uint_eq(keytable_next_older(t, a), c);
    ck_assert_ptr_null(keytable_check(t));
    keytable_free(t);
    keytable_free(NULL);
    histogram_layout_free(l);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {agrees_with_an_array, the_list_is_by_activity, NULL};
    return suite_of("keytable", tests);
}
