#include "flow/flow.h"

#include "flow/id.h"
#include "lib/testmain.h"
#include "port/backend_impl.h"

#include <stdio.h>
#include <string.h>

/* A backend that remembers the latest ticket. */
struct fake {
    struct backend backend;
    int answer;
    unsigned level;
    bool keep_priority, predicted;
    double predicted_ms, estimate_ms;
    const char *reason;
    char id[ID_PRINT_BYTES], key[KEY_PRINT_BYTES];
};

static int fake_submit(struct backend *b, void *message, const struct ticket *t)
{
    struct fake *f = CONTAINER_OF(b, struct fake, backend);
    f->level = t->level;
    f->keep_priority = t->keep_priority;
    f->reason = t->reason;
    f->predicted = t->predicted;
    f->predicted_ms = t->predicted_ms;
    f->estimate_ms = t->estimate_ms;
    snprintf(f->id, sizeof f->id, "%.*s", (int)t->id.n, t->id.p);
    snprintf(f->key, sizeof f->key, "%.*s", (int)t->key.n, t->key.p);
    return f->answer;
}

static const struct backend_ops fake_ops = {"fake", fake_submit};

static struct text no_header(const void *message, const char *name, char scratch[JOB_SCRATCH_BYTES])
{
    return (struct text){NULL, 0};
}

static int level_by_hand(const void *ctx, struct text label)
{
    return text_equal(label, text_of("fast")) ? 0 : -1;
}

static struct flow_options options(enum flow_mode mode)
{
    struct flow_options o = {
        .rules = {.mode = mode,
                  .key = {.producer = {{KEY_APP_ID, NULL}},
                          .n_producer = 1,
                          .label = {{KEY_TYPE, NULL}},
                          .n_label = 1},
                  .max_duration_ms = 1000,
                  .static_level = level_by_hand},
        .remembered_ids = 100,
        .instance = 0xabc,
        .seed = {1, 2},
    };
    hb_predictor_options_init(&o.predictor);
    return o;
}

static void submit(struct flow *f, struct fake *b, const char *type, mono_t now)
{
    struct job job = {.app_id = text_of("p"), .type = text_of(type), .header = no_header};
    ck_assert_int_eq(flow_submit(f, &b->backend, NULL, &job, now), b->answer);
}

static void report(struct flow *f, const char *id, const char *key, double ms, mono_t now)
{
    struct report r = {
        .id = text_of(id), .key = text_of(key), .duration_ms = ms, .has_duration = true};
    flow_report(f, &r, now);
}

/* Teaches three keys, 1, 50 and 900 ms, 50 durations each. */
static void teach(struct flow *f, mono_t now)
{
    for (int i = 0; i < 50; i++) {
        report(f, "", "p/fast", 1.2, now);
        report(f, "", "p/medium", 50, now);
        report(f, "", "p/slow", 900, now);
    }
}

/* The whole circle: cold keys take the default level, learned ones the level of their duration. */
START_TEST(learned_keys_get_their_level)
{
    struct flow_options o = options(FLOW_PREDICTIVE);
    struct flow *f = flow_new(&o, NULL);
    struct fake b = {.backend = {&fake_ops}};
    submit(f, &b, "slow", 1);
    ck_assert_uint_eq(b.level, 1);
    ck_assert_str_eq(b.reason, "unready");
    ck_assert_str_eq(b.key, "p/slow");
    ck_assert_str_eq(b.id, "abc-1-1-x");
    teach(f, 2);
    static const struct {
        const char *type;
        unsigned level;
    } rows[] = {{"fast", 0}, {"medium", 1}, {"slow", 2}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        submit(f, &b, rows[i].type, 3);
        ck_assert_uint_eq(b.level, rows[i].level);
        ck_assert_str_eq(b.reason, "predicted");
    }
    submit(f, &b, "unknown", 3);
    ck_assert_uint_eq(b.level, 1);
    ck_assert_str_eq(b.reason, "cold_key");
    ck_assert_uint_eq(flow_stats(f)->jobs, 5);
    ck_assert_uint_eq(flow_stats(f)->by_level[1], 3);
    ck_assert_uint_eq(flow_stats(f)->reports[FLOW_LEARNED], 150);
    flow_free(f);
}
END_TEST

