/* What the subcommands of `harbinger trace` share: options for foreign logs, and reading any log.
 * */
#ifndef HARBINGER_CLI_TRACE_H
#define HARBINGER_CLI_TRACE_H

#include "cli/local.h"
#include "trace/rows.h"
#include "trace/set.h"

#include <jansson.h>

/* The rows of the options that cli_trace_load reads. */
#define TRACE_LOAD_OPTIONS                                                              \
    {"format", "NAME", "trace (default), swf, azure, huawei, results or csv"},          \
        {"key", "FIELD[,FIELD]", "what makes the key [by format]"},                     \
        {"producer", "FIELD[,FIELD]", "what names the producer [by format]"},           \
        {"size", "FIELD", "a number known at arrival [by format]"},                     \
        {"serial", NULL, "SWF: only jobs that ran on one processor"},                   \
        {"arrival", "COLUMN", "tables: when a job arrived [by format]"},                \
        {"end", "COLUMN", "tables: when it ended; it arrived at end - cost"},           \
        {"cost", "COLUMN", "tables: what is taken off the end [the duration]"},         \
        {"duration", "COLUMN", "tables: how long it took [by format]"},                 \
        {"unit", "UNIT", "tables: ns, us, ms or s, of all times [by format]"},          \
        {"duration-unit", "UNIT", "tables: of duration and cost, if another one"},      \
        {"separator", "CHARACTER", "tables: between fields; tab is written 'tab' [,]"}, \
    {                                                                                   \
        "strict", NULL, "the first bad row ends it"                                     \
    }

/*
 * Reads the log that the command line names (one operand; none or "-" is standard input) in the
 * format that it says into *out, in order of arrival. CLI_OK; or another exit code, with the reason
 * said. The first bad rows are told on standard error. In any case *out is the caller's, to be
 * freed with trace_set_fini.
 */
int cli_trace_load(const struct local *l, struct trace_set *out, struct rows *rows) MUST_CHECK;

/* "left out: 12 never ran; bad: 3 not a number": nothing when there is nothing to say. */
void cli_trace_print_rows(FILE *f, const struct rows *rows);
/* {"taken": ..., "left_out": {...}, "bad": {...}, "shortened_keys": ...}; NULL: no memory. */
json_t *cli_trace_rows_json(const struct rows *rows);

/* One line of JSON on standard output. Takes `all`. An exit code. */
int cli_trace_print_json(json_t *all);

/* What `harbinger trace generate KIND --seed SEED` makes, in *out, an empty set. An exit code, with
 * the reason said as of command l. */
int cli_trace_generate(const struct local *l, const char *kind, uint64_t seed,
                       struct trace_set *out) MUST_CHECK;

/* Writes the set as a trace; refuses a terminal. An exit code. */
int cli_trace_save(const struct local *l, const struct trace_set *set, const char *path);

#endif
