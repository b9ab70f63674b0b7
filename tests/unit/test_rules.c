#include "sidecar/rules.h"
#include "sidecar/topology_of.h"

#include "lib/testmain.h"

#include <string.h>

static struct conf loaded(const char *text)
{
    struct conf c;
    struct conf_errors errors = {0};
    int r = conf_load_text("test", text, strlen(text), &c, &errors);
    ck_assert_msg(r == 0, "%s", errors.n > 0 ? errors.line[0] : "");
    return c;
}

/* The built-in defaults are the reference's numbers: whoever changes one in either place hears of
 * it. */
START_TEST(defaults_are_the_references)
{
    struct conf c;
    struct flow_options o;
    struct hb_predictor_options reference;
    ck_assert_int_eq(conf_init_defaults(&c), 0);
    rules_flow_options(&c, &o);
    hb_predictor_options_init(&reference);
    memcpy(reference.seed, o.predictor.seed, sizeof reference.seed);
    const struct hb_predictor_options *p = &o.predictor, *r = &reference;
    ck_assert_uint_eq(p->levels, r->levels);
    ck_assert_uint_eq(p->default_level, r->default_level);
    ck_assert_int_eq(p->summary, r->summary);
    ck_assert_uint_eq(p->min_samples, r->min_samples);
    ck_assert_double_eq(p->spread_quantile, r->spread_quantile);
    ck_assert_double_eq(p->max_spread_ratio, r->max_spread_ratio);
    ck_assert_double_eq(p->max_censored, r->max_censored);
    ck_assert_int_eq(p->stale_after_ns, r->stale_after_ns);
    ck_assert_double_eq(p->decay, r->decay);
    ck_assert_double_eq(p->pooled_decay, r->pooled_decay);
    ck_assert_int_eq(p->half_life_ns, r->half_life_ns);
    ck_assert_uint_eq(p->bins, r->bins);
    ck_assert_double_eq(p->min_ms, r->min_ms);
    ck_assert_double_eq(p->max_ms, r->max_ms);
    ck_assert_uint_eq(p->boundary_every, r->boundary_every);
    ck_assert_uint_eq(p->pooled_min_samples, r->pooled_min_samples);
    ck_assert_double_eq(p->hysteresis, r->hysteresis);
    ck_assert_uint_eq(p->max_keys, r->max_keys);
    ck_assert_int_eq(p->idle_eviction_ns, r->idle_eviction_ns);
    ck_assert_int_eq(p->cold_eviction_ns, r->cold_eviction_ns);
    ck_assert_int_eq(o.rules.mode, FLOW_PREDICTIVE);
    ck_assert_double_eq(o.rules.max_duration_ms, 30 * 60 * 1000);
    conf_fini(&c);
}
END_TEST

/* Sources, modes and the hand-written map arrive in the flow as they were written. */
START_TEST(rules_follow_the_file)
{
    struct conf c =
        loaded("mode: static\n"
               "work:\n  respect_priority: nonzero\n"
               "key:\n  producer: [app_id]\n  label: [header:task, type]\n  size: header:bytes\n"
               "static:\n  slow: 2\n");
    struct flow_rules r;
    rules_of(&c, &r);
    ck_assert_int_eq(r.mode, FLOW_STATIC);
    ck_assert_int_eq(r.respect_priority, FLOW_RESPECT_NONZERO);
    ck_assert_uint_eq(r.key.n_producer, 1);
    ck_assert_int_eq(r.key.producer[0].kind, KEY_APP_ID);
    ck_assert_uint_eq(r.key.n_label, 2);
    ck_assert_str_eq(r.key.label[0].header, "task");
    ck_assert_int_eq(r.key.label[1].kind, KEY_TYPE);
    ck_assert_str_eq(r.key.size.header, "bytes");
    ck_assert_int_eq(r.static_level(r.static_ctx, text_of("slow")), 2);
    ck_assert_int_eq(r.static_level(r.static_ctx, text_of("other")), -1);
    conf_fini(&c);
}
END_TEST

/* A snapshot belongs to the key's sources: two that differ anywhere have different contexts. */
START_TEST(snapshot_context_tells_key_rules_apart)
{
    static const char *const files[] = {"", "key:\n  size: body\n", "key:\n  size: header:body\n",
                                        "key:\n  producer: [app_id]\n", "key:\n  label: [type]\n"};
    struct buf seen[ARRAY_SIZE(files)] = {0};
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct conf c = loaded(files[i][0] != '\0' ? files[i] : "mode: shadow\n");
        ck_assert_int_eq(rules_snapshot_context(&c, &seen[i]), 0);
        for (size_t k = 0; k < i; k++)
            ck_assert_str_ne(seen[i].p, seen[k].p);
        conf_fini(&c);
    }
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        buf_fini(&seen[i]);
}
END_TEST

static const struct topology_object *object(const struct topology_of *t, const char *name,
                                            enum topology_kind kind)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->objects[i].kind == kind && strcmp(t->objects[i].name, name) == 0)
            return &t->objects[i];
    return NULL;
}

/* Three levels are priorities 0..2; one level needs none, so the queue is an ordinary one. */
START_TEST(work_queue_has_one_priority_less_than_levels)
{
    static const struct {
        const char *file;
        size_t n_args;
        int64_t max;
    } rows[] = {{"levels: 3\n", 1, 2},
                {"levels: 1\n", 0, 0},
                {"levels: 2\nwork:\n  priorities: [9, 4]\n", 1, 9}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct conf c = loaded(rows[i].file);
        struct topology_of t;
        topology_of(&c, &t);
        const struct topology_object *work = object(&t, "harbinger.work", TOPOLOGY_QUEUE);
        ck_assert_uint_eq(work->n_args, rows[i].n_args);
        if (rows[i].n_args > 0)
            ck_assert_int_eq(work->args[0].number, rows[i].max);
        conf_fini(&c);
    }
}
END_TEST

/* Behind a named exchange there may be any queue: the exchange must exist, and no work queue is
 * made. */
START_TEST(named_exchange_must_exist_and_makes_no_queue)
{
    struct conf c = loaded("work:\n  exchange: jobs\n");
    struct topology_of t;
    topology_of(&c, &t);
    ck_assert_ptr_null(object(&t, "harbinger.work", TOPOLOGY_QUEUE));
    ck_assert(object(&t, "jobs", TOPOLOGY_EXCHANGE)->must_exist);
    ck_assert(object(&t, "harbinger.intake", TOPOLOGY_QUEUE)->any_arguments);
    ck_assert_str_eq(object(&t, "harbinger.reports", TOPOLOGY_BINDING)->type, "harbinger.reports");
    conf_fini(&c);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {defaults_are_the_references,
                                  rules_follow_the_file,
                                  snapshot_context_tells_key_rules_apart,
                                  work_queue_has_one_priority_less_than_levels,
                                  named_exchange_must_exist_and_makes_no_queue,
                                  NULL};
    return suite_of("rules", tests);
}
