/*
 * Subcommands that work on files and need no running Harbinger. Each is a row of the table in
 * local_commands.c and a function in a file of its own; its options are rows as well, from which
 * parser, check and help come.
 */
#ifndef HARBINGER_CLI_LOCAL_H
#define HARBINGER_CLI_LOCAL_H

#include "base/compiler.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { LOCAL_OPTIONS_MAX = 48 };

struct local_option {
    const char *name, *arg; /* arg NULL: none */
    const char *help;
};

struct local;

struct local_command {
    const char *name; /* of one or two words */
    const char *args; /* for the usage line */
    const char *help; /* a line; what else is to be known stands in `more`, "" for nothing */
    const char *more;
    const struct local_option *options; /* the last one has no name */
    int (*run)(struct local *l);        /* an exit code of cli.h */
};

/* What the words of the command line say. */
struct local {
    const struct local_command *command;
    const char
        *values[LOCAL_OPTIONS_MAX]; /* by row; NULL: not given; "" where it has no argument */
    char **operands;
    int n_operands;
};

extern const struct local_command local_commands[]; /* the last one has no name */

/* The exit code when the words begin with one of these commands, -1 when they do not. */
int local_main(int argc, char **argv);
void local_print_commands(FILE *f);

/* The option's text, or `otherwise` when it was not given. The command must have such a row. */
const char *local_text(const struct local *l, const char *option, const char *otherwise);
bool local_given(const struct local *l, const char *option);
/* A whole number from `min` to `max`. False when the text is none, which has been said then. */
bool local_number(const struct local *l, const char *option, uint64_t min, uint64_t max,
                  uint64_t *inout) MUST_CHECK;

/* Says what was wrong with the command line, on standard error. CLI_USAGE. */
int local_usage(const struct local *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Says why it failed. CLI_FAILED. */
int local_failed(const struct err *e);
/* The same of a file, out of errno. */
int local_failed_file(const char *path);

int local_lab_report(struct local *l);
int local_lab_run(struct local *l);
int local_replay(struct local *l);
int local_simulate(struct local *l);
int local_trace_convert(struct local *l);
int local_trace_generate(struct local *l);
int local_trace_info(struct local *l);

extern const struct local_option local_lab_report_options[];
extern const struct local_option local_lab_run_options[];
extern const struct local_option local_replay_options[];
extern const struct local_option local_simulate_options[];
extern const struct local_option local_trace_convert_options[];
extern const struct local_option local_trace_generate_options[];
extern const struct local_option local_trace_info_options[];

#endif