/* Shadow serves the default level, and its ids carry the prediction all the same. */
START_TEST(shadow_records_and_does_not_route)
{
    struct flow_options o = options(FLOW_SHADOW);
    struct flow *f = flow_new(&o, NULL);
    struct fake b = {.backend = {&fake_ops}};
    teach(f, 2);
    submit(f, &b, "slow", 3);
    ck_assert_uint_eq(b.level, 1);
    ck_assert_str_eq(b.reason, "shadow");
    struct id id;
    ck_assert_int_eq(id_parse(text_of(b.id), &id), 0);
    ck_assert_uint_eq(id.level, 2);
    ck_assert(id.estimate_us > 500000 && id.estimate_us < 1300000);
    report(f, b.id, b.key, 900, 4);
    struct hb_predictor_stats s;
    hb_predictor_stats(flow_predictor(f), &s);
    ck_assert_uint_eq(s.scored, 1);
    ck_assert_uint_eq(s.matches, 1);
    flow_free(f);
}
END_TEST

/* The order of service may count with an estimate in predictive mode alone; shadow only notes it. */
START_TEST(shadow_estimates_charge_nothing)
{
    static const enum flow_mode modes[] = {FLOW_PREDICTIVE, FLOW_SHADOW, FLOW_STATIC};
    for (int i = 0; i < 3; i++) {
        struct flow_options o = options(modes[i]);
        struct flow *f = flow_new(&o, NULL);
        struct fake b = {.backend = {&fake_ops}};
        teach(f, 2);
        submit(f, &b, "slow", 3);
        ck_assert_int_eq(b.predicted, modes[i] != FLOW_STATIC);
        ck_assert(b.predicted ? b.predicted_ms > 500 : b.predicted_ms == 0);
        ck_assert(modes[i] == FLOW_PREDICTIVE ? b.estimate_ms == b.predicted_ms
                                              : b.estimate_ms < 0);
        flow_free(f);
    }
}
END_TEST

/* A settlement teaches and is scored as a report is; above the longest duration it does not; an
 * overrun lease marks the key. */
START_TEST(settlements_teach)
{
    struct flow_options o = options(FLOW_PREDICTIVE);
    struct flow *f = flow_new(&o, NULL);
    struct hb_lesson lesson = {.key = {"p\x1f"
                                       "job",
                                       5},
                               .parent = {"p", 1},
                               .predicted = true,
                               .level = 1};
    lesson.estimate_ms = 30;
    for (int i = 0; i < 20; i++) {
        lesson.duration_ms = 40;
        flow_learn(f, &lesson, 1);
    }
    lesson.duration_ms = 1000.5;
    flow_learn(f, &lesson, 1);
    flow_censor(f, lesson.key, lesson.parent, 1);
    ck_assert_uint_eq(flow_stats(f)->settled, 20);
    ck_assert_uint_eq(flow_stats(f)->overrun, 1);
    ck_assert_uint_eq(flow_stats(f)->reports[FLOW_TOO_LONG], 1);
    struct hb_predictor_stats s;
    hb_predictor_stats(flow_predictor(f), &s);
    ck_assert_uint_eq(s.scored, 20);
    ck_assert_uint_eq(s.observations, 20);
    ck_assert_uint_eq(s.censored, 1);
    flow_free(f);
}
END_TEST

/* Static mode follows the map, asks no predictor, and learns nonetheless; new rules switch at once.
 */
