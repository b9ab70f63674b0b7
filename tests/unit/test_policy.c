#include "policy/policy.h"

#include "lib/testmain.h"

#include <stdlib.h>

static struct policy_msg message(unsigned level)
{
    struct policy_msg m = {.estimate_ms = -1, .original_level = (uint8_t)level};
    list_init(&m.link);
    return m;
}

/* The lowest non-empty level is served first and each level in order of arrival. */
START_TEST(levels_are_strict_and_fifo_inside)
{
    struct policy *p = policy_levels_new(255);
    struct policy_msg m[6] = {message(254), message(64),  message(0),
                              message(64),  message(254), message(63)};
    static const int order[6] = {2, 5, 1, 3, 0, 4};
    for (int i = 0; i < 6; i++)
        policy_place(p, &m[i], i);
    ck_assert_uint_eq(policy_waiting(p), 6);
    for (int i = 0; i < 6; i++)
        ck_assert_ptr_eq(policy_next(p, 10), &m[order[i]]);
    ck_assert_ptr_null(policy_next(p, 11));
    ck_assert_uint_eq(policy_waiting(p), 0);
    ck_assert_int_eq(policy_tick(p, 12), MONO_NEVER);
    policy_free(p);
}
END_TEST

/* FIFO looks at no level, and does not change the one that a message carries. */
START_TEST(fifo_ignores_levels)
{
    struct policy *p = policy_fifo_new();
    struct policy_msg m[3] = {message(2), message(0), message(1)};
    for (int i = 0; i < 3; i++)
        policy_place(p, &m[i], i);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(policy_next(p, 10), &m[i]);
    ck_assert_uint_eq(m[0].level, 2);
    policy_free(p);
}
END_TEST

/* A put-back restores the front and every field; a failed attempt goes to the tail with a new
 * placement time. */
START_TEST(put_back_is_exact_and_requeue_goes_to_the_tail)
{
    struct policy *p = policy_levels_new(3);
    struct policy_msg a = message(1), b = message(1);
    policy_place(p, &a, 1);
    policy_place(p, &b, 2);
    ck_assert_ptr_eq(policy_next(p, 3), &a);
    policy_put_back(p, &a);
    ck_assert_int_eq(a.placed_at, 1);
    ck_assert_uint_eq(a.level, 1);
    ck_assert_ptr_eq(policy_next(p, 4), &a);
    policy_requeue(p, &a, 5);
    ck_assert_int_eq(a.placed_at, 5);
    ck_assert_ptr_eq(policy_next(p, 6), &b);
    ck_assert_ptr_eq(policy_next(p, 6), &a);
    policy_free(p);
}
END_TEST

/* Removing the last message of a level leaves no trace of it. */
START_TEST(remove_takes_a_waiting_message_out)
{
    struct policy *p = policy_levels_new(3);
    struct policy_msg a = message(0), b = message(2);
    policy_place(p, &a, 1);
    policy_place(p, &b, 1);
    policy_remove(p, &a);
    ck_assert_uint_eq(policy_waiting(p), 1);
    ck_assert_ptr_eq(policy_next(p, 2), &b);
    ck_assert_ptr_null(policy_next(p, 2));
    policy_free(p);
}
END_TEST

/* Over 100,000 random operations the order equals that of a plain array that is scanned each time.
 */
START_TEST(random_operations_equal_the_obvious_model)
{
    enum { N = 64, LEVELS = 7 };
    struct policy_msg m[N];
    int place_no[N] = {0}; /* 0: not waiting; else order of placement */
    int counter = 1000000, front = 999999;
    struct policy *p = policy_levels_new(LEVELS);
    srand(7);
    for (int i = 0; i < N; i++)
        m[i] = message((unsigned)(rand() % LEVELS));
    for (int step = 0; step < 100000; step++) {
        int i = rand() % N;
        if (rand() % 2 == 0) {
            if (place_no[i] == 0) {
                policy_place(p, &m[i], step);
                place_no[i] = counter++;
            } else if (rand() % 4 == 0) {
                policy_remove(p, &m[i]);
                place_no[i] = 0;
            }
            continue;
        }
        int best = -1;
        for (int k = 0; k < N; k++)
            if (place_no[k] != 0 && (best < 0 || m[k].level < m[best].level ||
                                     (m[k].level == m[best].level && place_no[k] < place_no[best])))
                best = k;
        struct policy_msg *got = policy_next(p, step);
        ck_assert_ptr_eq(got, best < 0 ? NULL : &m[best]);
        if (best < 0)
            continue;
        place_no[best] = 0;
        if (rand() % 8 == 0) {
            policy_put_back(p, got);
            place_no[best] = front--;
        }
    }
    policy_free(p);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {levels_are_strict_and_fifo_inside,
                                  fifo_ignores_levels,
                                  put_back_is_exact_and_requeue_goes_to_the_tail,
                                  remove_takes_a_waiting_message_out,
                                  random_operations_equal_the_obvious_model,
                                  NULL};
    return suite_of("policy", tests);
}
