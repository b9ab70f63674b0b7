#include "predict/snapshot.h"

#include "base/rng.h"
#include "lib/keys.h"
#include "lib/testmain.h"
#include "predict/crc32c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CONTEXT "policy=per-key-v2 header=job_type scoped size=none"

static struct hb_predictor *make(uint32_t max_keys)
{
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    o.max_keys = max_keys;
    struct hb_predictor *p = hb_predictor_new(&o);
    ck_assert_ptr_nonnull(p);
    return p;
}

static const char *name_of(int i)
{
    static char text[300];
    int n = snprintf(text, sizeof text, "producer\x1fjob%d", i);
    if (i % 7 == 0)
        memset(text + n, 'x', 120), text[n + 120] = '\0';
    return text;
}

static struct hb_predictor *taught(int n_keys)
{
    struct hb_predictor *p = make(1000);
    for (int i = 0; i < n_keys; i++) {
        teach(p, name_of(i), 10 + 3 * (i % 9), 3 * pow(1.7, i % 12), SECONDS(i));
        if (i % 4 == 1)
            ck_assert(hb_predictor_censor(p, k(name_of(i)), NO_PARENT, SECONDS(i)));
        (void)ask(p, name_of(i), SECONDS(i) + 5);
    }
    return p;
}

static struct buf encoded(const struct hb_predictor *p, int64_t now)
{
    struct buf b = {0};
    ck_assert_int_eq(snapshot_encode(p, CONTEXT, now, &b), 0);
    return b;
}

static int decode(struct hb_predictor *p, const void *bytes, size_t n, struct err *err)
{
    struct snapshot_loaded loaded;
    int r = snapshot_decode(p, CONTEXT, 0, bytes, n, &loaded, err);
    ck_assert_ptr_null(hb_predictor_check(p));
    return r;
}

/* Restored at once, everything is as it was: the same bytes come out again, in another time base
 * too. */
START_TEST(restores_everything)
{
    struct hb_predictor *p = taught(50);
    struct hb_predictor *q = make(1000);
    struct buf a = encoded(p, SECONDS(100));
    struct snapshot_loaded loaded;
    struct err err = {0};
    ck_assert_msg(snapshot_decode(q, CONTEXT, SECONDS(7), a.p, a.n, &loaded, &err) == 0, "%s",
                  err.msg);
    ck_assert_uint_eq(loaded.keys, 50);
    ck_assert_uint_eq(loaded.dropped, 0);
    ck_assert_ptr_null(hb_predictor_check(q));
    struct buf b = encoded(q, SECONDS(7));
    ck_assert_uint_eq(a.n, b.n);
    ck_assert_int_eq(memcmp(a.p, b.p, a.n), 0);
    for (int i = 0; i < 50; i++) {
        struct hb_prediction was = ask(p, name_of(i), SECONDS(100));
        struct hb_prediction is = ask(q, name_of(i), SECONDS(7));
        ck_assert_int_eq(was.reason, is.reason);
        ck_assert_uint_eq(was.level, is.level);
        ck_assert_double_eq(was.estimate_ms, is.estimate_ms);
    }
    buf_fini(&a);
    buf_fini(&b);
    hb_predictor_free(p);
    hb_predictor_free(q);
}
END_TEST

/* When there are more keys than room, the most recently active ones come back. */
START_TEST(the_newest_keys_win)
{
    struct hb_predictor *p = taught(50), *q = make(20);
    struct buf b = encoded(p, SECONDS(60));
    struct snapshot_loaded loaded;
    struct err err = {0};
    ck_assert_int_eq(snapshot_decode(q, CONTEXT, 0, b.p, b.n, &loaded, &err), 0);
    ck_assert_uint_eq(loaded.keys, 20);
    ck_assert_uint_eq(loaded.dropped, 30);
    ck_assert_ptr_null(hb_predictor_check(q));
    struct hb_key_info info;
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(hb_predictor_explain(q, k(name_of(i)), 0, &info), i >= 30);
    buf_fini(&b);
    hb_predictor_free(p);
    hb_predictor_free(q);
}
END_TEST

/* Downtime does not count, and a key's age does. */
START_TEST(ages_survive)
{
    struct hb_predictor *p = taught(30), *q = make(100);
    struct buf b = encoded(p, SECONDS(1500));
    struct err err = {0};
    ck_assert_int_eq(decode(q, b.p, b.n, &err), 0);
    ck_assert_int_ne(reason(q, name_of(12), SECONDS(300)), HB_STALE_KEY);
    ck_assert_int_eq(reason(q, name_of(11), SECONDS(330)), HB_STALE_KEY);
    buf_fini(&b);
    hb_predictor_free(p);
    hb_predictor_free(q);
}
END_TEST

/* Every truncation and every flipped byte is refused, says why, and leaves the predictor as it was.
 */
