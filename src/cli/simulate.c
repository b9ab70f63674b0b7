/* harbinger simulate: what would Harbinger do to these jobs? */
#include "cli/simulate.h"

#include "base/num.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct local_option local_simulate_options[] = {
    {"generate", "KIND[:SEED]", "no file, but what 'harbinger trace generate KIND' makes"},
    {"arms", "ARM[,ARM]...", "what to compare [fifo,predictive]; 'help' lists them"},
    {"load", "X[,X]...", "compress arrivals to this use of the workers [as they are]"},
    {"workers", "N", "so many jobs run at once [64]"},
    {"history", "SHARE", "the first part of the trace only teaches [0.5; 0 with --generate]"},
    {"split", "BY", "history and windows by 'rows' or by 'time' [time]"},
    {"windows", "N", "parts of the rest that are looked at one by one [7]"},
    {"set", "NAME=VALUE[,NAME=VALUE]...", "options of the sidecar's configuration, for all arms"},
    {"map", "FILE", "for the arm static: lines KEY: LEVEL"},
    {"group", "NAME=KEY[,KEY]...[;...]", "sum these keys up, too"},
    {"max-waiting", "N", "give up when more jobs wait [5000000]"},
    {"seed", "N", "of the arm random [2026]"},
    {"threads", "N", "runs at once [the cores]"},
    {"json", NULL, "one JSON object instead of the table"},
    {"csv", NULL, "a row per run and part of it instead of the table"},
    {"log", "FILE", "every decision of the only run"},
    {0},
};

/* ---- lists ---- */

/* Cuts the text at commas, in place. False when there are too many parts or an empty one. */
static bool cut(char *text, const char **out, unsigned *n)
{
    for (*n = 0; *n < SIMULATE_LIST_MAX; text++) {
        char *comma = strchr(text, ',');
        out[(*n)++] = text;
        if (comma != NULL)
            *comma = '\0';
        if (*text == '\0')
            return false;
        if (comma == NULL)
            return true;
        text = comma;
    }
    return false;
}

static int take_loads(const struct local *l, struct simulate *s, char *text)
{
    const char *parts[SIMULATE_LIST_MAX] = {NULL};
    s->n_loads = 1;
    if (text == NULL)
        return CLI_OK;
    if (!cut(text, parts, &s->n_loads))
        return local_usage(l, "--load: 1..%d numbers between commas", SIMULATE_LIST_MAX);
    for (unsigned i = 0; i < s->n_loads && parts[i] != NULL; i++)
        if (num_parse_double(parts[i], strlen(parts[i]), &s->loads[i]) < 0 || s->loads[i] <= 0 ||
            s->loads[i] > 10)
            return local_usage(l, "--load: '%s' is not a number above 0 and at most 10", parts[i]);
    return CLI_OK;
}

static int set_all(const struct local *l, struct sim_options *o, char *text)
{
    const char *parts[SIMULATE_LIST_MAX] = {NULL};
    unsigned n;
    if (!cut(text, parts, &n))
        return local_usage(l, "--set: 1..%d NAME=VALUE between commas", SIMULATE_LIST_MAX);
    for (unsigned i = 0; i < n && parts[i] != NULL; i++) {
        struct err e;
        size_t k = strcspn(parts[i], "=");
        if (parts[i][k] == '\0')
            return local_usage(l, "--set: '%s' is not of the form NAME=VALUE", parts[i]);
        if (sim_option_set(o, (struct text){parts[i], k}, text_of(parts[i] + k + 1), &e) < 0)
            return local_usage(l, "--set: %s", e.msg);
    }
    return CLI_OK;
}

bool simulate_take_settings(const struct local *l, struct sim_options *o)
{
    const char *given = local_text(l, "set", NULL);
    if (given == NULL)
        return true;
    char *text = strdup(given);
    if (text == NULL) {
        fputs("harbinger: out of memory\n", stderr);
        return false;
    }
    int code = set_all(l, o, text);
    free(text);
    return code == CLI_OK;
}

