/* harbinger simulate: results as a table, as JSON and as CSV, and the log of decisions. */
#include "base/num.h"
#include "cli/cli.h"
#include "cli/simulate.h"
#include "cli/trace.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const class_names[SIM_CLASSES] = {"short", "medium", "long"};

/* ---- table ---- */

/* Milliseconds with as many digits as a person reads. */
static const char *in_words(double ms, char out[32])
{
    if (ms < 10)
        snprintf(out, 32, "%.2f ms", ms);
    else if (ms < 1000)
        snprintf(out, 32, "%.0f ms", ms);
    else if (ms < 100000)
        snprintf(out, 32, "%.2f s", ms / 1000);
    else if (ms < 36e5)
        snprintf(out, 32, "%.0f s", ms / 1000);
    else
        snprintf(out, 32, "%.1f h", ms / 36e5);
    return out;
}

static const char *percent(double change, char out[32])
{
    out[0] = '\0';
    if (!isnan(change))
        snprintf(out, 32, "%+.1f %%", change * 100);
    return out;
}

/* Nothing is known of the jobs of an empty set. */
static void print_cell(const struct sim_figures *f, double ms, int width)
{
    char text[32];
    printf(" %*s", width, f->n > 0 ? in_words(ms, text) : "-");
}

static size_t arm_width(const struct simulate *s)
{
    size_t width = 10;
    for (unsigned i = 0; i < s->n_arms; i++)
        if (strlen(s->arms[i]) > width)
            width = strlen(s->arms[i]);
    return width;
}

static void print_columns(const struct simulate *s, size_t width)
{
    printf("%-*s %10s %9s %9s %10s %10s %10s %10s", (int)width, "arm", "mean", "vs fifo", "windows",
           "p50", "p99", "max wait", "short p50");
    for (unsigned g = 1; g <= s->keys->n_groups; g++)
        printf(" %10.10s p50", s->keys->group_names[g]);
    puts(" predicted");
}

static void print_run(const struct simulate *s, const struct simulate_run *r, size_t width)
{
    const struct sim_result *x = &r->result;
    char change[32], windows[32];
    printf("%-*s", (int)width, r->arm);
    print_cell(&x->all, x->all.mean_ms, 10);
    printf(" %9s %9s", percent(simulate_change(s, r), change),
           percent(simulate_window_change(s, r), windows));
    print_cell(&x->all, x->all.p50_ms, 10);
    print_cell(&x->all, x->all.p99_ms, 10);
    print_cell(&x->all, x->all.max_wait_ms, 10);
    print_cell(&x->by_class[0], x->by_class[0].p50_ms, 10);
    for (unsigned g = 1; g <= s->keys->n_groups; g++)
        print_cell(&x->by_group[g], x->by_group[g].p50_ms, 14);
    if (x->learns && x->predictor.lookups > 0)
        printf(" %8.1f %%",
               100 * (double)x->predictor.outcomes[HB_PREDICTED] / (double)x->predictor.lookups);
    puts("");
}

int simulate_print_table(const struct simulate *s)
{
    char low[32], high[32];
    size_t width = arm_width(s);
    printf("%s: %" PRIu64 " jobs after a history of %" PRIu64 ", %lu keys, %.1f h; short is below "
           "%s, long from %s on\n",
           s->input.name, s->info.n_evaluation, s->info.n_history, (unsigned long)s->info.n_keys,
           (double)s->info.span_us / 36e8, in_words((double)s->info.class_us[0] / 1000, low),
           in_words((double)s->info.class_us[1] / 1000, high));
    for (unsigned i = 0; i < s->n_loads; i++) {
        const struct simulate_run *first = &s->runs[(size_t)i * s->n_arms];
        unsigned long workers = first->o.workers;
        if (s->loads[i] > 0)
            printf("\nload %g: arrivals %.3f times as fast; workers: %lu\n", s->loads[i],
                   first->result.compress, workers);
        else
            printf("\narrivals as they are; workers: %lu, busy for %.0f %% of the time\n", workers,
                   first->result.utilisation * 100);
        print_columns(s, width);
        for (unsigned k = 0; k < s->n_arms; k++)
            print_run(s, first + k, width);
    }
    puts("\nvs fifo: change of the mean over all jobs; windows: mean of the changes by window.");
    return CLI_OK;
}

/* ---- JSON ---- */

static json_t *figures_json(const struct sim_figures *f)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "n", (json_int_t)f->n, "mean_ms",
                     f->mean_ms, "p50_ms", f->p50_ms, "p95_ms", f->p95_ms, "p99_ms", f->p99_ms,
                     "mean_wait_ms", f->mean_wait_ms, "max_wait_ms", f->max_wait_ms,
                     "mean_slowdown", f->mean_slowdown);
}

static json_t *classes_json(const struct sim_figures f[SIM_CLASSES])
{
    json_t *all = json_object();
    for (unsigned c = 0; c < SIM_CLASSES; c++)
        json_object_set_new(all, class_names[c], figures_json(&f[c]));
    return all;
}

static json_t *groups_json(const struct simulate *s, const struct sim_result *r)
{
    json_t *all = json_object();
    for (unsigned g = 1; g <= s->keys->n_groups; g++)
        json_object_set_new(all, s->keys->group_names[g], figures_json(&r->by_group[g]));
    return all;
}

static json_t *windows_json(const struct sim_result *r)
{
    json_t *all = json_array();
    for (unsigned w = 0; w < r->n_windows; w++) {
        json_t *window = figures_json(&r->windows[w].all);
        json_object_set_new(window, "classes", classes_json(r->windows[w].by_class));
        json_array_append_new(all, window);
    }
    return all;
}

