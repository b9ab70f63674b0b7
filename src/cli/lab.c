/* harbinger lab run: an experiment, its criteria with their intervals, its gates, its sweep. */
#include "cli/lab.h"

#include "cli/cli.h"
#include "cli/trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct local_option local_lab_run_options[] = {
    {"threads", "N", "runs at once [the cores]"},
    {"json", NULL, "one JSON object instead of the tables"},
    {"out", "DIR", "keep the results there, for harbinger lab report"},
    {0},
};

const struct sim_figures *lab_figures(const struct lab_experiment *x, const char *of,
                                      const struct sim_result *r, int window)
{
    static const char *const classes[SIM_CLASSES] = {"short", "medium", "long"};
    if (strcmp(of, "all") == 0)
        return window < 0 ? &r->all : &r->windows[window].all;
    for (unsigned c = 0; c < SIM_CLASSES; c++)
        if (strcmp(of, classes[c]) == 0)
            return window < 0 ? &r->by_class[c] : &r->windows[window].by_class[c];
    for (unsigned g = 1; window < 0 && g <= x->keys.n_groups; g++)
        if (strcmp(of, x->keys.group_names[g]) == 0)
            return &r->by_group[g];
    return NULL;
}

/* ---- arms of the variants ---- */

/* What the arm is called in a variant: fifo has no options that matter. */
static void spec_of(const struct lab_variant *v, const char *arm, char *out, size_t size)
{
    if (v->option == NULL || strcmp(arm, "fifo") == 0)
        snprintf(out, size, "%s", arm);
    else
        snprintf(out, size, "%s:%s=%s", arm, v->option, v->value);
}

static int add_spec(struct lab *lab, const struct lab_variant *v, const char *arm)
{
    char spec[256];
    spec_of(v, arm, spec, sizeof spec);
    for (unsigned i = 0; i < lab->n_specs; i++)
        if (strcmp(lab->specs[i], spec) == 0)
            return 0;
    if (lab->n_specs == SIMULATE_LIST_MAX)
        return ERR_INVALID;
    lab->specs[lab->n_specs] = strdup(spec);
    return lab->specs[lab->n_specs++] != NULL ? 0 : ERR_NOMEM;
}

static int add_specs(struct lab *lab, struct err *e)
{
    const struct lab_experiment *x = lab->x;
    for (unsigned v = 0; v < x->n_variants; v++)
        for (unsigned c = 0; c < x->n_criteria; c++)
            if (add_spec(lab, &x->variants[v], x->criteria[c].arm) < 0 ||
                add_spec(lab, &x->variants[v], x->criteria[c].base) < 0)
                return err_set(e, ERR_INVALID, "more than %d arms, or no memory for them",
                               SIMULATE_LIST_MAX);
    return 0;
}

/* ---- values ---- */

static const struct sim_result *result_of(const struct simulate *s, const struct lab_variant *v,
                                          const char *arm, unsigned load)
{
    char spec[256];
    spec_of(v, arm, spec, sizeof spec);
    for (unsigned i = 0; i < s->n_arms; i++)
        if (strcmp(s->arms[i], spec) == 0)
            return &s->runs[load * s->n_arms + i].result;
    return NULL;
}

/* NaN where there was nobody to measure. */
static double value_of(const struct lab *lab, const struct lab_criterion *c,
                       const struct sim_result *r, int window)
{
    const struct sim_figures *f = r != NULL ? lab_figures(lab->x, c->of, r, window) : NULL;
    double value = (double)NAN;
    if (f != NULL && f->n > 0)
        memcpy(&value, (const char *)f + c->offset, sizeof value);
    return value < c->floor_ms ? c->floor_ms : value;
}

static void take_criterion(struct lab *lab, const struct simulate *s, unsigned seed, size_t at[3])
{
    const struct lab_experiment *x = lab->x;
    const struct lab_criterion *c = &x->criteria[at[1]];
    const struct lab_variant *v = &x->variants[at[0]];
    unsigned load = (unsigned)at[2];
    const struct sim_result *arm = result_of(s, v, c->arm, load),
                            *base = result_of(s, v, c->base, load);
    size_t to = lab_place(lab, (unsigned)at[0], (unsigned)at[1], load) * lab->n_units;
    unsigned n = x->by_window ? lab->n_units : 1;
    for (unsigned u = 0; u < n; u++) {
        int window = x->by_window ? (int)u : -1;
        lab->arms[to + seed + u] = value_of(lab, c, arm, window);
        lab->bases[to + seed + u] = value_of(lab, c, base, window);
    }
}

static void take_values(struct lab *lab, const struct simulate *s, unsigned seed)
{
    const struct lab_experiment *x = lab->x;
    size_t at[3];
    for (at[0] = 0; at[0] < x->n_variants; at[0]++)
        for (at[1] = 0; at[1] < x->n_criteria; at[1]++)
            for (at[2] = 0; at[2] < x->n_loads; at[2]++)
                take_criterion(lab, s, seed, at);
}

