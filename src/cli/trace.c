#include "cli/trace.h"

#include "cli/cli.h"
#include "trace/convert.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Progress, for people: only on a terminal, and only after two seconds. */
struct progress {
    bool shown;
    time_t since;
};

static void show_progress(void *ctx, uint64_t n)
{
    struct progress *p = ctx;
    if (!isatty(STDERR_FILENO) || time(NULL) - p->since < 2)
        return;
    p->shown = true;
    fprintf(stderr, "\rharbinger: %" PRIu64 " rows", n);
}

static void end_progress(const struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
}

static void tell_row(void *ctx, const char *text)
{
    end_progress(ctx);
    fprintf(stderr, "harbinger: %s\n", text);
}

static const char *operand(const struct local *l)
{
    return l->n_operands > 0 ? l->operands[0] : "-";
}

static int read_trace(const struct local *l, struct trace_set *out, struct err *e)
{
    struct trace_reader *r;
    int f = trace_open(&r, operand(l), e);
    if (f < 0)
        return f;
    f = trace_set_read(out, r, e);
    trace_close(r);
    return f;
}

static int convert(const struct local *l, const struct convert_options *o, struct trace_set *out,
                   struct rows *rows, struct err *e)
{
    struct progress progress = {.since = time(NULL)};
    struct input *in;
    int f = input_open(&in, operand(l), e);
    if (f < 0)
        return f;
    struct rows seen = {.strict = local_given(l, "strict"),
                        .tell = tell_row,
                        .progress = show_progress,
                        .ctx = &progress};
    f = convert_read(out, in, o, &seen, e);
    input_close(in);
    end_progress(&progress);
    seen.ctx = NULL;
    *rows = seen;
    if (f == 0 && rows_bad(rows) > ROWS_TOLD)
        fprintf(stderr, "harbinger: and %" PRIu64 " bad rows more\n", rows_bad(rows) - ROWS_TOLD);
    return f;
}

/* An option that only makes sense for some formats. */
static int check_given(const struct local *l, bool wrong, const char *option, const char *format)
{
    if (wrong && local_given(l, option))
        return local_usage(l, "--format %s does not take --%s", format, option);
    return CLI_OK;
}

static int check_options(const struct local *l, const char *format)
{
    static const char *const tables[] = {"arrival", "end",           "cost",     "duration",
                                         "unit",    "duration-unit", "separator"};
    static const char *const all[] = {"key", "producer", "size", "strict"};
    bool native = strcmp(format, "trace") == 0, swf = strcmp(format, "swf") == 0;
    int code = check_given(l, !swf, "serial", format);
    for (size_t i = 0; code == CLI_OK && i < ARRAY_SIZE(tables); i++)
        code = check_given(l, native || swf, tables[i], format);
    for (size_t i = 0; code == CLI_OK && i < ARRAY_SIZE(all); i++)
        code = check_given(l, native, all[i], format);
    return code;
}

static int take_unit(const struct local *l, const char *option, enum convert_unit *inout)
{
    const char *text = local_text(l, option, NULL);
    if (text != NULL && !convert_unit_of(text, inout))
        return local_usage(l, "--%s: '%s' is none of ns, us, ms, s", option, text);
    return CLI_OK;
}

static int take_separator(const struct local *l, char *inout)
{
    const char *text = local_text(l, "separator", NULL);
    if (text == NULL)
        return CLI_OK;
    if (strcmp(text, "tab") == 0)
        text = "\t";
    if (strlen(text) != 1 || *text == '"')
        return local_usage(l, "--separator: '%s' is not one character, and not \"", text);
    *inout = *text;
    return CLI_OK;
}