static int print_arms(void)
{
    for (const struct sim_arm *a = sim_arms; a->name != NULL; a++)
        printf("%-20s %s\n", a->name, a->help);
    puts("\nAny of them with other options: ARM:NAME=VALUE[:NAME=VALUE]..., weights as 8/3/1:");
    for (size_t i = 0; sim_option_name(i) != NULL; i++)
        printf("%s%s", i == 0 ? "" : i % 4 == 0 ? ",\n" : ", ", sim_option_name(i));
    puts("");
    return CLI_OK;
}

/* ---- the plan of runs ---- */

static int take_split(const struct local *l, struct simulate *s)
{
    const char *by = local_text(l, "split", "time");
    const char *history = local_text(l, "history", NULL);
    uint64_t windows = 7;
    if (strcmp(by, "rows") != 0 && strcmp(by, "time") != 0)
        return local_usage(l, "--split: '%s' is neither rows nor time", by);
    if (!local_number(l, "windows", 1, SIM_WINDOWS_MAX, &windows))
        return CLI_USAGE;
    s->split.by = s->split.windows_by = strcmp(by, "rows") == 0 ? SIM_BY_ROWS : SIM_BY_TIME;
    s->split.windows = (unsigned)windows;
    s->split.history = s->input.has_history ? 0.5 : 0;
    if (history != NULL && (num_parse_double(history, strlen(history), &s->split.history) < 0 ||
                            s->split.history < 0 || s->split.history > 0.9))
        return local_usage(l, "--history: '%s' is not a share from 0 to 0.9", history);
    return CLI_OK;
}

static int take_base(const struct local *l, struct sim_options *o)
{
    uint64_t workers = o->workers, seed = 2026, most = o->broker.max_messages;
    if (!local_number(l, "workers", 1, 1000000, &workers) ||
        !local_number(l, "seed", 0, INT64_MAX, &seed) ||
        !local_number(l, "max-waiting", 1, 1000000000, &most))
        return CLI_USAGE;
    o->workers = (uint32_t)workers;
    o->seed = seed;
    o->broker.max_messages = most;
    return simulate_take_settings(l, o) ? CLI_OK : CLI_USAGE;
}

int simulate_make_runs(struct simulate *s, const struct sim_options *base, struct err *e)
{
    s->n_runs = s->n_arms * s->n_loads;
    if (s->n_runs > SIMULATE_RUNS_MAX)
        return err_set(e, ERR_INVALID, "more than %d runs", SIMULATE_RUNS_MAX);
    s->runs = calloc(s->n_runs, sizeof s->runs[0]);
    if (s->runs == NULL)
        return err_set(e, ERR_NOMEM, "no memory for %u runs", s->n_runs);
    for (unsigned i = 0; i < s->n_runs; i++) {
        struct simulate_run *r = &s->runs[i];
        r->all = s;
        r->arm = s->arms[i % s->n_arms];
        r->o = *base;
        r->o.load = s->loads[i / s->n_arms];
        if (sim_arm_apply(&r->o, r->arm, e) < 0)
            return e->code;
        if (r->o.router == SIM_MAP && s->keys->mapped.n == 0)
            return err_set(e, ERR_INVALID, "arm %s: it needs a map with at least one key", r->arm);
    }
    return 0;
}

int simulate_make_plan(struct simulate *s, struct err *e)
{
    struct simulate_source source;
    if (simulate_source_open(&source, &s->input, e) < 0)
        return e->code;
    s->plan = sim_plan_new(&source.source, &s->split, e);
    simulate_source_close(&source);
    if (s->plan == NULL)
        return err_prefix(e, "%s", s->input.name);
    sim_plan_info(s->plan, &s->info);
    return 0;
}

