/* Every allocation of a whole scenario fails once: nothing crashes, leaks or breaks an invariant.
 */
#include "lib/failing_malloc.h"
#include "lib/keys.h"
#include "lib/testmain.h"
#include "predict/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

struct outcome {
    const char *broken;
    uint64_t no_memory, overflow;
    bool completed;
};

/* Learn with short and long keys over two chunks, save, load; stops early when a step says so. */
static void scenario(struct outcome *out)
{
    *out = (struct outcome){0};
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    o.max_keys = 400;
    struct hb_predictor *p = hb_predictor_new(&o), *q = hb_predictor_new(&o);
    struct buf b = {0};
    struct snapshot_loaded loaded;
    struct err err;
    if (p == NULL || q == NULL)
        goto out;
    for (int i = 0; i < 400; i++) {
        char name[100];
        snprintf(name, sizeof name, "%0*d", i % 80 == 0 ? 80 : 8, i);
        teach(p, name, 2, i, SECONDS(i));
    }
    out->broken = hb_predictor_check(p);
    out->no_memory = stats_of(p).no_memory;
    out->overflow = stats_of(p).overflow;
    if (snapshot_encode(p, "x", SECONDS(400), &b) < 0)
        goto out;
    out->completed = snapshot_decode(q, "x", 0, b.p, b.n, &loaded, &err) == 0;
    if (out->broken == NULL)
        out->broken = hb_predictor_check(q);
out:
    buf_fini(&b);
    hb_predictor_free(p);
    hb_predictor_free(q);
}

/* A failed allocation costs at most the keys of that moment, and those are counted. */
START_TEST(each_failed_allocation_is_survived)
{
    struct outcome out;
    long before = seen;
    scenario(&out);
    long n = seen - before;
    ck_assert(out.completed && out.broken == NULL && out.no_memory == 0);
    ck_assert_int_gt(n, 20);
    unsigned untracked = 0, incomplete = 0;
    for (long i = 0; i < n; i++) {
        countdown = i;
        scenario(&out);
        countdown = -1;
        ck_assert_msg(out.broken == NULL, "%ld: %s", i, out.broken);
        ck_assert_uint_eq(out.no_memory, out.overflow);
        untracked += out.no_memory > 0;
        incomplete += !out.completed;
    }
    ck_assert_uint_gt(untracked, 0);
    ck_assert_uint_gt(incomplete, 0);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {each_failed_allocation_is_survived, NULL};
    return suite_of("predict_alloc", tests);
}
