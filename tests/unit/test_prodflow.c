#include "trace/gen_prodflow.h"

#include "base/err.h"
#include "lib/testmain.h"
#include "trace/mt64.h"

#include <math.h>
#include <stdlib.h>

/* The generator is the published one: its first and its 10,000th output for the standard's seed. */
START_TEST(the_mersenne_twister_is_the_standard_one)
{
    struct mt64 r;
    uint64_t x = 0;
    mt64_seed(&r, 5489);
    ck_assert_uint_eq(mt64_next(&r), UINT64_C(14514284786278117030));
    for (int i = 1; i < 10000; i++)
        x = mt64_next(&r);
    ck_assert_uint_eq(x, UINT64_C(9981545732273789042)); /* as the C++ standard states */
}
END_TEST

/* Each seed gives exactly the reference's messages, by phase and by type. */
START_TEST(seeds_give_the_references_messages)
{
    static const struct {
        uint64_t seed;
        size_t n, phases[PRODFLOW_N_PHASES], types[PRODFLOW_N_TYPES];
    } vectors[] = {
        {11,
         34956,
         {5093, 3812, 11911, 6511, 7629},
         {5014, 5111, 6713, 2299, 3210, 7568, 1515, 3479, 47}},
        {22,
         35056,
         {5078, 3868, 12013, 6380, 7717},
         {5039, 4985, 6784, 2224, 3391, 7519, 1533, 3525, 56}},
        {33,
         34766,
         {5134, 3863, 11859, 6393, 7517},
         {4977, 4952, 6838, 2208, 3310, 7470, 1529, 3432, 50}},
    };
    for (size_t v = 0; v < ARRAY_SIZE(vectors); v++) {
        struct prodflow_options o;
        struct prodflow_job *jobs;
        size_t n, phases[PRODFLOW_N_PHASES] = {0}, types[PRODFLOW_N_TYPES] = {0};
        prodflow_options_init(&o, vectors[v].seed);
        ck_assert_int_eq(prodflow_generate(&o, &jobs, &n), 0);
        ck_assert_uint_eq(n, vectors[v].n);
        for (size_t i = 0; i < n; i++) {
            phases[jobs[i].phase]++;
            types[jobs[i].type]++;
            ck_assert(i == 0 || jobs[i].arrival_us >= jobs[i - 1].arrival_us);
        }
        for (int p = 0; p < PRODFLOW_N_PHASES; p++)
            ck_assert_uint_eq(phases[p], vectors[v].phases[p]);
        for (int t = 0; t < PRODFLOW_N_TYPES; t++)
            ck_assert_uint_eq(types[t], vectors[v].types[t]);
        free(jobs);
    }
}
END_TEST

/* And its costs: the published boundaries of the oracle for seed 11, in both calibrations, as far as
 * their published digits go. */
START_TEST(seed_11_has_the_references_boundaries)
{
    static const struct {
        const char *calibration;
        double boundaries[2], within;
    } vectors[] = {
        {"v2", {6.1225, 15.5701}, 0.001},
        {"v3-aging", {6.447, 17.010}, 0.001},
    };
    struct prodflow_options o;
    struct prodflow_job *jobs;
    size_t n;
    prodflow_options_init(&o, 11);
    ck_assert_int_eq(prodflow_generate(&o, &jobs, &n), 0);
    for (size_t v = 0; v < ARRAY_SIZE(vectors); v++) {
        double b[2];
        const struct prodflow_calibration *c = prodflow_calibration(vectors[v].calibration);
        ck_assert_ptr_nonnull(c);
        ck_assert_int_eq(prodflow_boundaries(jobs, n, c, b), 0);
        ck_assert_double_eq_tol(b[0], vectors[v].boundaries[0], vectors[v].within);
        ck_assert_double_eq_tol(b[1], vectors[v].boundaries[1], vectors[v].within);
    }
    free(jobs);
}
END_TEST

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The published quantiles of each type's planned cost, seed 11. */
START_TEST(seed_11_has_the_references_costs)
{
    static const struct {
        enum prodflow_type type;
        double p50, p99;
    } vectors[] = {
        {PRODFLOW_SEND_ORDER_EMAIL, 35, 109},
        {PRODFLOW_GENERATE_INVOICE, 4.9, 10.7},
        {PRODFLOW_RESERVE_INVENTORY, 6.0, 15.2},
        {PRODFLOW_RESIZE_IMAGE, 16.8, 136},
        {PRODFLOW_REINDEX_PRODUCT, 2.4, 4.4},
        {PRODFLOW_PUSH_NOTIFICATION, 9.0, 20.6},
        {PRODFLOW_SEND_SMS, 80, 198},
        {PRODFLOW_DELIVER_WEBHOOK, 45, 470},
        {PRODFLOW_EXPORT_REPORT, 1695, 2609},
    };
    struct prodflow_options o;
    struct prodflow_job *jobs;
    size_t n;
    prodflow_options_init(&o, 11);
    ck_assert_int_eq(prodflow_generate(&o, &jobs, &n), 0);
    double *ms = calloc(n, sizeof *ms);
    ck_assert_ptr_nonnull(ms);
    for (size_t v = 0; v < ARRAY_SIZE(vectors); v++) {
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            if (jobs[i].type == vectors[v].type)
                ms[k++] = prodflow_planned_ms(&jobs[i], prodflow_calibration("v2"));
        qsort(ms, k, sizeof *ms, by_value);
        double p50 = ms[(size_t)ceil((double)k * 0.5) - 1];
        double p99 = ms[(size_t)ceil((double)k * 0.99) - 1];
        ck_assert_msg(fabs(p50 / vectors[v].p50 - 1) < 0.02, "type %zu: %g", v, p50);
        ck_assert_msg(fabs(p99 / vectors[v].p99 - 1) < 0.02, "type %zu: %g", v, p99);
    }
    free(ms);
    free(jobs);
}
END_TEST