void simulate_fini(struct simulate *s)
{
    for (unsigned i = 0; s->runs != NULL && i < s->n_runs; i++)
        sim_result_fini(&s->runs[i].result);
    free(s->runs);
    sim_plan_free(s->plan);
    s->runs = NULL;
    s->plan = NULL;
}

/* ---- the log ---- */

static int open_log(const struct local *l, struct simulate *s)
{
    const char *path = local_text(l, "log", NULL);
    if (path == NULL)
        return CLI_OK;
    if (s->n_runs != 1)
        return local_usage(l, "--log takes the decisions of one run: one arm, one load");
    s->log = fopen(path, "we");
    if (s->log == NULL)
        return local_failed_file(path);
    simulate_log_begin(s->log);
    return CLI_OK;
}

static int close_log(const struct local *l, struct simulate *s)
{
    if (s->log == NULL)
        return CLI_OK;
    bool failed = ferror(s->log) != 0;
    if (fclose(s->log) == 0 && !failed)
        return CLI_OK;
    return local_failed_file(local_text(l, "log", ""));
}

/* ---- all of it ---- */

static int print_results(const struct local *l, const struct simulate *s)
{
    if (local_given(l, "json"))
        return simulate_print_json(s);
    return local_given(l, "csv") ? simulate_print_csv(s) : simulate_print_table(s);
}

struct words {
    char *arms, *loads; /* copies, to be cut */
};

static int read_options(const struct local *l, struct simulate *s, const struct words *w,
                        struct simulate_keys *keys)
{
    struct sim_options base;
    uint64_t threads = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    sim_options_init(&base);
    if (local_given(l, "json") && local_given(l, "csv"))
        return local_usage(l, "either --json or --csv");
    if (!local_number(l, "threads", 1, 1024, &threads))
        return CLI_USAGE;
    s->n_threads = (unsigned)threads;
    if (!cut(w->arms, s->arms, &s->n_arms))
        return local_usage(l, "--arms: 1..%d arms between commas", SIMULATE_LIST_MAX);
    int code = take_loads(l, s, w->loads);
    if (code == CLI_OK)
        code = take_base(l, &base);
    if (code == CLI_OK)
        code = simulate_keys_read(l, keys);
    struct err e;
    s->keys = keys;
    if (code == CLI_OK && simulate_make_runs(s, &base, &e) < 0)
        code = local_usage(l, "--arms: %s", e.msg);
    if (code == CLI_OK)
        code = simulate_input_open(l, &s->input);
    return code == CLI_OK ? take_split(l, s) : code;
}

static int simulate(const struct local *l, struct simulate *s, const struct words *w,
                    struct simulate_keys *keys)
{
    struct err e;
    int code = read_options(l, s, w, keys);
    if (code == CLI_OK && simulate_make_plan(s, &e) < 0)
        code = local_failed(&e);
    if (code == CLI_OK)
        code = open_log(l, s);
    if (code == CLI_OK)
        code = simulate_run_all(s);
    int closed = close_log(l, s);
    if (code == CLI_OK)
        code = closed;
    return code == CLI_OK ? print_results(l, s) : code;
}

int local_simulate(struct local *l)
{
    struct simulate s = {0};
    struct simulate_keys keys = {0};
    const char *loads = local_text(l, "load", NULL);
    if (strcmp(local_text(l, "arms", ""), "help") == 0)
        return print_arms();
    struct words w = {
        .arms = strdup(local_text(l, "arms", "fifo,predictive")),
        .loads = loads != NULL ? strdup(loads) : NULL,
    };
    int code = CLI_FAILED;
    if (w.arms == NULL || (loads != NULL && w.loads == NULL))
        fputs("harbinger: out of memory\n", stderr);
    else
        code = simulate(l, &s, &w, &keys);
    simulate_fini(&s);
    simulate_keys_fini(&keys);
    simulate_input_fini(&s.input);
    free(w.arms);
    free(w.loads);
    return code;
}