static json_t *predictor_json(const struct hb_predictor_stats *p)
{
    json_t *outcomes = json_object();
    for (int i = 0; i < HB_N_REASONS; i++)
        json_object_set_new(outcomes, hb_reason_name(i), json_integer((json_int_t)p->outcomes[i]));
    return json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "lookups",
                     (json_int_t)p->lookups, "outcomes", outcomes, "parent_fallbacks",
                     (json_int_t)p->parent_fallbacks, "learned", (json_int_t)p->observations,
                     "keys", (json_int_t)p->keys, "boundary_sets", (json_int_t)p->publications,
                     "scored", (json_int_t)p->scored, "matches",
                     p->scored > 0 ? (double)p->matches / (double)p->scored : 0, "abs_log2_error",
                     p->abs_log2_error);
}

static void set_change(json_t *run, const char *name, double change)
{
    if (!isnan(change))
        json_object_set_new(run, name, json_real(change));
}

static json_t *run_json(const struct simulate *s, const struct simulate_run *r)
{
    const struct sim_result *x = &r->result;
    json_t *run = json_pack("{s:s, s:f, s:I, s:f, s:f, s:f, s:I, s:I, s:o, s:o, s:o, s:o}", "arm",
                            r->arm, "load", r->o.load, "workers", (json_int_t)r->o.workers,
                            "compress", x->compress, "utilisation", x->utilisation, "ended_s",
                            (double)x->ended_at / 1e9, "max_waiting", (json_int_t)x->max_waiting,
                            "promotions", (json_int_t)x->promotions, "all", figures_json(&x->all),
                            "classes", classes_json(x->by_class), "groups", groups_json(s, x),
                            "windows", windows_json(x));
    set_change(run, "change", simulate_change(s, r));
    set_change(run, "window_change", simulate_window_change(s, r));
    if (x->learns)
        json_object_set_new(run, "predictor", predictor_json(&x->predictor));
    return run;
}

json_t *simulate_json(const struct simulate *s)
{
    json_t *runs = json_array();
    for (unsigned i = 0; i < s->n_runs; i++)
        json_array_append_new(runs, run_json(s, &s->runs[i]));
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:[f, f], s:o}", "trace", s->input.name,
                     "history_rows", (json_int_t)s->info.n_history, "evaluation_rows",
                     (json_int_t)s->info.n_evaluation, "keys", (json_int_t)s->info.n_keys, "span_s",
                     (double)s->info.span_us / 1e6, "work_s", s->info.work_us / 1e6,
                     "boundaries_ms", (double)s->info.class_us[0] / 1000,
                     (double)s->info.class_us[1] / 1000, "runs", runs);
}

int simulate_print_json(const struct simulate *s)
{
    return cli_trace_print_json(simulate_json(s));
}

/* ---- CSV ---- */

static void print_csv_row(const struct simulate_run *r, const char *scope,
                          const struct sim_figures *f)
{
    const double values[] = {f->mean_ms,      f->p50_ms,      f->p95_ms,       f->p99_ms,
                             f->mean_wait_ms, f->max_wait_ms, f->mean_slowdown};
    printf("%s,%g,%s,%" PRIu64, r->arm, r->o.load, scope, f->n);
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        char text[32];
        num_format_double(values[i], text, sizeof text);
        printf(",%s", text);
    }
    puts("");
}

static void print_csv_run(const struct simulate *s, const struct simulate_run *r)
{
    char scope[64];
    print_csv_row(r, "all", &r->result.all);
    for (unsigned c = 0; c < SIM_CLASSES; c++)
        print_csv_row(r, class_names[c], &r->result.by_class[c]);
    for (unsigned g = 1; g <= s->keys->n_groups; g++) {
        snprintf(scope, sizeof scope, "group %s", s->keys->group_names[g]);
        print_csv_row(r, scope, &r->result.by_group[g]);
    }
    for (unsigned w = 0; w < r->result.n_windows; w++) {
        snprintf(scope, sizeof scope, "window %u", w);
        print_csv_row(r, scope, &r->result.windows[w].all);
        for (unsigned c = 0; c < SIM_CLASSES; c++) {
            snprintf(scope, sizeof scope, "window %u %s", w, class_names[c]);
            print_csv_row(r, scope, &r->result.windows[w].by_class[c]);
        }
    }
}

int simulate_print_csv(const struct simulate *s)
{
    puts("arm,load,scope,n,mean_ms,p50_ms,p95_ms,p99_ms,mean_wait_ms,max_wait_ms,mean_slowdown");
    for (unsigned i = 0; i < s->n_runs; i++)
        print_csv_run(s, &s->runs[i]);
    return CLI_OK;
}

/* ---- decisions ---- */

void simulate_log_begin(FILE *f)
{
    fputs("time_ns\tjob\tlevel\testimate_ms\treason\tstart_ns\tworker\tserved_level\n", f);
}

void simulate_log(FILE *f, const struct sim_decision *d)
{
    char estimate[32] = "-";
    if (d->estimate_ms >= 0)
        num_format_double(d->estimate_ms, estimate, sizeof estimate);
    fprintf(f, "%" PRId64 "\t%" PRIu64 "\t%u\t%s\t%s\t%" PRId64 "\t%lu\t%u\n", d->decided_at,
            d->job, d->level, estimate, d->reason, d->started_at, (unsigned long)d->worker,
            d->served_level);
}
