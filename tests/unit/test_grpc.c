#include "rpc/grpc.h"

#include "base/err.h"
#include "lib/testmain.h"

#include <string.h>

/* Each code has its name, and what is no code is unknown. */
START_TEST(codes_have_names)
{
    ck_assert_str_eq(grpc_status_name(GRPC_OK), "OK");
    ck_assert_str_eq(grpc_status_name(9), "FAILED_PRECONDITION");
    ck_assert_str_eq(grpc_status_name(16), "UNAUTHENTICATED");
    ck_assert_str_eq(grpc_status_name(17), "UNKNOWN");
}
END_TEST

/* However the bytes are cut, the messages come out whole and in order. */
START_TEST(messages_come_out_whole)
{
    uint8_t wire[5 + 3 + 5 + 0 + 5 + 300];
    char big[300];
    memset(big, 'x', sizeof big);
    grpc_put_prefix(wire, 3);
    memcpy(wire + 5, "abc", 3);
    grpc_put_prefix(wire + 8, 0);
    grpc_put_prefix(wire + 13, sizeof big);
    memcpy(wire + 18, big, sizeof big);
    const struct text expected[] = {{"abc", 3}, {"", 0}, {big, sizeof big}};

    for (size_t cut = 1; cut <= sizeof wire; cut++) {
        struct grpc_reader r = {.max = 300};
        size_t n = 0;
        for (size_t at = 0; at < sizeof wire; at += cut) {
            size_t piece = sizeof wire - at < cut ? sizeof wire - at : cut;
            ck_assert_int_eq(grpc_reader_feed(&r, wire + at, piece), 0);
            struct text out;
            while (grpc_reader_next(&r, &out) == GRPC_MESSAGE) {
                ck_assert_uint_lt(n, 3);
                ck_assert(text_equal(out, expected[n]));
                n++;
            }
            ck_assert_int_eq(grpc_reader_partial(&r),
                             at + piece < sizeof wire && (at + piece != 8 && at + piece != 13));
        }
        ck_assert_uint_eq(n, 3);
        grpc_reader_fini(&r);
    }
}
END_TEST

/* What nobody asked for is refused at the first bytes, before anything is kept. */
START_TEST(long_and_compressed_are_refused)
{
    struct grpc_reader r = {.max = 10};
    struct text out;
    ck_assert_int_eq(grpc_reader_feed(&r, "\0\0\0\0\013", 5), 0);
    ck_assert_int_eq(grpc_reader_next(&r, &out), GRPC_TOO_LONG);
    grpc_reader_fini(&r);
    ck_assert_int_eq(grpc_reader_feed(&r, "\1\0\0\0\1", 5), 0);
    ck_assert_int_eq(grpc_reader_next(&r, &out), GRPC_COMPRESSED);
    grpc_reader_fini(&r);
}
END_TEST

static void timeout(mono_t ns, const char *text)
{
    char out[12];
    grpc_timeout_format(ns, out);
    ck_assert_str_eq(out, text);
}

/* No more than eight digits, never too early. */
START_TEST(timeouts_round_up)
{
    timeout(0, "0m");
    timeout(1, "1n");
    timeout(999999, "999999n");
    timeout(1500 * MONO_MS, "1500m");
    timeout(1500 * MONO_MS + 1, "1501m");
    timeout(100000 * MONO_S, "100000S");
    timeout(MONO_NEVER, "2562048H");
}
END_TEST

START_TEST(timeouts_are_read_strictly)
{
    mono_t ns = -1;
    ck_assert_int_eq(grpc_timeout_parse("1500m", 5, &ns), 0);
    ck_assert_int_eq(ns, 1500 * MONO_MS);
    ck_assert_int_eq(grpc_timeout_parse("99999999H", 9, &ns), 0);
    ck_assert_int_eq(ns, MONO_NEVER);
    ck_assert_int_eq(grpc_timeout_parse("7u", 2, &ns), 0);
    ck_assert_int_eq(ns, 7 * MONO_US);
    static const char *const wrong[] = {"", "m", "5", "5s", "-5m", "5 m", "123456789m", "0x5m"};
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        ck_assert_int_eq(grpc_timeout_parse(wrong[i], strlen(wrong[i]), &ns), ERR_INVALID);
    ck_assert_int_eq(ns, 7 * MONO_US);
}
END_TEST

/* Any text comes back from its coded form, which is printable. */
START_TEST(status_messages_come_back)
{
    char all[256];
    struct buf coded = {0};
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    ck_assert_int_eq(grpc_percent_encode(&coded, all, sizeof all), 0);
    for (size_t i = 0; i < coded.n; i++)
        ck_assert(coded.p[i] >= ' ' && coded.p[i] <= '~');
    ck_assert_uint_eq(grpc_percent_decode(coded.p, coded.n), sizeof all);
    ck_assert_mem_eq(coded.p, all, sizeof all);
    buf_fini(&coded);

    char loose[] = "100% %4 %zz %41%";
    size_t n = grpc_percent_decode(loose, strlen(loose));
    ck_assert_uint_eq(n, strlen("100% %4 %zz A%"));
    ck_assert_mem_eq(loose, "100% %4 %zz A%", n);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {codes_have_names,
                                  messages_come_out_whole,
                                  long_and_compressed_are_refused,
                                  timeouts_round_up,
                                  timeouts_are_read_strictly,
                                  status_messages_come_back,
                                  NULL};
    return suite_of("grpc", tests);
}
