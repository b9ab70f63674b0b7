/* What the files of `harbinger lab run` share: an experiment as its file describes it. */
#ifndef HARBINGER_CLI_LAB_H
#define HARBINGER_CLI_LAB_H

#include "cli/simulate.h"
#include "lab/stats.h"

#include <jansson.h>
#include <yaml.h>

enum { LAB_CRITERIA_MAX = 64, LAB_GATES_MAX = 16, LAB_SEEDS_MAX = 64, LAB_VARIANTS_MAX = 64 };

/* One comparison of an arm with a base. All texts are the document's. */
struct lab_criterion {
    const char *name;
    const char *arm, *base;
    const char *metric, *of;  /* of: "all", a class or a group */
    size_t offset;            /* of the metric in struct sim_figures */
    double floor_ms;          /* what is below counts as this; 0: none */
    struct stats_criterion c; /* limit in ms */
    bool has_bar;
};

struct lab_gate {
    const char *name;
    unsigned n;
    unsigned criteria[LAB_CRITERIA_MAX]; /* by index */
};

struct lab_variant {
    const char *option, *value; /* NULL: the defaults */
};

struct lab_experiment {
    yaml_document_t document;
    bool has_document;
    const char *name;
    const char *trace; /* a kind of `harbinger trace generate`; NULL: a file is asked for */
    bool by_window;    /* a unit is a window, else a seed */
    uint64_t seeds[LAB_SEEDS_MAX];
    unsigned n_seeds;
    double loads[SIMULATE_LIST_MAX]; /* 0: as it is */
    unsigned n_loads;
    struct sim_split split;
    struct sim_options options;
    struct simulate_keys keys;
    struct stats_bootstrap bootstrap;
    struct lab_criterion criteria[LAB_CRITERIA_MAX];
    unsigned n_criteria;
    struct lab_gate gates[LAB_GATES_MAX];
    unsigned n_gates;
    struct lab_variant variants[LAB_VARIANTS_MAX]; /* the first one is the defaults */
    unsigned n_variants;
};

/* 0, or negative with *e naming file, line and what is wrong. Free with lab_experiment_fini in any case.
 */
int lab_experiment_read(struct lab_experiment *x, const char *path, struct err *e) MUST_CHECK;
void lab_experiment_fini(struct lab_experiment *x);

/* The values of every variant, criterion, load and unit. */
struct lab {
    const struct lab_experiment *x;
    char *specs[SIMULATE_LIST_MAX]; /* the arms as they run, each once */
    unsigned n_specs;
    unsigned n_units;
    double *arms, *bases;
    struct stats_verdict *verdicts; /* by variant, criterion, load */
    struct sim_plan_info info;      /* of the last input */
};

/* Where the values of a variant, criterion and load are. */
static inline size_t lab_place(const struct lab *lab, unsigned variant, unsigned criterion,
                               unsigned load)
{
    const struct lab_experiment *x = lab->x;
    return ((size_t)variant * x->n_criteria + criterion) * x->n_loads + load;
}

bool lab_gate_passes(const struct lab *lab, const struct lab_gate *g, unsigned variant,
                     unsigned load);

/* ---- output: exit codes ---- */

int lab_print_tables(const struct lab *lab);
json_t *lab_json(const struct lab *lab); /* NULL: no memory */

/* A folder for harbinger lab report: summary.json, and the runs of each seed or of the trace. A NULL
 * `dir` saves nothing. */
int lab_save_begin(const char *dir) MUST_CHECK;
int lab_save_runs(const struct lab *lab, const char *dir, unsigned seed,
                  const struct simulate *s) MUST_CHECK;
int lab_save(const struct lab *lab, const char *dir) MUST_CHECK;

/* The figures of a result that a criterion looks at: `of`, in the whole run or in a window. NULL: there
 * is no such class or group. */
const struct sim_figures *lab_figures(const struct lab_experiment *x, const char *of,
                                      const struct sim_result *r, int window);

#endif
