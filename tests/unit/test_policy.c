#include "policy/policy.h"

#include "lib/testmain.h"

#include <stdlib.h>

static struct policy_msg message(unsigned level)
{
    struct policy_msg m = {.estimate_ms = -1, .original_level = (uint8_t)level};
    list_init(&m.link);
    return m;
}

static struct policy *strict(unsigned n_levels)
{
    struct policy_paper_options o = {.n_levels = n_levels};
    return policy_paper_new(&o);
}

/* The lowest non-empty level is served first and each level in order of arrival. */
START_TEST(levels_are_strict_and_fifo_inside)
{
    struct policy *p = strict(255);
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
    struct policy *p = strict(3);
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
    struct policy *p = strict(3);
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

/* However many pulls are undone, and in whichever order, everything is as if they had not been. */
START_TEST(put_backs_in_any_order_restore_the_order)
{
    struct policy *p = strict(2);
    struct policy_msg m[5];
    static const int back[4] = {1, 3, 0, 2};
    for (int i = 0; i < 5; i++) {
        m[i] = message(1);
        policy_place(p, &m[i], 7);
    }
    for (int i = 0; i < 4; i++)
        policy_next(p, 8);
    for (int i = 0; i < 4; i++)
        policy_put_back(p, &m[back[i]]);
    ck_assert_ptr_null(policy_check(p));
    for (int i = 0; i < 5; i++)
        ck_assert_ptr_eq(policy_next(p, 9), &m[i]);
    policy_free(p);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {levels_are_strict_and_fifo_inside,
                                  fifo_ignores_levels,
                                  put_back_is_exact_and_requeue_goes_to_the_tail,
                                  remove_takes_a_waiting_message_out,
                                  put_backs_in_any_order_restore_the_order,
                                  NULL};
    return suite_of("policy", tests);
}
