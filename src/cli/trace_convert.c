/* harbinger trace convert: a foreign log as a trace. */
#include "cli/cli.h"
#include "cli/trace.h"

#include <inttypes.h>
#include <string.h>

const struct local_option local_trace_convert_options[] = {
    TRACE_LOAD_OPTIONS,
    {"out", "FILE", "where the trace goes [standard output]; gzip if it ends in .gz"},
    {"json", NULL, "what became of the rows as one JSON object; needs --out FILE"},
    {0},
};

static int report(const struct local *l, const struct trace_set *set, const struct rows *rows)
{
    if (local_given(l, "json"))
        return cli_trace_print_json(json_pack(
            "{s:I, s:I, s:I, s:o}", "jobs", (json_int_t)set->n, "keys", (json_int_t)set->keys.n,
            "producers", (json_int_t)set->producers.n, "rows", cli_trace_rows_json(rows)));
    fprintf(stderr, "%zu jobs, %" PRIu32 " keys\n", set->n, set->keys.n);
    cli_trace_print_rows(stderr, rows);
    return CLI_OK;
}

int local_trace_convert(struct local *l)
{
    const char *out = local_text(l, "out", "-");
    struct trace_set set;
    struct rows rows;
    if (local_given(l, "json") && strcmp(out, "-") == 0)
        return local_usage(l, "--json and the trace cannot both go to standard output: --out FILE");
    int code = cli_trace_load(l, &set, &rows);
    if (code == CLI_OK)
        code = cli_trace_save(l, &set, out);
    if (code == CLI_OK)
        code = report(l, &set, &rows);
    trace_set_fini(&set);
    return code;
}
