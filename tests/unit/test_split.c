#include "proxy/split.h"

#include "amqp/lib.h"
#include "base/err.h"
#include "lib/testmain.h"

#include <string.h>

/* A method of channel 1, a heartbeat, a body of channel 258 with nothing in it. */
#define FRAMES            \
    "\1\0\1\0\0\0\4"      \
    "abcd\xce"            \
    "\x8\0\0\0\0\0\0\xce" \
    "\3\1\2\0\0\0\0\xce"

/* Feeds `size` bytes in pieces of `step`; checks that the frames are the three above. */
static void feed(size_t step, bool greeting)
{
    char bytes[] = "AMQP\0\0\x9\x1" FRAMES;
    char *at = bytes + (greeting ? 0 : 8), *end = bytes + sizeof bytes - 1;
    static const struct {
        uint8_t type;
        uint16_t channel;
        size_t n;
    } expected[] = {{'A', 0, 0}, {1, 1, 4}, {8, 0, 0}, {3, 258, 0}};
    unsigned i = greeting ? 0 : 1;
    struct split s;
    split_init(&s, greeting, 4096);
    while (at < end) {
        size_t n = (size_t)(end - at) < step ? (size_t)(end - at) : step;
        struct frame f;
        int r;
        while ((r = split_next(&s, &at, &n, &f)) == 0) {
            ck_assert_uint_lt(i, 4);
            ck_assert_uint_eq(f.type, expected[i].type);
            ck_assert_uint_eq(f.channel, expected[i].channel);
            ck_assert_uint_eq(f.n, expected[i].n);
            ck_assert(f.n == 0 || memcmp(f.payload, "abcd", 4) == 0);
            i++;
        }
        ck_assert_int_eq(r, SPLIT_MORE);
        ck_assert_uint_eq(n, 0);
    }
    ck_assert_uint_eq(i, 4);
    ck_assert_uint_eq(split_held_bytes(&s), 0);
    split_fini(&s);
}

/* Frames are the same in whatever pieces they come. */
START_TEST(any_pieces_make_the_same_frames)
{
    for (size_t step = 1; step < 40; step++) {
        feed(step, true);
        feed(step, false);
    }
}
END_TEST

/* A whole frame is returned where it lies. */
START_TEST(a_whole_frame_is_not_copied)
{
    char bytes[] = FRAMES;
    char *at = bytes;
    size_t n = sizeof bytes - 1;
    struct split s;
    struct frame f;
    split_init(&s, false, 4096);
    ck_assert_int_eq(split_next(&s, &at, &n, &f), 0);
    ck_assert_ptr_eq(f.raw, bytes);
    ck_assert_uint_eq(f.n_raw, 12);
    ck_assert_uint_eq(s.held.cap, 0);
    split_fini(&s);
}
END_TEST

/* Feeds it whole and byte by byte: both must be refused with these words. */
static void refuse(const char *bytes, size_t size, bool greeting, const char *words)
{
    for (size_t step = 1; step <= size; step += size > 1 ? size - 1 : 1) {
        struct split s;
        struct frame f;
        int r = SPLIT_MORE;
        split_init(&s, greeting, 4096);
        for (size_t i = 0; i < size && r == SPLIT_MORE; i += step) {
            char copy[64];
            char *at = copy;
            size_t n = size - i < step ? size - i : step;
            memcpy(copy, bytes + i, n);
            r = split_next(&s, &at, &n, &f);
        }
        ck_assert_int_eq(r, ERR_PROTOCOL);
        ck_assert_ptr_nonnull(s.error);
        ck_assert_str_eq(s.error, words);
        split_fini(&s);
    }
}

/* What is no AMQP is refused as soon as it shows, in words that name it. */
START_TEST(what_is_no_frame_is_refused)
{
    refuse("GET / HTTP", 4, true, "does not begin with a protocol header");
    refuse("AMQX", 4, true, "does not begin with a protocol header");
    refuse("\4\0\0\0", 4, false, "sends a frame of unknown type");
    refuse("\1\0\1\0\0\x0f\xf9", 7, false, "sends a frame over frame_max");
    refuse("\1\0\1\xff\xff\xff\xff", 7, false, "sends a frame over frame_max");
    refuse("\3\0\1\0\0\0\1xy", 9, false, "sends a frame without its end");
}
END_TEST

/* Limits are exact: frame_max counts the frame's own 8 bytes; content headers may be larger. */
START_TEST(frame_max_counts_the_whole_frame)
{
    static char bytes[5000] = "\3\0\1\0\0\x0f\xf8";
    bytes[4095] = (char)0xce;
    struct split s;
    struct frame f;
    char *at = bytes;
    size_t n = sizeof bytes;
    split_init(&s, false, 4096);
    ck_assert_int_eq(split_next(&s, &at, &n, &f), 0);
    ck_assert_uint_eq(f.n_raw, 4096);
    split_set_frame_max(&s, 4095);
    at = bytes;
    n = sizeof bytes;
    ck_assert_int_eq(split_next(&s, &at, &n, &f), ERR_PROTOCOL);
    bytes[0] = 2;
    at = bytes;
    n = sizeof bytes;
    ck_assert_int_eq(split_next(&s, &at, &n, &f), 0);
    split_fini(&s);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {any_pieces_make_the_same_frames, a_whole_frame_is_not_copied,
                                  what_is_no_frame_is_refused, frame_max_counts_the_whole_frame,
                                  NULL};
    return suite_of("split", tests);
}
