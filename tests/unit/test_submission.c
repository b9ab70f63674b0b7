#include "rpc/submission.h"

#include "base/err.h"
#include "lib/testmain.h"
#include "rpc/service.h"

#include <string.h>

#define TEXT(literal) ((struct text){literal, sizeof(literal) - 1})

/* Protobuf's rules: fields in any order, the last of a repeated one wins, unknown ones are skipped. */
START_TEST(fields_are_found_wherever_they_are)
{
    struct submission s;
    ck_assert(submission_read(TEXT("\x20\x05\x70\x07\x12\x03xyz\x79"
                                   "12345678\x0a\x01"
                                   "a\x7d"
                                   "1234\x0a\x0aproducer-0"),
                              &s));
    ck_assert(text_equal(s.producer, TEXT("producer-0")));
    ck_assert(text_equal(s.payload, TEXT("xyz")));
    ck_assert(s.has_ttl);
    ck_assert_int_eq(s.ttl_ms, 5);
}
END_TEST

/* Absent is not zero for the time to live, and it may be negative on the wire. */
START_TEST(presence_of_the_time_to_live_counts)
{
    struct submission s;
    ck_assert(submission_read(TEXT(""), &s));
    ck_assert(!s.has_ttl && s.ttl_ms == 0 && s.producer.n == 0 && s.payload.n == 0);
    ck_assert(submission_read(TEXT("\x20\x00"), &s));
    ck_assert(s.has_ttl && s.ttl_ms == 0);
    ck_assert(submission_read(TEXT("\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), &s));
    ck_assert_int_eq(s.ttl_ms, -1);
}
END_TEST

/* Cut off anywhere, of no known type, with field 0 or a group: it is no request. */
START_TEST(what_is_no_message_is_refused)
{
    static const struct text bad[] = {
        {"\x0a", 1},
        {"\x0a\x02x", 3},
        {"\x20", 1},
        {"\x20\x80", 2},
        {"\x79"
         "1234",
         5},
        {"\x7d"
         "123",
         4},
        {"\x02\x00", 2},
        {"\x0b\x0c", 2},
        {"\x0e", 1},
        {"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
    };
    struct submission s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!submission_read(bad[i], &s), "case %zu", i);
}
END_TEST

static struct text header(const struct buf *headers, const char *name)
{
    struct rpc_submission s = {.headers = {headers->p, headers->n}};
    return rpc_submission_header(&s, name);
}

/* The producer's id is the registered one; of a name that comes twice the last counts, as in a map;
 * key and value may be missing or hold a NUL. */
START_TEST(headers_are_kept_and_the_producer_is_ours)
{
    struct buf out = {0};
    struct text request = TEXT("\x1a\x12\x0a\x0d__producer_id\x12\x01x"
                               "\x1a\x06\x0a\x01k\x12\x01"
                               "1"
                               "\x1a\x07\x12\x02"
                               "\0"
                               "2\x0a\x01k"
                               "\x1a\x03\x0a\x01"
                               "e"
                               "\x1a\x00");
    ck_assert_int_eq(submission_headers(request, TEXT("producer-7"), &out), 0);
    ck_assert(text_equal(header(&out, "__producer_id"), TEXT("producer-7")));
    ck_assert(text_equal(header(&out, "k"), TEXT("\0"
                                                 "2")));
    ck_assert(header(&out, "e").p != NULL && header(&out, "e").n == 0);
    ck_assert(header(&out, "").p != NULL);
    ck_assert(header(&out, "x").p == NULL);
    buf_fini(&out);
}
END_TEST

/* Protobuf's strings are UTF-8: what is not would break every consumer. */
START_TEST(headers_must_be_utf8_and_whole)
{
    static const struct text bad[] = {
        {"\x1a\x03\x0a\x01\xff", 5},         /* a name */
        {"\x1a\x04\x12\x02\xc0\x80", 6},     /* overlong */
        {"\x1a\x05\x12\x03\xed\xa0\x80", 7}, /* a surrogate */
        {"\x1a\x02\x12\x05", 4},             /* cut */
        {"\x1a\x01\x03", 3},                 /* a group */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf out = {0};
        ck_assert_int_eq(submission_headers(bad[i], TEXT("p"), &out), ERR_INVALID);
        buf_fini(&out);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("submission");
    TCase *t = tcase_create("all");
    tcase_add_test(t, fields_are_found_wherever_they_are);
    tcase_add_test(t, presence_of_the_time_to_live_counts);
    tcase_add_test(t, what_is_no_message_is_refused);
    tcase_add_test(t, headers_are_kept_and_the_producer_is_ours);
    tcase_add_test(t, headers_must_be_utf8_and_whole);
    suite_add_tcase(s, t);
    return s;
}
