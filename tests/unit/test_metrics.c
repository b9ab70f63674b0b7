#include "http/metrics.h"

#include "base/buf.h"
#include "lib/testmain.h"

#include <math.h>
#include <string.h>

/* A family's help and type stand once, before its samples, each on a line of its own. */
START_TEST(families_are_written_as_the_format_wants)
{
    struct buf out = {0};
    struct metrics m;
    static const struct metrics_label labels[] = {{"reason", "cold_key"}, {"mode", "shadow"}};
    metrics_init(&m, &out);
    metrics_family(&m, METRICS_COUNTER, "x_total", "Things.");
    metrics_sample_u64(&m, NULL, 0, UINT64_MAX);
    metrics_family(&m, METRICS_GAUGE, "y", "Other things.");
    metrics_sample(&m, labels, 2, 1.5);
    metrics_sample(&m, labels, 1, -3);
    ck_assert_int_eq(metrics_end(&m), 0);
    ck_assert_str_eq(
        out.p, "# HELP x_total Things.\n# TYPE x_total counter\nx_total 18446744073709551615\n"
               "# HELP y Other things.\n# TYPE y gauge\n"
               "y{reason=\"cold_key\",mode=\"shadow\"} 1.5\ny{reason=\"cold_key\"} -3\n");
    buf_fini(&out);
}
END_TEST

/* A label value cannot end its quotes or its line; a help text cannot end its line. */
START_TEST(texts_are_escaped)
{
    struct buf out = {0};
    struct metrics m;
    static const struct metrics_label label = {"l", "a\\b\"c\nd"};
    metrics_init(&m, &out);
    metrics_family(&m, METRICS_GAUGE, "g", "One\nand \\ and \"two\".");
    metrics_sample(&m, &label, 1, 0);
    ck_assert_int_eq(metrics_end(&m), 0);
    ck_assert_str_eq(
        out.p,
        "# HELP g One\\nand \\\\ and \"two\".\n# TYPE g gauge\ng{l=\"a\\\\b\\\"c\\nd\"} 0\n");
    buf_fini(&out);
}
END_TEST

/* Values that are no numbers have the format's own names. */
START_TEST(special_values_have_their_names)
{
    struct buf out = {0};
    struct metrics m;
    metrics_init(&m, &out);
    metrics_family(&m, METRICS_GAUGE, "g", "G.");
    metrics_sample(&m, NULL, 0, (double)NAN);
    metrics_sample(&m, NULL, 0, HUGE_VAL);
    metrics_sample(&m, NULL, 0, -HUGE_VAL);
    metrics_sample(&m, NULL, 0, 0.1);
    ck_assert_int_eq(metrics_end(&m), 0);
    ck_assert_str_eq(strstr(out.p, "gauge\n"), "gauge\ng NaN\ng +Inf\ng -Inf\ng 0.1\n");
    buf_fini(&out);
}
END_TEST

/* Buckets are cumulative, the last one is +Inf and equals the count. */
START_TEST(histograms_are_cumulative)
{
    struct buf out = {0};
    struct metrics m;
    static const double bounds[] = {0.001, 0.25, 10};
    static const uint64_t counts[] = {1, 0, 2, 4};
    static const struct metrics_label label = {"level", "0"};
    metrics_init(&m, &out);
    metrics_family(&m, METRICS_HISTOGRAM, "h_seconds", "H.");
    metrics_sample_histogram(&m, &label, 1, &(struct metrics_histogram){bounds, counts, 3, 52.5});
    ck_assert_int_eq(metrics_end(&m), 0);
    ck_assert_str_eq(
        out.p,
        "# HELP h_seconds H.\n# TYPE h_seconds histogram\n"
        "h_seconds_bucket{level=\"0\",le=\"0.001\"} 1\nh_seconds_bucket{level=\"0\",le=\"0.25\"} "
        "1\n"
        "h_seconds_bucket{level=\"0\",le=\"10\"} 3\nh_seconds_bucket{level=\"0\",le=\"+Inf\"} 7\n"
        "h_seconds_sum{level=\"0\"} 52.5\nh_seconds_count{level=\"0\"} 7\n");
    buf_fini(&out);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {families_are_written_as_the_format_wants, texts_are_escaped,
                                  special_values_have_their_names, histograms_are_cumulative, NULL};
    return suite_of("metrics", tests);
}
