/* harbinger lab run: tables, and the same as JSON. */
#include "cli/lab.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- tables ---- */

bool lab_gate_passes(const struct lab *lab, const struct lab_gate *g, unsigned variant,
                     unsigned load)
{
    bool passes = true;
    for (unsigned i = 0; i < g->n; i++)
        passes &= lab->verdicts[lab_place(lab, variant, g->criteria[i], load)].status == STATS_PASS;
    return passes;
}

static bool is_ratio(const struct lab_criterion *c)
{
    return c->c.rule == STATS_MAX_RATIO || c->c.rule == STATS_MIN_RATIO;
}

static void print_bar(const struct lab_criterion *c)
{
    char text[32];
    switch (c->c.rule) {
    case STATS_CHANGE: snprintf(text, sizeof text, "<= %+.0f %%", c->c.bar * 100); break;
    case STATS_MAX_RATIO: snprintf(text, sizeof text, "<= %.2fx", c->c.bar); break;
    case STATS_MIN_RATIO: snprintf(text, sizeof text, ">= %.2fx", c->c.bar); break;
    case STATS_BAND: snprintf(text, sizeof text, "+-%.0f %%", c->c.bar * 100); break;
    }
    printf(" %10s", text);
}

static void print_numbers(const struct lab_criterion *c, const struct stats_verdict *v)
{
    const struct stats_interval *i = &v->interval;
    bool ratio = is_ratio(c);
    if (v->status != STATS_PASS && v->status != STATS_FAIL) {
        printf(" %9s %21s", "-", "-");
        print_bar(c);
        printf(" %10s", "-");
        return;
    }
    if (ratio)
        printf(" %8.2fx [%8.2f, %8.2f]", i->point, i->low, i->high);
    else
        printf(" %+7.1f %% [%+8.1f, %+8.1f]", i->point * 100, i->low * 100, i->high * 100);
    print_bar(c);
    if (ratio)
        printf(" %+9.2fx", v->margin);
    else
        printf(" %+6.1f pts", v->margin * 100);
}

static void print_criterion(const struct lab_criterion *c, const struct stats_verdict *v)
{
    char what[128];
    snprintf(what, sizeof what, "%s%s%s, %s / %s", c->metric,
             strcmp(c->of, "all") == 0 ? "" : " of ", strcmp(c->of, "all") == 0 ? "" : c->of,
             c->arm, c->base);
    printf("%-4s %-46s", c->name, what);
    print_numbers(c, v);
    printf("  %s%s\n", stats_status_name(v->status), v->over_limit ? " (over the limit)" : "");
}

static void print_load(double load)
{
    if (load > 0)
        printf("\nload %g\n", load);
    else
        puts("\narrivals as they are");
}

static void print_criteria(const struct lab *lab, unsigned load)
{
    const struct lab_experiment *x = lab->x;
    printf("%-4s %-46s %9s %20s %11s %10s\n", "", "criterion", "mean", "interval", "bar", "margin");
    for (unsigned c = 0; c < x->n_criteria; c++)
        print_criterion(&x->criteria[c], &lab->verdicts[lab_place(lab, 0, c, load)]);
    for (unsigned g = 0; g < x->n_gates; g++)
        printf("gate %s: %s\n", x->gates[g].name,
               lab_gate_passes(lab, &x->gates[g], 0, load) ? "pass" : "fail");
}

/* One row per variant: each gate's first criterion, and whether it passes; '*' where that is another
 * answer than with the defaults. */
static void print_variants(const struct lab *lab, unsigned load)
{
    const struct lab_experiment *x = lab->x;
    printf("\n%-34s", "variant");
    for (unsigned g = 0; g < x->n_gates; g++)
        printf(" %18.18s", x->gates[g].name);
    puts("");
    for (unsigned v = 0; v < x->n_variants; v++) {
        const struct lab_variant *variant = &x->variants[v];
        char name[128];
        snprintf(
            name, sizeof name, "%s%s%s", variant->option != NULL ? variant->option : "defaults",
            variant->option != NULL ? " = " : "", variant->option != NULL ? variant->value : "");
        printf("%-34s", name);
        for (unsigned g = 0; g < x->n_gates; g++) {
            const struct lab_gate *gate = &x->gates[g];
            unsigned first = gate->criteria[0];
            const struct stats_verdict *verdict = &lab->verdicts[lab_place(lab, v, first, load)];
            bool passes = lab_gate_passes(lab, gate, v, load);
            bool flips = passes != lab_gate_passes(lab, gate, 0, load);
            double shown = verdict->interval.point;
            printf(is_ratio(&x->criteria[first]) ? " %9.2fx %s%s" : " %+9.1f %% %s%s",
                   is_ratio(&x->criteria[first]) ? shown : shown * 100, passes ? "pass" : "fail",
                   flips ? " *" : "  ");
        }
        puts("");
    }
}