START_TEST(damage_is_refused)
{
    struct hb_predictor *p = taught(12), *q = taught(3);
    struct buf b = encoded(p, SECONDS(60)), before = encoded(q, SECONDS(60));
    for (size_t n = 0; n < b.n; n++) {
        struct err err = {0};
        char *copy = malloc(n + 1); /* exact, so that the sanitizer sees any read beyond */
        memcpy(copy, b.p, n);
        int r = decode(q, copy, n, &err);
        ck_assert_msg(r == ERR_CORRUPT && err.msg[0] != '\0', "%zu bytes: %d %s", n, r, err.msg);
        free(copy);
    }
    for (size_t i = 0; i < b.n; i++) {
        struct err err = {0};
        b.p[i] ^= (char)(1 << (i % 8));
        int r = decode(q, b.p, b.n, &err);
        ck_assert_msg(r == ERR_CORRUPT || (r == ERR_MISMATCH && i >= 8 && i < 12),
                      "byte %zu: %d %s", i, r, err.msg);
        b.p[i] ^= (char)(1 << (i % 8));
    }
    struct buf after = encoded(q, SECONDS(60));
    ck_assert_uint_eq(before.n, after.n);
    ck_assert_int_eq(memcmp(before.p, after.p, after.n), 0);
    buf_fini(&b);
    buf_fini(&before);
    buf_fini(&after);
    hb_predictor_free(p);
    hb_predictor_free(q);
}
END_TEST

static void fix_crc(struct buf *b)
{
    uint32_t crc = crc32c(b->p + 16, b->n - 16);
    for (int i = 0; i < 4; i++)
        b->p[12 + i] = (char)(crc >> (8 * i));
}

/* Nor does damage with a fitting checksum break an invariant: each byte takes several values in
 * turn. */
START_TEST(forged_content_breaks_nothing)
{
    struct hb_predictor *p = taught(5);
    struct buf b = encoded(p, SECONDS(60));
    static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    unsigned long refused = 0;
    for (size_t i = 16; i < b.n; i++) {
        char was = b.p[i];
        for (size_t v = 0; v < sizeof values; v++) {
            struct hb_predictor *q = make(4);
            struct err err = {0};
            b.p[i] = (char)values[v];
            fix_crc(&b);
            refused += decode(q, b.p, b.n, &err) < 0;
            (void)ask(q, name_of(1), SECONDS(1));
            teach(q, name_of(1), 3, 5, SECONDS(2));
            ck_assert_ptr_null(hb_predictor_check(q));
            hb_predictor_free(q);
        }
        b.p[i] = was;
    }
    ck_assert_uint_gt(refused, 1000);
    buf_fini(&b);
    hb_predictor_free(p);
}
END_TEST

static void must_differ(const struct hb_predictor_options *o, const char *context,
                        const char *words)
{
    struct hb_predictor *p = taught(3), *q = hb_predictor_new(o);
    struct buf b = encoded(p, 0);
    struct snapshot_loaded loaded;
    struct err err = {0};
    ck_assert_int_eq(snapshot_decode(q, context, 0, b.p, b.n, &loaded, &err), ERR_MISMATCH);
    ck_assert_msg(strstr(err.msg, words) != NULL, "%s", err.msg);
    buf_fini(&b);
    hb_predictor_free(p);
    hb_predictor_free(q);
}

/* Another context, layout, number of levels or version is refused with words that say what differs.
 */
START_TEST(mismatches_say_what_differs)
{
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    must_differ(&o, "policy=per-key-v2 header=kind",
                "the snapshot is of \"" CONTEXT "\", this configuration "
                "is \"policy=per-key-v2 header=kind\"");
    o.bins = 49;
    must_differ(&o, CONTEXT, "48 bins from 1 to 600000 ms, this configuration 49 bins");
    hb_predictor_options_init(&o);
    o.max_ms = 1e9;
    must_differ(&o, CONTEXT, "this configuration 48 bins from 1 to 1e+09 ms");
    hb_predictor_options_init(&o);
    o.levels = 5;
    must_differ(&o, CONTEXT, "3 levels, this configuration 5");

    struct hb_predictor *p = taught(3), *q = make(10);
    struct buf b = encoded(p, 0);
    for (int version = 0; version < 3; version++) {
        struct err err = {0};
        b.p[8] = (char)version;
        int r = decode(q, b.p, b.n, &err);
        ck_assert_int_eq(r, version == SNAPSHOT_VERSION ? 0 : ERR_MISMATCH);
        ck_assert(r == 0 || strstr(err.msg, "this program reads version 1") != NULL);
    }
    buf_fini(&b);
    hb_predictor_free(p);
    hb_predictor_free(q);
}
END_TEST

/* Other options may change across a restart. */
START_TEST(thresholds_may_change)
{
    struct hb_predictor *p = taught(20);
    struct buf b = encoded(p, SECONDS(20));
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    o.min_samples = 1000;
    o.decay = 0.9;
    o.max_keys = 77;
    struct hb_predictor *q = hb_predictor_new(&o);
    struct err err = {0};
    ck_assert_int_eq(decode(q, b.p, b.n, &err), 0);
    ck_assert_int_eq(reason(q, name_of(8), SECONDS(1)), HB_COLD_KEY);
    buf_fini(&b);
    hb_predictor_free(p);
    hb_predictor_free(q);
}
END_TEST

/* The checksum is CRC-32C: the check value and a vector of RFC 3720, and any length. */
START_TEST(crc32c_known_values)
{
    unsigned char bytes[32] = {0};
    ck_assert_uint_eq(crc32c("123456789", 9), 0xE3069283);
    ck_assert_uint_eq(crc32c(bytes, 32), 0x8A9136AA);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    ck_assert_uint_eq(crc32c(bytes, 32), 0x46DD794E);
    ck_assert_uint_eq(crc32c("", 0), 0);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {
        restores_everything,   the_newest_keys_win,           ages_survive,
        damage_is_refused,     forged_content_breaks_nothing, mismatches_say_what_differs,
        thresholds_may_change, crc32c_known_values,           NULL};
    return suite_of("snapshot", tests);
}
