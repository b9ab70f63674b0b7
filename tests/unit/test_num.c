#include "base/num.h"

#include "base/err.h"
#include "lib/testmain.h"

#include <math.h>
#include <string.h>

/* Only whole, in-range numbers of the stated form pass. */
START_TEST(integers_are_strict)
{
    uint64_t u = 7;
    int64_t i = 7;
    ck_assert_int_eq(num_parse_u64("18446744073709551615", 20, &u), 0);
    ck_assert_uint_eq(u, UINT64_MAX);
    static const char *const bad[] = {"",   "-1",  "+1",  " 1",
                                      "1 ", "0x1", "1.0", "18446744073709551616"};
    for (size_t k = 0; k < ARRAY_SIZE(bad); k++)
        ck_assert_int_eq(num_parse_u64(bad[k], strlen(bad[k]), &u), ERR_INVALID);
    ck_assert_uint_eq(u, UINT64_MAX);
    ck_assert_int_eq(num_parse_i64("-9223372036854775808", 20, &i), 0);
    ck_assert_int_eq(i, INT64_MIN);
    ck_assert_int_eq(num_parse_i64("9223372036854775808", 19, &i), ERR_INVALID);
    ck_assert_int_eq(num_parse_i64("-", 1, &i), ERR_INVALID);
}
END_TEST

/* Neither NaN nor infinities nor hexadecimal nor blanks are decimals. */
START_TEST(doubles_are_finite_decimals)
{
    double v = 0;
    ck_assert_int_eq(num_parse_double("-1.25e2", 7, &v), 0);
    ck_assert_double_eq(v, -125.0);
    static const char *const bad[] = {"",   "nan", "inf", "1e309", "0x10",
                                      " 1", "1 ",  "1e",  ".",     "--1"};
    for (size_t k = 0; k < ARRAY_SIZE(bad); k++)
        ck_assert_int_eq(num_parse_double(bad[k], strlen(bad[k]), &v), ERR_INVALID);
}
END_TEST

/* A duration needs its unit, and what is printed reads back as the same value. */
START_TEST(durations_need_units_and_round_trip)
{
    static const struct {
        const char *text;
        mono_t ns;
    } good[] = {
        {"250ms", 250 * MONO_MS},
        {"1.5s", 1500 * MONO_MS},
        {"30min", 1800 * MONO_S},
        {"2h", 7200 * MONO_S},
        {"1d", 86400 * MONO_S},
        {"10us", 10 * MONO_US},
        {"0", 0},
    };
    for (size_t k = 0; k < ARRAY_SIZE(good); k++) {
        mono_t ns = -1, again = -1;
        char text[32];
        ck_assert_int_eq(num_parse_duration(good[k].text, strlen(good[k].text), &ns), 0);
        ck_assert_int_eq(ns, good[k].ns);
        num_format_duration(ns, text, sizeof text);
        ck_assert_int_eq(num_parse_duration(text, strlen(text), &again), 0);
        ck_assert_int_eq(again, ns);
    }
    mono_t ns;
    static const char *const bad[] = {"250", "ms", "1 s", "1m", "-1s", "366d", "1sec", ""};
    for (size_t k = 0; k < ARRAY_SIZE(bad); k++)
        ck_assert_int_eq(num_parse_duration(bad[k], strlen(bad[k]), &ns), ERR_INVALID);
}
END_TEST

START_TEST(sizes_need_units_and_round_trip)
{
    uint64_t v;
    char text[32];
    ck_assert_int_eq(num_parse_size("16MiB", 5, &v), 0);
    ck_assert_uint_eq(v, 16u << 20);
    num_format_size(v, text, sizeof text);
    ck_assert_str_eq(text, "16MiB");
    num_format_size(1536, text, sizeof text);
    ck_assert_str_eq(text, "1536B");
    static const char *const bad[] = {"16", "16M", "1.5MiB", "99999999999999GiB", ""};
    for (size_t k = 0; k < ARRAY_SIZE(bad); k++)
        ck_assert_int_eq(num_parse_size(bad[k], strlen(bad[k]), &v), ERR_INVALID);
}
END_TEST

/* A double is printed with as few digits as bring it back, and what is not finite has a name. */
START_TEST(doubles_print_shortest_and_round_trip)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        {0, "0"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {16, "16"},
        {-2.5, "-2.5"},
        {1e300, "1e+300"},
        {5e-324, "5e-324"},
        {HUGE_VAL, "inf"},
        {-HUGE_VAL, "-inf"},
        {10, "10"},
        {600, "600"},
        {1e15, "1e+15"},
        {(double)NAN, "nan"},
        {123456789, "123456789"},
    };
    for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
        char text[32];
        num_format_double(cases[k].v, text, sizeof text);
        ck_assert_str_eq(text, cases[k].text);
    }
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {integers_are_strict,
                                  doubles_are_finite_decimals,
                                  durations_need_units_and_round_trip,
                                  sizes_need_units_and_round_trip,
                                  doubles_print_shortest_and_round_trip,
                                  NULL};
    return suite_of("num", tests);
}