/* The format's own options, with what the command line replaces. */
static int take_options(const struct local *l, struct convert_options *o)
{
    o->key = local_text(l, "key", o->key);
    o->producer = local_text(l, "producer", o->producer);
    o->size = local_text(l, "size", o->size);
    o->serial = local_given(l, "serial");
    if (local_given(l, "arrival"))
        o->end = NULL;
    o->arrival = local_text(l, "arrival", o->arrival);
    o->end = local_text(l, "end", o->end);
    o->duration = local_text(l, "duration", o->duration);
    o->cost = local_text(l, "cost", o->cost != NULL ? o->cost : o->duration);
    if (local_given(l, "arrival") && local_given(l, "end"))
        return local_usage(l, "either --arrival or --end");
    int code = take_unit(l, "unit", &o->arrival_unit);
    if (code == CLI_OK && local_given(l, "unit"))
        o->duration_unit = o->arrival_unit;
    if (code == CLI_OK)
        code = take_unit(l, "duration-unit", &o->duration_unit);
    return code == CLI_OK ? take_separator(l, &o->separator) : code;
}

int cli_trace_load(const struct local *l, struct trace_set *out, struct rows *rows)
{
    const char *format = local_text(l, "format", "trace");
    struct convert_options o = {0};
    struct err e = {0};
    bool native = strcmp(format, "trace") == 0;
    trace_set_init(out);
    *rows = (struct rows){0};
    if (!native && !convert_options_for(format, &o))
        return local_usage(l, "--format: there is no format '%s'", format);
    if (l->n_operands > 1)
        return local_usage(l, "unexpected argument '%s'", l->operands[1]);
    int code = check_options(l, format);
    if (code == CLI_OK)
        code = take_options(l, &o);
    if (code != CLI_OK)
        return code;
    int f = native ? read_trace(l, out, &e) : convert(l, &o, out, rows, &e);
    if (f < 0)
        return local_failed(&e);
    if (out->n > 0)
        return CLI_OK;
    cli_trace_print_rows(stderr, rows);
    err_set(&e, ERR_INVALID, "%s: there is no job in it", operand(l));
    return local_failed(&e);
}

static void print_kind(FILE *f, const struct rows *rows, bool bad, const char *name)
{
    const char *before = name;
    for (int i = 0; i < ROW_N_REASONS; i++) {
        if (rows->skipped[i] == 0 || row_reason_bad(i) != bad)
            continue;
        fprintf(f, "%s%" PRIu64 " %s", before, rows->skipped[i], row_reason_text(i));
        before = ", ";
    }
    if (before != name)
        fputs("\n", f);
}

void cli_trace_print_rows(FILE *f, const struct rows *rows)
{
    print_kind(f, rows, false, "rows left out: ");
    print_kind(f, rows, true, "bad rows: ");
    if (rows->shortened > 0)
        fprintf(f, "keys of over 128 bytes became labels in %" PRIu64 " rows\n", rows->shortened);
}

static json_t *kind_json(const struct rows *rows, bool bad)
{
    json_t *all = json_object();
    for (int i = 0; i < ROW_N_REASONS; i++) {
        char name[32] = "";
        if (rows->skipped[i] == 0 || row_reason_bad(i) != bad)
            continue;
        for (size_t k = 0; row_reason_name(i)[k] != '\0' && k + 1 < sizeof name; k++)
            name[k] = (char)tolower((unsigned char)row_reason_name(i)[k]);
        json_object_set_new(all, name, json_integer((json_int_t)rows->skipped[i]));
    }
    return all;
}

json_t *cli_trace_rows_json(const struct rows *rows)
{
    return json_pack("{s:I, s:o, s:o, s:I}", "taken", (json_int_t)rows->taken, "left_out",
                     kind_json(rows, false), "bad", kind_json(rows, true), "shortened_keys",
                     (json_int_t)rows->shortened);
}

int cli_trace_print_json(json_t *all)
{
    int r = all != NULL ? json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12)) : -1;
    puts("");
    json_decref(all);
    if (r == 0)
        return CLI_OK;
    fputs("harbinger: out of memory\n", stderr);
    return CLI_FAILED;
}

int cli_trace_save(const struct local *l, const struct trace_set *set, const char *path)
{
    struct trace_writer *w;
    struct err e;
    if (strcmp(path, "-") == 0 && isatty(STDOUT_FILENO))
        return local_usage(l, "a trace is no text for a terminal: --out FILE");
    int f = trace_create(&w, path, &e);
    if (f == 0) {
        f = trace_set_write(set, w, &e);
        if (f == 0)
            f = trace_finish(w, &e);
        else
            trace_abandon(w);
    }
    return f < 0 ? local_failed(&e) : CLI_OK;
}
