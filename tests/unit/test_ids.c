#include "rpc/ids.h"

#include "lib/testmain.h"

#define INSTANCE 0xfeedbeef12345678u

/* What is printed is read back, over the whole range. */
START_TEST(ids_come_back)
{
    static const uint64_t numbers[] = {1, 9, 10, 12345678901, UINT64_MAX};
    static const uint64_t instances[] = {0, 1, 15, 16, INSTANCE, UINT64_MAX};
    char text[IDS_BYTES];
    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++)
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            size_t n = ids_print(instances[i], numbers[j], text);
            ck_assert_uint_eq(n, strlen(text));
            ck_assert(ids_token_is_well_formed(text_of(text)));
            ck_assert_uint_eq(ids_parse(instances[i], text_of(text)), numbers[j]);
        }
    ids_print(INSTANCE, 42, text);
    ck_assert_str_eq(text, "feedbeef12345678-42");
}
END_TEST

/* One number has one text, so that two texts never mean the same message. */
START_TEST(nothing_else_is_an_id)
{
    static const char *const bad[] = {"",
                                      "-",
                                      "42",
                                      "feedbeef12345678",
                                      "feedbeef12345678-",
                                      "feedbeef12345678-0",
                                      "feedbeef12345678-042",
                                      "feedbeef12345678-+42",
                                      "feedbeef12345678-42 ",
                                      "FEEDBEEF12345678-42",
                                      "0feedbeef12345678-42",
                                      "feedbeef12345679-42",
                                      "feedbeef12345678-18446744073709551616",
                                      "feedbeef12345678-4x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(ids_parse(INSTANCE, text_of(bad[i])) == 0, "'%s'", bad[i]);
}
END_TEST

START_TEST(tokens_have_a_syntax)
{
    char longest[IDS_TOKEN_MAX + 1];
    memset(longest, 'Z', sizeof longest);
    ck_assert(ids_token_is_well_formed((struct text){longest, IDS_TOKEN_MAX}));
    ck_assert(!ids_token_is_well_formed((struct text){longest, IDS_TOKEN_MAX + 1}));
    ck_assert(ids_token_is_well_formed(text_of("-aZ09-")));
    ck_assert(!ids_token_is_well_formed(text_of("")));
    ck_assert(!ids_token_is_well_formed(text_of("a_b")));
    ck_assert(!ids_token_is_well_formed(text_of("\xc3\xa9")));
    ck_assert(!ids_token_is_well_formed((struct text){"a\0b", 3}));
}
END_TEST

/* Ids are dense: below the counter they exist, and only in their one form. */
START_TEST(clients_are_counted)
{
    static const char *const bad[] = {
        "",           "consumer-",   "consumer-3",  "consumer-00", "consumer-01", "consumer",
        "producer-1", "consumer--1", "consumer- 1", "Consumer-1",  "consumer-1 "};
    uint64_t n = 99;
    ck_assert(ids_client(text_of("consumer-0"), "consumer-", 3, &n) && n == 0);
    ck_assert(ids_client(text_of("consumer-2"), "consumer-", 3, &n) && n == 2);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!ids_client(text_of(bad[i]), "consumer-", 3, &n), "'%s'", bad[i]);
    ck_assert(!ids_client(text_of("consumer-0"), "consumer-", 0, &n));
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("ids");
    TCase *t = tcase_create("all");
    tcase_add_test(t, ids_come_back);
    tcase_add_test(t, nothing_else_is_an_id);
    tcase_add_test(t, tokens_have_a_syntax);
    tcase_add_test(t, clients_are_counted);
    suite_add_tcase(s, t);
    return s;
}
