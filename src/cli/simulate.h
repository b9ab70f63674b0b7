/* What the files of `harbinger simulate` share. */
#ifndef HARBINGER_CLI_SIMULATE_H
#define HARBINGER_CLI_SIMULATE_H

#include "cli/local.h"
#include "sim/arms.h"
#include "trace/set.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>

/* ---- the trace ---- */

/* Where jobs come from: a file, that each source reads for itself, or jobs in memory. */
struct simulate_input {
    const char *path; /* NULL: in memory */
    const char *name; /* for people */
    struct trace_set set;
    bool has_history; /* whether, unless the user says, a part of it only teaches */
};

/* KIND:SEED, as simulate_input_open. */
int simulate_input_generate(const struct local *l, struct simulate_input *in,
                            const char *what) MUST_CHECK;

/* What the command line names. An exit code, with the reason said. Free with simulate_input_fini in
 * any case. */
int simulate_input_open(const struct local *l, struct simulate_input *in) MUST_CHECK;
void simulate_input_fini(struct simulate_input *in);

/* One reader of the input; those of several threads have nothing to do with each other. */
struct simulate_source {
    struct sim_source source;
    const struct simulate_input *in;
    struct trace_reader *reader;
    size_t at; /* in the set */
};

/* 0, or negative with `e` set; then there is nothing to close. */
int simulate_source_open(struct simulate_source *s, const struct simulate_input *in,
                         struct err *e) MUST_CHECK;
void simulate_source_close(struct simulate_source *s);

/* ---- keys with a meaning ---- */

enum { SIMULATE_GROUP_BYTES = 32 };

/* --map: the level of each key; --group: the group that each is in. */
struct simulate_keys {
    struct names mapped, grouped;
    uint8_t *levels, *groups;                           /* by index in the tables */
    char group_names[SIM_GROUPS][SIMULATE_GROUP_BYTES]; /* from 1 on */
    unsigned n_groups;
};

void simulate_keys_init(struct simulate_keys *k);
int simulate_keys_read(const struct local *l, struct simulate_keys *k) MUST_CHECK; /* exit code */
/* A key's level; a key's group, which is new when there is none of that name. 0, or ERR_INVALID (no
 * key, too many groups), ERR_NOMEM. */
int simulate_keys_map(struct simulate_keys *k, struct text key, uint8_t level) MUST_CHECK;
int simulate_keys_group(struct simulate_keys *k, const char *name, struct text key) MUST_CHECK;
void simulate_keys_fini(struct simulate_keys *k);

/* What --set says. False when it is wrong, which has been said then. */
bool simulate_take_settings(const struct local *l, struct sim_options *o) MUST_CHECK;

/* ---- runs ---- */

enum { SIMULATE_RUNS_MAX = 4000, SIMULATE_LIST_MAX = 256 };

struct simulate_run {
    const char *arm;
    struct sim_options o;
    struct sim_result result; /* when code is 0 */
    int code;                 /* of sim_run */
    struct err err;
    atomic_ullong n_done;
    const struct simulate *all;
};

struct simulate {
    struct simulate_input input;
    const struct simulate_keys *keys;
    struct sim_plan *plan;
    struct sim_plan_info info;
    struct sim_split split;
    const char *arms[SIMULATE_LIST_MAX]; /* as they were written */
    double loads[SIMULATE_LIST_MAX];     /* 0: as it is */
    unsigned n_arms, n_loads;
    struct simulate_run *runs; /* all arms at the first load, at the second, ... */
    unsigned n_runs, n_threads;
    FILE *log; /* NULL: none */
};

/* One run per arm and load, of the options `base` with what the arm says, and the plan of the input;
 * arms, loads, keys, input and split are set. 0, or negative with `e` set. */
int simulate_make_runs(struct simulate *s, const struct sim_options *base,
                       struct err *e) MUST_CHECK;
int simulate_make_plan(struct simulate *s, struct err *e) MUST_CHECK;
/* Frees runs and plan. */
void simulate_fini(struct simulate *s);

/* Makes all runs, n_threads at a time, and shows how far they are on a terminal. An exit code. */
int simulate_run_all(struct simulate *s) MUST_CHECK;

/* The run of the first arm named fifo at the same load; NULL: there is none. */
const struct simulate_run *simulate_base(const struct simulate *s, const struct simulate_run *r);

/* Means over the jobs, or over the windows of their relative changes; NaN where there is no base. */
double simulate_change(const struct simulate *s, const struct simulate_run *r);
double simulate_window_change(const struct simulate *s, const struct simulate_run *r);

/* ---- output: exit codes ---- */

int simulate_print_table(const struct simulate *s);
int simulate_print_json(const struct simulate *s);
json_t *simulate_json(const struct simulate *s); /* NULL: no memory */
int simulate_print_csv(const struct simulate *s);

void simulate_log_begin(FILE *f);
void simulate_log(FILE *f, const struct sim_decision *d);

#endif
