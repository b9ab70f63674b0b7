/* What the files of `harbinger lab run` share: an experiment as its file describes it. */
#ifndef HARBINGER_CLI_LAB_H
#define HARBINGER_CLI_LAB_H

#include "cli/simulate.h"
#include "lab/stats.h"

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

/* The figures of a result that a criterion looks at: `of`, in the whole run or in a window. NULL: there
 * is no such class or group. */
const struct sim_figures *lab_figures(const struct lab_experiment *x, const char *of,
                                      const struct sim_result *r, int window);

#endif
