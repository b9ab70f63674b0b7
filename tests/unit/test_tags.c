#include "proxy/tags.h"

#include "base/rng.h"
#include "lib/testmain.h"

#include <stdbool.h>

static void add(struct tags *t, uint64_t client, enum tag_kind kind)
{
    ck_assert_int_eq(tags_append(t, &(struct tag){.client = client, .kind = kind, .id = client}),
                     0);
}

/* One delivery that stays for ever costs nothing while a million others come and go. */
START_TEST(only_what_is_unsettled_takes_room)
{
    struct tags t = {0};
    add(&t, 1, TAG_OURS);
    for (uint64_t i = 2; i < 1000000; i++) {
        add(&t, i, TAG_OURS);
        if (i >= 12)
            tags_remove(&t, tags_find(&t, i - 10));
    }
    ck_assert_uint_eq(t.n_live, 11);
    ck_assert_uint_le(t.cap, 64);
    ck_assert_uint_eq(tags_oldest(&t)->client, 1);
    ck_assert_uint_eq(tags_newest(&t)->client, 999999);
    tags_fini(&t);
}
END_TEST

/* What is settled, and what never was, is not found. */
START_TEST(only_what_is_unsettled_is_found)
{
    struct tags t = {0};
    ck_assert_ptr_null(tags_find(&t, 1));
    ck_assert_ptr_null(tags_oldest(&t));
    add(&t, 5, TAG_OURS);
    add(&t, 7, TAG_UPSTREAM);
    add(&t, 8, TAG_OURS);
    ck_assert_ptr_null(tags_find(&t, 0));
    ck_assert_ptr_null(tags_find(&t, 6));
    ck_assert_ptr_null(tags_find(&t, 9));
    ck_assert_ptr_null(tags_find(&t, UINT64_MAX));
    tags_remove(&t, tags_find(&t, 7));
    ck_assert_ptr_null(tags_find(&t, 7));
    ck_assert_uint_eq(tags_find(&t, 8)->client, 8);
    tags_fini(&t);
}
END_TEST

#define MODEL_TAGS 2000

/* Random appends, removals and questions against a plain array, gaps included. */
START_TEST(it_is_a_plain_array_in_less_room)
{
    static enum tag_kind model[MODEL_TAGS];
    struct rng rng = {(uint64_t)_i + 1};
    struct tags t = {0};
    uint64_t next = 1;
    while (next < MODEL_TAGS) {
        uint64_t ask = rng_next(&rng) % (next + 2);
        if (rng_next(&rng) % 3 > 0) {
            next += rng_next(&rng) % 2 * (rng_next(&rng) % 3);
            if (next >= MODEL_TAGS)
                break;
            model[next] = rng_next(&rng) % 2 != 0 ? TAG_OURS : TAG_UPSTREAM;
            add(&t, next, model[next]);
            next++;
        } else {
            struct tag *found = tags_find(&t, ask);
            bool is = ask < next && model[ask] != TAG_GONE;
            ck_assert_int_eq(found != NULL, is);
            if (is)
                tags_remove(&t, found);
            model[ask < MODEL_TAGS ? ask : 0] = TAG_GONE;
        }
        uint64_t expected = ask < next ? ask : next - 1;
        while (expected > 0 && model[expected] != TAG_UPSTREAM)
            expected--;
        const struct tag *newest = tags_newest_of(&t, TAG_UPSTREAM, ask);
        ck_assert_uint_eq(newest != NULL ? newest->client : 0, expected);
    }
    for (uint64_t i = 0; i < MODEL_TAGS; i++)
        model[i] = TAG_GONE;
    tags_fini(&t);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {only_what_is_unsettled_takes_room,
                                  only_what_is_unsettled_is_found, NULL};
    Suite *s = suite_of("tags", tests);
    TCase *model = tcase_create("model");
    tcase_add_loop_test(model, it_is_a_plain_array_in_less_room, 0, 50);
    suite_add_tcase(s, model);
    return s;
}
