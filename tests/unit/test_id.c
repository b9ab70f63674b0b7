#include "flow/id.h"

#include "base/err.h"
#include "lib/testmain.h"

#include <string.h>

/* Every id reads back as itself, the largest numbers included. */
START_TEST(ids_round_trip)
{
    static const struct id ids[] = {{UINT64_MAX, UINT64_MAX, 255, INT64_MAX},
                                    {0, 1, 0, 0},
                                    {0x1234, 0xabcdef, 2, ID_NO_ESTIMATE},
                                    {16, 15, 16, 17}};
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        char text[ID_PRINT_BYTES];
        struct id again = {0};
        size_t n = id_print(&ids[i], text);
        ck_assert_uint_eq(n, strlen(text));
        ck_assert_int_eq(id_parse((struct text){text, n}, &again), 0);
        ck_assert_uint_eq(again.instance, ids[i].instance);
        ck_assert_uint_eq(again.sequence, ids[i].sequence);
        ck_assert_uint_eq(again.level, ids[i].level);
        ck_assert_int_eq(again.estimate_us, ids[i].estimate_us);
    }
    char text[ID_PRINT_BYTES];
    id_print(&ids[2], text);
    ck_assert_str_eq(text, "1234-abcdef-2-x");
}
END_TEST

START_TEST(other_text_is_no_id)
{
    static const char *const bad[] = {"",         "1-2-3",
                                      "1-2-3-",   "1-2-3-4-5",
                                      "-1-2-3",   "1-2-100-4",
                                      "1-2-3-y",  "1-2-3-xx",
                                      "G-2-3-4",  "1-2-3-8000000000000000",
                                      "A-2-3-4",  " 1-2-3-4",
                                      "1-2-3-4 ", "11111111111111111-2-3-4"};
    struct id id;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(id_parse(text_of(bad[i]), &id) == ERR_INVALID, "accepted '%s'", bad[i]);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {ids_round_trip, other_text_is_no_id, NULL};
    return suite_of("id", tests);
}