/* Only webhooks fail, about one in fifty, and the timeout is not in the planned cost. */
START_TEST(webhooks_alone_fail)
{
    struct prodflow_options o;
    struct prodflow_job *jobs;
    size_t n, failing = 0, webhooks = 0;
    prodflow_options_init(&o, 44);
    ck_assert_int_eq(prodflow_generate(&o, &jobs, &n), 0);
    for (size_t i = 0; i < n; i++) {
        uint64_t size;
        webhooks += jobs[i].type == PRODFLOW_DELIVER_WEBHOOK;
        failing += jobs[i].fails;
        ck_assert(!jobs[i].fails || jobs[i].type == PRODFLOW_DELIVER_WEBHOOK);
        ck_assert(!jobs[i].fails ||
                  prodflow_planned_ms(&jobs[i], prodflow_calibration("v2")) < 400);
        ck_assert_int_eq(prodflow_size_hint(&jobs[i], &size),
                         jobs[i].type == PRODFLOW_RESIZE_IMAGE ||
                             jobs[i].type == PRODFLOW_GENERATE_INVOICE ||
                             jobs[i].type == PRODFLOW_EXPORT_REPORT);
    }
    double share = (double)failing / (double)webhooks;
    ck_assert_double_gt(share, 0.01);
    ck_assert_double_lt(share, 0.03);
    free(jobs);
}
END_TEST

/* Phases stretch with the run; what makes no sense is refused. */
START_TEST(options_are_checked)
{
    struct prodflow_options o;
    struct prodflow_job *jobs;
    size_t n, flash = 0;
    prodflow_options_init(&o, 11);
    o.seconds = 1800;
    ck_assert_int_eq(prodflow_generate(&o, &jobs, &n), 0);
    for (size_t i = 0; i < n; i++) {
        bool inside = jobs[i].arrival_us >= 540000000 && jobs[i].arrival_us < 900000000;
        ck_assert_int_eq(jobs[i].phase == PRODFLOW_FLASH, inside);
        flash += inside;
    }
    ck_assert_uint_gt(flash, 70000); /* 199.6 per second */
    free(jobs);
    ck_assert_ptr_null(prodflow_calibration("v4"));
    static const double bad[] = {0, -1, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        prodflow_options_init(&o, 11);
        o.seconds = bad[i];
        ck_assert_int_eq(prodflow_generate(&o, &jobs, &n), ERR_INVALID);
        prodflow_options_init(&o, 11);
        o.rate_scale = bad[i];
        ck_assert_int_eq(prodflow_generate(&o, &jobs, &n), ERR_INVALID);
    }
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {the_mersenne_twister_is_the_standard_one,
                                  seeds_give_the_references_messages,
                                  seed_11_has_the_references_boundaries,
                                  seed_11_has_the_references_costs,
                                  webhooks_alone_fail,
                                  options_are_checked,
                                  NULL};
    return suite_of("prodflow", tests);
}
