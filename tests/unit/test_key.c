#include "flow/key.h"

#include "base/err.h"
#include "lib/testmain.h"

#include <stdio.h>
#include <stdlib.h>

/* Headers of a test message: name=value pairs. */
struct headers {
    const char *name, *value;
};

static struct text header(const void *message, const char *name, char scratch[JOB_SCRATCH_BYTES])
{
    for (const struct headers *h = message; h->name != NULL; h++)
        if (strcmp(h->name, name) == 0)
            return text_of(h->value);
    return (struct text){NULL, 0};
}

static const struct key_rules defaults = {
    .producer = {{KEY_USER_ID, NULL}, {KEY_APP_ID, NULL}},
    .n_producer = 2,
    .label = {{KEY_HEADER, "job_type"}, {KEY_HEADER, "task"}, {KEY_TYPE, NULL}},
    .n_label = 3,
};

static const char *printed(const struct key_rules *rules, const struct job *job)
{
    static char out[KEY_PRINT_BYTES];
    char scratch[JOB_SCRATCH_BYTES];
    struct key k;
    struct text label;
    key_of(rules, job, &k, &label, scratch);
    key_print(&k, out);
    return out;
}

/* The first source with a usable text wins; without any, the producer is "-" and there is no label.
 */
START_TEST(first_usable_source_wins)
{
    struct headers h[] = {{"task", "pdf"}, {NULL, NULL}};
    struct job job = {.message = h, .header = header};
    ck_assert_str_eq(printed(&defaults, &job), "-/pdf");
    job.app_id = text_of("shop");
    job.type = text_of("other");
    ck_assert_str_eq(printed(&defaults, &job), "shop/pdf");
    job.user_id = text_of("alice");
    ck_assert_str_eq(printed(&defaults, &job), "alice/pdf");
    h[0].name = "elsewhere";
    ck_assert_str_eq(printed(&defaults, &job), "alice/other");
    job.type = (struct text){NULL, 0};
    ck_assert_str_eq(printed(&defaults, &job), "alice");
}
END_TEST

/* A label over 128 bytes or with a control character leaves the producer alone (facts, difference
 * 4). */
START_TEST(bad_label_leaves_the_producer)
{
    char big[130];
    memset(big, 'x', 129);
    big[129] = '\0';
    struct headers h[] = {{"job_type", big}, {NULL, NULL}};
    struct job job = {.app_id = text_of("a"), .message = h, .header = header};
    ck_assert_str_eq(printed(&defaults, &job), "a");
    big[128] = '\0';
    ck_assert_uint_eq(strlen(printed(&defaults, &job)), 2 + 128);
    big[5] = '\n';
    ck_assert_str_eq(printed(&defaults, &job), "a");
}
END_TEST

/* A producer cannot write the separator into its name and so borrow another's history. */
START_TEST(separator_cannot_be_forged)
{
    struct headers none[] = {{NULL, NULL}};
    struct job job = {.app_id = text_of("victim\x1fpdf"), .message = none, .header = header};
    ck_assert_str_eq(printed(&defaults, &job), "-");
    job.app_id = text_of("victim/pdf");
    ck_assert_str_eq(printed(&defaults, &job), "victim%2Fpdf");
}
END_TEST

/* Producer and label of 128 bytes make 257: no valid key, so no prediction. */
START_TEST(over_256_bytes_is_no_key)
{
    char big[129];
    memset(big, 'x', 128);
    big[128] = '\0';
    struct headers h[] = {{"job_type", big}, {NULL, NULL}};
    struct job job = {.app_id = text_of(big), .message = h, .header = header};
    ck_assert_str_eq(printed(&defaults, &job), "");
    big[127] = '\0';
    job.app_id = text_of(big);
    ck_assert_uint_eq(strlen(printed(&defaults, &job)), 255);
}
END_TEST

/* A size bin is a part of its own, found again as the parent on the way back, with and without a
 * label. */
START_TEST(size_bin_and_its_parent)
{
    static const struct {
        const char *label, *size, *key, *parent;
    } rows[] = {
        {"pdf", "5000", "a/pdf/s12", "a/pdf"},
        {NULL, "5000", "a//s12", "a"},
        {"pdf", "0", "a/pdf/s0", "a/pdf"},
        {"pdf", "1e3", "a/pdf/s9", "a/pdf"},
        {"pdf", "-1", "a/pdf", ""},
        {"pdf", "nan", "a/pdf", ""},
        {"pdf", "12 kB", "a/pdf", ""},
        {"s12", NULL, "a/s12", ""},
    };
    struct key_rules rules = defaults;
    rules.size = (struct key_source){KEY_HEADER, "size"};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct headers h[3] = {{"job_type", rows[i].label}, {"size", rows[i].size}, {NULL, NULL}};
        if (rows[i].label == NULL)
            h[0] = (struct headers){"unused", ""};
        if (rows[i].size == NULL)
            h[1] = (struct headers){"unused", ""};
        struct job job = {.app_id = text_of("a"), .message = h, .header = header};
        const char *text = printed(&rules, &job);
        ck_assert_str_eq(text, rows[i].key);

        struct key k, parent;
        char again[KEY_PRINT_BYTES];
        ck_assert_int_eq(key_parse(text_of(text), &k), 0);
        parent = (struct key){.n = key_parent(&k).n};
        memcpy(parent.raw, k.raw, parent.n);
        key_print(&parent, again);
        ck_assert_str_eq(again, rows[i].parent);
    }
}
END_TEST

/* Any key prints to plain ASCII and reads back as the same bytes. */
START_TEST(printed_form_round_trips)
{
    srand(3);
    for (int round = 0; round < 20000; round++) {
        struct key k = {0}, again;
        k.n = 1 + (size_t)rand() % KEY_MAX_BYTES;
        for (size_t i = 0; i < k.n; i++) {
            do
                k.raw[i] = (char)(rand() & 0xff);
            while ((unsigned char)k.raw[i] < 0x20 || k.raw[i] == 0x7f);
        }
        char text[KEY_PRINT_BYTES];
        size_t n = key_print(&k, text);
        bool plain = true;
        for (size_t i = 0; i < n; i++)
            plain = plain && text[i] > 0x20 && text[i] < 0x7f;
        ck_assert(plain);
        ck_assert_int_eq(key_parse((struct text){text, n}, &again), 0);
        ck_assert_uint_eq(again.n, k.n);
        ck_assert_mem_eq(again.raw, k.raw, k.n);
    }
}
END_TEST

/* What workers send back is input: nothing but the printed form is a key. */
START_TEST(other_text_is_no_key)
{
    static const char *const bad[] = {"",     "a b",  "a%",      "a%2",  "a%zz",
                                      "a%1F", "a%0a", "a/b/c/d", "\xff", "a\x1f"};
    struct key k;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_int_eq(key_parse(text_of(bad[i]), &k), ERR_INVALID);
    char big[300];
    memset(big, 'x', sizeof big);
    ck_assert_int_eq(key_parse((struct text){big, 257}, &k), ERR_INVALID);
    ck_assert_int_eq(key_parse((struct text){big, 256}, &k), 0);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {first_usable_source_wins,   bad_label_leaves_the_producer,
                                  separator_cannot_be_forged, over_256_bytes_is_no_key,
                                  size_bin_and_its_parent,    printed_form_round_trips,
                                  other_text_is_no_key,       NULL};
    return suite_of("key", tests);
}