START_TEST(static_follows_the_map_and_rules_switch)
{
    struct flow_options o = options(FLOW_STATIC);
    struct flow *f = flow_new(&o, NULL);
    struct fake b = {.backend = {&fake_ops}};
    teach(f, 2);
    submit(f, &b, "fast", 3);
    ck_assert_uint_eq(b.level, 0);
    submit(f, &b, "slow", 3);
    ck_assert_uint_eq(b.level, 1);
    ck_assert_str_eq(b.reason, "static");
    struct hb_predictor_stats s;
    hb_predictor_stats(flow_predictor(f), &s);
    ck_assert_uint_eq(s.lookups, 0);
    o.rules.mode = FLOW_PREDICTIVE;
    flow_set_rules(f, &o.rules);
    submit(f, &b, "slow", 3);
    ck_assert_uint_eq(b.level, 2);
    flow_free(f);
}
END_TEST

/* Each kind of report ends in its own count, and only good ones teach. */
START_TEST(reports_are_counted_by_what_became_of_them)
{
    static const struct {
        const char *body;
        enum flow_report_result result;
    } rows[] = {
        {"{\"id\":\"1-1-0-x\",\"key\":\"p/a\",\"duration_ms\":1}", FLOW_LEARNED},
        {"{\"id\":\"1-1-0-x\",\"key\":\"p/a\",\"duration_ms\":1}", FLOW_DUPLICATE},
        {"{\"id\":\"1-2-0-x\",\"key\":\"p/a\",\"duration_ms\":0}", FLOW_LEARNED},
        {"{\"id\":\"1-3-0-x\",\"key\":\"p/a\",\"outcome\":\"error\"}", FLOW_ERROR},
        {"{\"id\":\"1-3-0-x\",\"key\":\"p/a\",\"duration_ms\":4}", FLOW_LEARNED},
        {"{\"id\":\"1-4-0-x\",\"key\":\"p/a\",\"outcome\":\"timeout\"}", FLOW_TIMEOUT},
        {"{\"id\":\"1-4-0-x\",\"key\":\"p/a\",\"duration_ms\":-0.5}", FLOW_NEGATIVE},
        {"{\"id\":\"1-4-0-x\",\"key\":\"p/a\",\"duration_ms\":1000.5}", FLOW_TOO_LONG},
        {"{\"id\":\"1-4-0-x\",\"key\":\"p/a\",\"duration_ms\":1000}", FLOW_LEARNED},
        {"{\"id\":\"1-5-0-x\",\"key\":\"p/a\"}", FLOW_MALFORMED},
        {"{\"id\":\"no id of ours\",\"key\":\"p/a\",\"duration_ms\":1}", FLOW_MALFORMED},
        {"{\"id\":\"1-6-0-x\",\"duration_ms\":1}", FLOW_NO_KEY},
        {"{\"id\":\"1-6-0-x\",\"key\":\"a b\",\"duration_ms\":1}", FLOW_NO_KEY},
        {"{\"key\":\"p/a\",\"duration_ms\":1}", FLOW_LEARNED},
        {"garbage", FLOW_MALFORMED},
    };
    struct flow_options o = options(FLOW_PREDICTIVE);
    struct flow *f = flow_new(&o, NULL);
    uint64_t expected[FLOW_N_RESULTS] = {0};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        flow_report_body(f, rows[i].body, strlen(rows[i].body), 1);
        expected[rows[i].result]++;
        for (int r = 0; r < FLOW_N_RESULTS; r++)
            ck_assert_msg(flow_stats(f)->reports[r] == expected[r], "row %zu: %s", i,
                          flow_report_result_name((enum flow_report_result)r));
    }
    struct hb_predictor_stats s;
    hb_predictor_stats(flow_predictor(f), &s);
    ck_assert_uint_eq(s.observations, expected[FLOW_LEARNED]);
    ck_assert_uint_eq(s.censored, 1);
    ck_assert_uint_eq(flow_stats(f)->no_id, 1);
    flow_free(f);
}
END_TEST

