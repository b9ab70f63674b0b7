/* harbinger trace info: how much work a log holds, and whether its keys tell the cost. */
#include "cli/cli.h"
#include "cli/trace.h"
#include "trace/info.h"

#include <inttypes.h>
#include <unistd.h>

enum { SEVERAL_SECONDS = 2000000 }; /* jobs that take so long */

const struct local_option local_trace_info_options[] = {
    TRACE_LOAD_OPTIONS,
    {"seed", "N", "of the sample of near pairs [1]"},
    {"json", NULL, "one JSON object instead of text"},
    {0},
};

static json_t *spread_json(const struct info_spread *s)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "p25", s->p25, "p50", s->p50, "p75", s->p75, "p90",
                     s->p90);
}

static json_t *score_json(const struct info_score *s)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "median_abs_log2_error", s->median_error, "within_2x",
                     s->within_2x, "tier_accuracy", s->tier_accuracy, "mae_ms", s->mean_error_ms);
}

static json_t *predictability_json(const struct info *i)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:f, s:[f, f], s:o, s:o, s:o}", "train_jobs",
                     (json_int_t)i->taught, "test_jobs", (json_int_t)i->predicted, "train_keys",
                     (json_int_t)i->keys_taught, "routable_keys", (json_int_t)i->keys_routable,
                     "routable_share", i->jobs_routable, "unseen_share", i->jobs_unseen,
                     "boundaries_ms", i->terciles_ms[0], i->terciles_ms[1], "global",
                     score_json(&i->global), "per_key", score_json(&i->per_key), "per_key_gated",
                     score_json(&i->gated));
}

static json_t *durations_json(const struct info *i)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "mean", i->ms.mean,
                     "min", i->ms.min, "p25", i->ms.p25, "p50", i->ms.p50, "p75", i->ms.p75, "p90",
                     i->ms.p90, "p95", i->ms.p95, "p99", i->ms.p99, "p999", i->ms.p999, "max",
                     i->ms.max);
}

static int print_json(const struct info *i, const struct rows *rows)
{
    json_t *all = json_pack(
        "{s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:{s:o, s:o}}", "jobs", (json_int_t)i->jobs,
        "keys", (json_int_t)i->keys, "producers", (json_int_t)i->producers, "span_s", i->span_s,
        "work_s", i->work_s, "mean_concurrency", i->concurrency, "work_share_top_1_percent",
        i->top_share, "duration_ms", durations_json(i), "key_spread", "by_key",
        spread_json(&i->spread_of_keys), "by_jobs", spread_json(&i->spread_of_jobs));
    if (i->taught > 0) {
        json_object_set_new(all, "predictability", predictability_json(i));
        json_object_set_new(all, "near_pairs",
                            json_pack("{s:i, s:I, s:I, s:f, s:f, s:f}", "within_jobs", INFO_NEAR,
                                      "sampled", (json_int_t)i->pairs.sampled, "different",
                                      (json_int_t)i->pairs.different, "right", i->pairs.right,
                                      "tied", i->pairs.tied, "wrong", i->pairs.wrong));
    }
    if (rows->taken > 0)
        json_object_set_new(all, "rows", cli_trace_rows_json(rows));
    return cli_trace_print_json(all);
}

static void print_score(const char *name, const struct info_score *s)
{
    printf("  %-26s %10.2f %9.1f %% %9.1f %% %12.1f\n", name, s->median_error, 100 * s->within_2x,
           100 * s->tier_accuracy, s->mean_error_ms);
}

static void print_predictability(const struct info *i)
{
    printf("\npredicting the second half (%zu jobs) from the first\n", i->predicted);
    printf("  %-26s %10s %11s %11s %12s\n", "", "|log2|", "within 2x", "right tier", "error ms");
    print_score("by the global median", &i->global);
    print_score("by the key's median", &i->per_key);
    print_score("the same, good keys only", &i->gated);
    printf("  good keys: %" PRIu32 " of %" PRIu32
           ", %.1f %% of the jobs; jobs of new keys: %.1f %%\n",
           i->keys_routable, i->keys_taught, 100 * i->jobs_routable, 100 * i->jobs_unseen);
    printf("  boundaries %.6g and %.6g ms\n", i->terciles_ms[0], i->terciles_ms[1]);
    if (i->pairs.different > 0)
        printf(
            "  of near jobs whose cost differs, the key orders %.1f %% rightly, %.1f %% wrongly\n",
            100 * i->pairs.right, 100 * i->pairs.wrong);
}

static void print_spread(const char *name, const struct info_spread *s)
{
    printf("  %-8s %10.1f %10.1f %10.1f %10.1f\n", name, s->p25, s->p50, s->p75, s->p90);
}

static int print_text(const struct info *i, const struct rows *rows)
{
    cli_trace_print_rows(stdout, rows);
    printf("%zu jobs, %" PRIu32 " keys, over %.6g s\n", i->jobs, i->keys, i->span_s);
    printf("work %.6g s, on average %.3g workers busy; the longest 1 %% of the jobs have %.1f %%\n",
           i->work_s, i->concurrency, 100 * i->top_share);
    printf("\nduration in ms\n  mean %.6g, min %.6g, p25 %.6g, p50 %.6g, p75 %.6g,\n"
           "  p90 %.6g, p95 %.6g, p99 %.6g, p99.9 %.6g, max %.6g\n",
           i->ms.mean, i->ms.min, i->ms.p25, i->ms.p50, i->ms.p75, i->ms.p90, i->ms.p95, i->ms.p99,
           i->ms.p999, i->ms.max);
    printf("\nspread within a key, p99 over p50\n  %-8s %10s %10s %10s %10s\n", "", "p25", "p50",
           "p75", "p90");
    print_spread("keys", &i->spread_of_keys);
    print_spread("jobs", &i->spread_of_jobs);
    if (i->taught > 0)
        print_predictability(i);
    return CLI_OK;
}

int local_trace_info(struct local *l)
{
    struct trace_set set;
    struct rows rows;
    struct info info;
    uint64_t seed = 1;
    if (!local_number(l, "seed", 0, UINT64_MAX, &seed))
        return CLI_USAGE;
    int code = cli_trace_load(l, &set, &rows);
    if (code == CLI_OK && set.n > SEVERAL_SECONDS && isatty(STDERR_FILENO))
        fprintf(stderr, "harbinger: counting %zu jobs\n", set.n);
    if (code == CLI_OK && info_of(&set, seed, &info) < 0) {
        fputs("harbinger: out of memory\n", stderr);
        code = CLI_FAILED;
    }
    if (code == CLI_OK)
        code = local_given(l, "json") ? print_json(&info, &rows) : print_text(&info, &rows);
    trace_set_fini(&set);
    return code;
}
