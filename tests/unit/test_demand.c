#include "sidecar/demand.h"

#include "lib/testmain.h"

static struct demand demand(void)
{
    return (struct demand){.window = 4000, .per_worker = 1000, .idle_after = 5 * MONO_S};
}

static uint32_t step(struct demand *d, uint64_t slots, mono_t now)
{
    d->slots = slots;
    d->limit = demand_limit(d, now);
    return d->limit;
}

/* A sidecar starts asleep, wakes with its first worker, and holds in proportion up to the window. */
START_TEST(it_is_in_proportion_to_the_slots)
{
    struct demand d = demand();
    ck_assert_uint_eq(step(&d, 0, 0), 0);
    ck_assert_uint_eq(step(&d, 0, 100 * MONO_S), 0);
    ck_assert_uint_eq(step(&d, 1, 101 * MONO_S), 1000);
    ck_assert_uint_eq(step(&d, 3, 102 * MONO_S), 3000);
    ck_assert_uint_eq(step(&d, 4, 103 * MONO_S), 4000);
    ck_assert_uint_eq(step(&d, UINT64_MAX, 104 * MONO_S), 4000);
}
END_TEST

/* Workers come and go with every pull: only half of them going for good lowers it. */
START_TEST(it_falls_when_half_would_do)
{
    struct demand d = demand();
    step(&d, 4, 0);
    ck_assert_uint_eq(step(&d, 3, 1), 4000);
    ck_assert_uint_eq(step(&d, 2, 2), 2000);
    ck_assert_uint_eq(step(&d, 3, 3), 3000);
    ck_assert_uint_eq(step(&d, 1, 4), 1000);
}
END_TEST

/* The time without slots counts from the last one, and is over at idle_after exactly. */
START_TEST(it_sleeps_after_the_time_without_workers)
{
    struct demand d = demand();
    step(&d, 2, 10 * MONO_S);
    ck_assert_uint_eq(step(&d, 0, 12 * MONO_S), 2000);
    ck_assert_uint_eq(step(&d, 1, 13 * MONO_S), 1000);
    ck_assert_uint_eq(step(&d, 0, 18 * MONO_S - 1), 1000);
    ck_assert_uint_eq(step(&d, 0, 18 * MONO_S), 0);
}
END_TEST

/* What somebody has finished while RabbitMQ was away is settled before the sleep. */
START_TEST(it_does_not_sleep_while_something_is_awaited)
{
    struct demand d = demand();
    step(&d, 1, 0);
    d.awaiting = true;
    ck_assert_uint_eq(step(&d, 0, 60 * MONO_S), 1000);
    d.awaiting = false;
    ck_assert_uint_eq(step(&d, 0, 60 * MONO_S), 0);
}
END_TEST

START_TEST(without_idle_after_it_is_the_whole_window)
{
    struct demand d = demand();
    d.idle_after = 0;
    ck_assert_uint_eq(step(&d, 0, 0), 4000);
    ck_assert_uint_eq(step(&d, 1, 100 * MONO_S), 4000);
}
END_TEST

/* At most the window, also for what does not fit into 32 bits, and where one worker may have all. */
START_TEST(it_is_bounded)
{
    struct demand d = demand();
    d.per_worker = 65535;
    ck_assert_uint_eq(step(&d, 1, 0), 4000);
    d.per_worker = 1;
    ck_assert_uint_eq(step(&d, 7, 1), 7);
    ck_assert_uint_eq(step(&d, UINT64_C(1) << 40, 2), 4000);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {it_is_in_proportion_to_the_slots,
                                  it_falls_when_half_would_do,
                                  it_sleeps_after_the_time_without_workers,
                                  it_does_not_sleep_while_something_is_awaited,
                                  without_idle_after_it_is_the_whole_window,
                                  it_is_bounded,
                                  NULL};
    return suite_of("demand", tests);
}
