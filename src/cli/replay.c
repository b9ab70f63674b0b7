/* harbinger replay: takes the decisions of a daemon's journal again, with its options or others. */
#include "cli/cli.h"
#include "cli/simulate.h"
#include "cli/trace.h"
#include "sim/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct local_option local_replay_options[] = {
    {"set", "NAME=VALUE[,NAME=VALUE]...",
     "options of the predictor, where they are not the defaults"},
    {"out", "FILE", "the journal with the decisions as they are taken now"},
    {"json", NULL, "one JSON object instead of the text"},
    {0},
};

struct files {
    FILE *in, *out; /* out: NULL for none */
    const char *in_name, *out_name;
};

static int bad_line(const struct files *f, uint64_t number, struct err *e)
{
    err_prefix(e, "%s:%" PRIu64, f->in_name, number);
    return local_failed(e);
}

static bool write_line(const struct files *f, struct buf *line)
{
    bool written = f->out == NULL || fwrite(line->p, 1, line->n, f->out) == line->n;
    buf_reset(line);
    return written;
}

/* ---- the journal ---- */

static int take_line(struct sim_replay *r, struct text line, const struct files *f, struct buf *now)
{
    struct sim_replay_counts counts;
    struct err e;
    sim_replay_counts(r, &counts);
    if (line.p[line.n - 1] != '\n') {
        err_set(&e, ERR_INVALID, "the line is cut off");
        return bad_line(f, counts.lines + 1, &e);
    }
    line.n--;
    if (sim_replay_line(r, line, f->out != NULL ? now : NULL, &e) < 0)
        return bad_line(f, counts.lines + 1, &e);
    return write_line(f, now) ? CLI_OK : local_failed_file(f->out_name);
}

static int take_all(struct sim_replay *r, const struct files *f)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    struct buf now = {0};
    struct sim_replay_counts counts;
    int code = CLI_OK;
    while (code == CLI_OK && (n = getline(&line, &cap, f->in)) > 0)
        code = take_line(r, (struct text){line, (size_t)n}, f, &now);
    if (code == CLI_OK && ferror(f->in) != 0)
        code = local_failed_file(f->in_name);
    sim_replay_counts(r, &counts);
    if (code == CLI_OK && counts.lines == 0) {
        struct err e;
        err_set(&e, ERR_INVALID, "%s: the journal is empty", f->in_name);
        code = local_failed(&e);
    }
    buf_fini(&now);
    free(line);
    return code;
}

/* ---- what came out ---- */

static int print(const struct local *l, const struct sim_replay *r)
{
    struct sim_replay_counts c;
    sim_replay_counts(r, &c);
    if (local_given(l, "json"))
        return cli_trace_print_json(json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "jobs", (json_int_t)c.jobs, "learned",
            (json_int_t)c.learned, "timeouts", (json_int_t)c.timeouts, "without_key",
            (json_int_t)c.without_key, "other_level", (json_int_t)c.other_level, "other_estimate",
            (json_int_t)c.other_estimate, "first_other_line", (json_int_t)c.first_other));
    printf("%" PRIu64 " jobs, %" PRIu64 " without a key; %" PRIu64 " durations learned, %" PRIu64
           " timeouts\n",
           c.jobs, c.without_key, c.learned, c.timeouts);
    printf("jobs with another level now: %" PRIu64 ", with another estimate: %" PRIu64,
           c.other_level, c.other_estimate);
    if (c.first_other > 0)
        printf(", the first one in line %" PRIu64, c.first_other);
    puts("");
    return CLI_OK;
}

static int replay(const struct local *l, struct sim_replay *r, struct files *f)
{
    if (f->out_name != NULL && (f->out = fopen(f->out_name, "we")) == NULL)
        return local_failed_file(f->out_name);
    int code = take_all(r, f);
    if (f->out != NULL && fclose(f->out) != 0 && code == CLI_OK)
        code = local_failed_file(f->out_name);
    return code == CLI_OK ? print(l, r) : code;
}

int local_replay(struct local *l)
{
    struct sim_options o;
    struct err e;
    if (l->n_operands != 1)
        return local_usage(l, "one journal, or - for standard input");
    bool from_stdin = strcmp(l->operands[0], "-") == 0;
    struct files f = {.in = stdin,
                      .in_name = from_stdin ? "standard input" : l->operands[0],
                      .out_name = local_text(l, "out", NULL)};
    sim_options_init(&o);
    if (!simulate_take_settings(l, &o))
        return CLI_USAGE;
    struct sim_replay *r = sim_replay_new(&o.predictor, &e);
    if (r == NULL)
        return local_failed(&e);
    if (!from_stdin)
        f.in = fopen(f.in_name, "re");
    int code = f.in != NULL ? replay(l, r, &f) : local_failed_file(f.in_name);
    if (!from_stdin && f.in != NULL)
        fclose(f.in);
    sim_replay_free(r);
    return code;
}