int lab_print_tables(const struct lab *lab)
{
    const struct lab_experiment *x = lab->x;
    printf("%s: %u %s, %" PRIu64 " jobs%s after a history of %" PRIu64 "\n", x->name, lab->n_units,
           x->by_window ? "windows" : "seeds", lab->info.n_evaluation,
           x->n_seeds > 1 ? " (the last seed)" : "", lab->info.n_history);
    printf("interval: %g %%, %u resamples%s", x->bootstrap.confidence * 100, x->bootstrap.resamples,
           x->bootstrap.block > 1 ? "" : "\n");
    if (x->bootstrap.block > 1)
        printf(" of blocks of %u\n", x->bootstrap.block);
    for (unsigned load = 0; load < x->n_loads; load++) {
        print_load(x->loads[load]);
        print_criteria(lab, load);
        if (x->n_variants > 1)
            print_variants(lab, load);
    }
    return CLI_OK;
}

/* ---- JSON ---- */

static const char *const rule_names[] = {
    [STATS_CHANGE] = "change",
    [STATS_MAX_RATIO] = "max_ratio",
    [STATS_MIN_RATIO] = "min_ratio",
    [STATS_BAND] = "band",
};

static json_t *units_json(const double *values, unsigned n)
{
    json_t *all = json_array();
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(all, isfinite(values[i]) ? json_real(values[i]) : json_null());
    return all;
}

static json_t *criterion_json(const struct lab *lab, unsigned variant, unsigned c, unsigned load)
{
    const struct lab_criterion *criterion = &lab->x->criteria[c];
    size_t i = lab_place(lab, variant, c, load);
    const struct stats_verdict *v = &lab->verdicts[i];
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:o, s:o}",
                     "name", criterion->name, "metric", criterion->metric, "of", criterion->of,
                     "arm", criterion->arm, "base", criterion->base, "status",
                     stats_status_name(v->status), "rule", rule_names[criterion->c.rule], "point",
                     v->interval.point, "low", v->interval.low, "high", v->interval.high, "bar",
                     criterion->c.bar, "margin", v->margin, "over_limit", v->over_limit,
                     "arm_units", units_json(lab->arms + i * lab->n_units, lab->n_units),
                     "base_units", units_json(lab->bases + i * lab->n_units, lab->n_units));
}

static json_t *cell_json(const struct lab *lab, unsigned variant, unsigned load)
{
    const struct lab_experiment *x = lab->x;
    json_t *criteria = json_array(), *gates = json_object();
    for (unsigned c = 0; c < x->n_criteria; c++)
        json_array_append_new(criteria, criterion_json(lab, variant, c, load));
    for (unsigned g = 0; g < x->n_gates; g++)
        json_object_set_new(gates, x->gates[g].name,
                            json_boolean(lab_gate_passes(lab, &x->gates[g], variant, load)));
    json_t *cell =
        json_pack("{s:f, s:o, s:o}", "load", x->loads[load], "criteria", criteria, "gates", gates);
    if (x->variants[variant].option != NULL)
        json_object_set_new(
            cell, "variant",
            json_pack("{s:s}", x->variants[variant].option, x->variants[variant].value));
    return cell;
}

json_t *lab_json(const struct lab *lab)
{
    const struct lab_experiment *x = lab->x;
    json_t *cells = json_array();
    for (unsigned v = 0; v < x->n_variants; v++)
        for (unsigned load = 0; load < x->n_loads; load++)
            json_array_append_new(cells, cell_json(lab, v, load));
    json_t *seeds = json_array();
    for (unsigned i = 0; x->trace != NULL && i < x->n_seeds; i++)
        json_array_append_new(seeds, json_integer((json_int_t)x->seeds[i]));
    return json_pack("{s:s, s:s?, s:o, s:I, s:s, s:i, s:{s:f, s:i, s:i}, s:o}", "name", x->name,
                     "generator", x->trace, "seeds", seeds, "workers",
                     (json_int_t)x->options.workers, "unit", x->by_window ? "window" : "seed",
                     "units", (int)lab->n_units, "interval", "confidence", x->bootstrap.confidence,
                     "resamples", (int)x->bootstrap.resamples, "block", (int)x->bootstrap.block,
                     "cells", cells);
}