static int judge(struct lab *lab, struct err *e)
{
    const struct lab_experiment *x = lab->x;
    size_t n = lab_place(lab, x->n_variants, 0, 0);
    for (size_t i = 0; i < n; i++) {
        const struct lab_criterion *c = &x->criteria[i / x->n_loads % x->n_criteria];
        if (stats_judge(&c->c, lab->arms + i * lab->n_units, lab->bases + i * lab->n_units,
                        lab->n_units, &x->bootstrap, &lab->verdicts[i]) < 0)
            return err_set(e, ERR_INVALID, "%s: the interval's options do not fit %u units",
                           x->name, lab->n_units);
    }
    return 0;
}

/* ---- runs ---- */

/* `what` is the input's name, as long as it is open. */
static int open_input(const struct local *l, const struct lab_experiment *x, unsigned seed,
                      char what[64], struct simulate_input *in)
{
    if (x->trace == NULL) {
        *in = (struct simulate_input){.path = l->operands[1], .name = l->operands[1]};
        trace_set_init(&in->set);
        return CLI_OK;
    }
    snprintf(what, 64, "%.31s:%" PRIu64, x->trace, x->seeds[seed]);
    return simulate_input_generate(l, in, what);
}

static int run_seed(const struct local *l, struct lab *lab, unsigned seed, unsigned n_threads)
{
    const struct lab_experiment *x = lab->x;
    struct simulate s = {.keys = &x->keys,
                         .split = x->split,
                         .n_arms = lab->n_specs,
                         .n_loads = x->n_loads,
                         .n_threads = n_threads};
    struct err e;
    memcpy(s.arms, lab->specs, sizeof s.arms);
    memcpy(s.loads, x->loads, sizeof s.loads);
    char what[64];
    int code = open_input(l, x, seed, what, &s.input);
    if (code == CLI_OK &&
        (simulate_make_runs(&s, &x->options, &e) < 0 || simulate_make_plan(&s, &e) < 0))
        code = local_failed(&e);
    if (code == CLI_OK)
        code = simulate_run_all(&s);
    if (code == CLI_OK) {
        take_values(lab, &s, seed);
        lab->info = s.info;
        code = lab_save_runs(lab, local_text(l, "out", NULL), seed, &s);
    }
    simulate_fini(&s);
    simulate_input_fini(&s.input);
    return code;
}

/* ---- all of it ---- */

static bool get_memory(struct lab *lab)
{
    size_t n = lab_place(lab, lab->x->n_variants, 0, 0);
    if (n == 0 || lab->n_units == 0)
        return false;
    lab->arms = calloc(n * lab->n_units, sizeof lab->arms[0]);
    lab->bases = calloc(n * lab->n_units, sizeof lab->bases[0]);
    lab->verdicts = calloc(n, sizeof lab->verdicts[0]);
    return lab->arms != NULL && lab->bases != NULL && lab->verdicts != NULL;
}

static int run(const struct local *l, struct lab *lab)
{
    uint64_t threads = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    struct err e;
    if (!local_number(l, "threads", 1, 1024, &threads))
        return CLI_USAGE;
    lab->n_units = lab->x->by_window ? lab->x->split.windows : lab->x->n_seeds;
    if (add_specs(lab, &e) < 0)
        return local_failed(&e);
    if (!get_memory(lab)) {
        err_set(&e, ERR_NOMEM, "no memory for the values");
        return local_failed(&e);
    }
    int code = lab_save_begin(local_text(l, "out", NULL));
    for (unsigned s = 0; code == CLI_OK && s < lab->x->n_seeds; s++)
        code = run_seed(l, lab, s, (unsigned)threads);
    if (code != CLI_OK)
        return code;
    if (judge(lab, &e) < 0)
        return local_failed(&e);
    code = lab_save(lab, local_text(l, "out", NULL));
    if (code != CLI_OK)
        return code;
    return local_given(l, "json") ? cli_trace_print_json(lab_json(lab)) : lab_print_tables(lab);
}

int local_lab_run(struct local *l)
{
    struct lab_experiment *x = calloc(1, sizeof *x);
    struct lab lab = {.x = x};
    struct err e = {0};
    int code = CLI_FAILED;
    if (l->n_operands < 1 || l->n_operands > 2)
        code = local_usage(l, "an experiment's file, and the trace unless it generates one");
    else if (x == NULL)
        fputs("harbinger: out of memory\n", stderr);
    else if (lab_experiment_read(x, l->operands[0], &e) < 0)
        code = local_failed(&e);
    else if ((x->trace == NULL) != (l->n_operands == 2))
        code = local_usage(l, x->trace == NULL ? "this experiment needs a trace's FILE"
                                               : "this experiment generates its trace");
    else
        code = run(l, &lab);
    for (unsigned i = 0; i < lab.n_specs; i++)
        free(lab.specs[i]);
    free(lab.arms);
    free(lab.bases);
    free(lab.verdicts);
    if (x != NULL)
        lab_experiment_fini(x);
    free(x);
    return code;
}