/* A message that the backend refuses is not counted, and its id is used by the next one. */
START_TEST(refused_messages_do_not_count)
{
    struct flow_options o = options(FLOW_PREDICTIVE);
    struct flow *f = flow_new(&o, NULL);
    struct fake b = {.backend = {&fake_ops}, .answer = BACKEND_FULL};
    submit(f, &b, "fast", 1);
    ck_assert_uint_eq(flow_stats(f)->jobs, 0);
    b.answer = 0;
    submit(f, &b, "fast", 1);
    ck_assert_str_eq(b.id, "abc-1-1-x");
    ck_assert_uint_eq(flow_stats(f)->jobs, 1);
    flow_free(f);
}
END_TEST

/* The producer's priority stands exactly when the rule says so. */
START_TEST(producer_priority_is_respected_by_rule)
{
    static const struct {
        enum flow_respect rule;
        bool has;
        uint8_t priority;
        bool kept;
    } rows[] = {
        {FLOW_RESPECT_NEVER, true, 5, false},   {FLOW_RESPECT_NONZERO, true, 5, true},
        {FLOW_RESPECT_NONZERO, true, 0, false}, {FLOW_RESPECT_ALWAYS, true, 0, true},
        {FLOW_RESPECT_ALWAYS, false, 0, false},
    };
    struct flow_options o = options(FLOW_PREDICTIVE);
    struct flow *f = flow_new(&o, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct fake b = {.backend = {&fake_ops}};
        o.rules.respect_priority = rows[i].rule;
        flow_set_rules(f, &o.rules);
        struct job job = {.app_id = text_of("p"),
                          .has_priority = rows[i].has,
                          .priority = rows[i].priority,
                          .header = no_header};
        ck_assert_int_eq(flow_submit(f, &b.backend, NULL, &job, 1), 0);
        ck_assert_int_eq(b.keep_priority, rows[i].kept);
    }
    flow_free(f);
}
END_TEST

/* After a whole period it says what makes it useless, and only then. */
START_TEST(advice_names_missing_reports_and_a_single_key)
{
    struct flow_options o = options(FLOW_PREDICTIVE);
    struct flow *f = flow_new(&o, NULL);
    struct fake b = {.backend = {&fake_ops}};
    struct flow_advice advice;
    ck_assert(!flow_advise(f, 1, &advice));
    for (int i = 0; i < 100; i++)
        submit(f, &b, "fast", 2);
    ck_assert(!flow_advise(f, 59 * MONO_S, &advice));
    ck_assert(flow_advise(f, 61 * MONO_S, &advice));
    ck_assert(advice.no_reports && advice.one_key);
    for (int i = 0; i < 100; i++)
        submit(f, &b, i % 2 ? "fast" : "slow", 62 * MONO_S);
    report(f, "", "p/fast", 1, 62 * MONO_S);
    ck_assert(flow_advise(f, 122 * MONO_S, &advice));
    ck_assert(!advice.no_reports && !advice.one_key);
    ck_assert(flow_advise(f, 300 * MONO_S, &advice));
    ck_assert(!advice.no_reports && !advice.one_key);
    flow_free(f);
}
END_TEST

/* A wrong option is named. */
START_TEST(bad_options_are_refused_with_words)
{
    struct flow_options o = options(FLOW_PREDICTIVE);
    struct err err;
    o.predictor.levels = 0;
    ck_assert_ptr_null(flow_new(&o, &err));
    ck_assert_int_eq(err.code, ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "levels"));
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {learned_keys_get_their_level,
                                  shadow_records_and_does_not_route,
                                  shadow_estimates_charge_nothing,
                                  settlements_teach,
                                  static_follows_the_map_and_rules_switch,
                                  reports_are_counted_by_what_became_of_them,
                                  refused_messages_do_not_count,
                                  producer_priority_is_respected_by_rule,
                                  advice_names_missing_reports_and_a_single_key,
                                  bad_options_are_refused_with_words,
                                  NULL};
    return suite_of("flow", tests);
}
