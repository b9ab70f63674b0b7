#include "base/buf.h"

#include "lib/testmain.h"

/* Appends of every kind add up, are terminated, and reset keeps the memory. */
START_TEST(appends_add_up)
{
    struct buf b = {0};
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(buf_printf(&b, "%d,", i), 0);
    ck_assert_int_eq(buf_append(&b, "\0x", 2), 0);
    ck_assert_uint_eq(b.n, 10 * 2 + 90 * 3 + 900 * 4 + 2);
    ck_assert_int_eq(b.p[b.n], '\0');
    size_t cap = b.cap;
    buf_reset(&b);
    ck_assert_uint_eq(b.n, 0);
    ck_assert_uint_eq(b.cap, cap);
    buf_fini(&b);
    ck_assert_int_eq(buf_append(&b, "again", 5), 0);
    ck_assert_str_eq(b.p, "again");
    buf_fini(&b);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {appends_add_up, NULL};
    return suite_of("buf", tests);
}
