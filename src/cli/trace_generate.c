/* harbinger trace generate: traces from nothing but a seed. */
#include "base/num.h"
#include "cli/cli.h"
#include "cli/trace.h"
#include "trace/gen_mg1.h"
#include "trace/gen_prodflow.h"
#include "trace/gen_serverless.h"
#include "trace/gen_toy.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct local_option local_trace_generate_options[] = {
    {"seed", "N", "everything follows from it [1]"},
    {"out", "FILE", "where the trace goes [nowhere with --json, else standard output]"},
    {"json", NULL, "what was generated as one JSON object"},
    {"seconds", "S", "prodflow [300], toy [150]: how long jobs arrive"},
    {"rate-scale", "X", "prodflow: times the base rates [1.8]"},
    {"calibration", "NAME", "prodflow: ms per unit of work: v2, v3-sizebins, v3-aging [v2]"},
    {"timeouts", NULL, "prodflow: the 1.5 s of a failing first attempt count, too"},
    {"jobs", "N", "mg1 [1000000], serverless [1980951]: how many"},
    {"load", "X", "mg1 [0.8], toy [1.2]: arrivals over capacity"},
    {"short-share", "X", "mg1: of the jobs [0.9]"},
    {"ratio", "X", "mg1: of a long job's size to a short one's [10]"},
    {"backlog", NULL, "toy: 48 jobs of each class at once, instead of overload"},
    {"workers", "N", "toy: make the capacity [1]"},
    {"service", "DURATION", "mg1 (of a short job), toy: how long a job takes [10ms]"},
    {0},
};

/* A kind of trace: which options it takes, and who makes it. */
struct kind {
    const char *name, *options;
    int (*generate)(const struct local *l, uint64_t seed, struct trace_set *out, json_t *summary);
};

/* A decimal above 0. False when it is none, which has been said then. */
static bool take_decimal(const struct local *l, const char *option, double *inout)
{
    const char *text = local_text(l, option, NULL);
    if (text == NULL)
        return true;
    double v;
    if (num_parse_double(text, strlen(text), &v) < 0 || v <= 0) {
        local_usage(l, "--%s: '%s' is not a number above 0", option, text);
        return false;
    }
    *inout = v;
    return true;
}

static bool take_service(const struct local *l, int64_t *inout_us)
{
    const char *text = local_text(l, "service", NULL);
    mono_t ns;
    if (text == NULL)
        return true;
    if (num_parse_duration(text, strlen(text), &ns) < 0 || ns < MONO_US) {
        local_usage(l, "--service: '%s' is not a duration as 10ms", text);
        return false;
    }
    *inout_us = ns / MONO_US;
    return true;
}

static int no_memory(void)
{
    fputs("harbinger: out of memory\n", stderr);
    return CLI_FAILED;
}

/* Room for n jobs, which count as there. */
static int make_room(struct trace_set *s, size_t n)
{
    s->jobs = reallocarray(NULL, n, sizeof *s->jobs);
    s->n = s->cap = s->jobs != NULL ? n : 0;
    return s->jobs != NULL ? CLI_OK : no_memory();
}

static int add_key(struct trace_set *s, const char *name)
{
    uint32_t at;
    return names_add(&s->keys, text_of(name), &at, NULL) < 0 ? no_memory() : CLI_OK;
}

static int add_prodflow_job(struct trace_set *s, const struct prodflow_job *j,
                            const struct prodflow_calibration *c, bool timeouts)
{
    struct trace_job job = {.arrival_us = j->arrival_us, .size = TRACE_NO_SIZE};
    double ms = prodflow_planned_ms(j, c) + (timeouts && j->fails ? PRODFLOW_TIMEOUT_MS : 0);
    job.duration_us = (int64_t)llround(ms * 1000);
    prodflow_size_hint(j, &job.size);
    int r = names_add(&s->keys, text_of(prodflow_type_name(j->type)), &job.key, NULL);
    if (r == 0)
        r = names_add(&s->producers, text_of(prodflow_service_name(j->type)), &job.producer, NULL);
    return r == 0 ? trace_set_add(s, &job) : r;
}

static void tell_prodflow(const struct prodflow_job *jobs, size_t n, const double boundaries[2],
                          json_t *summary)
{
    json_int_t by_phase[PRODFLOW_N_PHASES] = {0}, by_type[PRODFLOW_N_TYPES] = {0}, failing = 0;
    json_t *phases = json_object(), *types = json_object();
    for (size_t i = 0; i < n; i++) {
        by_phase[jobs[i].phase]++;
        by_type[jobs[i].type]++;
        failing += jobs[i].fails;
    }
    for (int p = 0; p < PRODFLOW_N_PHASES; p++)
        json_object_set_new(phases, prodflow_phase_name(p), json_integer(by_phase[p]));
    for (int t = 0; t < PRODFLOW_N_TYPES; t++)
        json_object_set_new(types, prodflow_type_name(t), json_integer(by_type[t]));
    json_object_set_new(summary, "messages", json_integer((json_int_t)n));
    json_object_set_new(summary, "phases", phases);
    json_object_set_new(summary, "types", types);
    json_object_set_new(summary, "failing", json_integer(failing));
    json_object_set_new(summary, "oracle_boundaries_ms",
                        json_pack("[f, f]", boundaries[0], boundaries[1]));
}

/* A first attempt that fails occupies a worker and teaches nothing about its type: a job of its own,
 * of a type of its own. */
static int add_attempt(struct trace_set *s, const struct prodflow_job *j)
{
    struct trace_job job = {
        .arrival_us = j->arrival_us,
        .duration_us = (int64_t)(PRODFLOW_TIMEOUT_MS * 1000),
        .size = TRACE_NO_SIZE,
    };
    int r = names_add(&s->keys, text_of("timeout"), &job.key, NULL);
    if (r == 0)
        r = names_add(&s->producers, text_of(prodflow_service_name(j->type)), &job.producer, NULL);
    return r == 0 ? trace_set_add(s, &job) : r;
}

static int make_prodflow(const struct local *l, uint64_t seed, bool attempts, struct trace_set *out,
                         json_t *summary)
{
    struct prodflow_options o;
    struct prodflow_job *jobs;
    const char *name = local_text(l, "calibration", "v2");
    const struct prodflow_calibration *c = prodflow_calibration(name);
    double boundaries[2] = {0};
    size_t n;
    prodflow_options_init(&o, seed);
    if (c == NULL)
        return local_usage(l, "--calibration: there is no '%s'; v2, v3-sizebins, v3-aging", name);
    if (!take_decimal(l, "seconds", &o.seconds) || !take_decimal(l, "rate-scale", &o.rate_scale))
        return CLI_USAGE;
    int r = prodflow_generate(&o, &jobs, &n);
    if (r == ERR_INVALID)
        return local_usage(l, "--seconds goes up to 86400, --rate-scale up to 1000");
    if (r < 0)
        return no_memory();
    if (n > 0)
        r = prodflow_boundaries(jobs, n, c, boundaries);
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (attempts && jobs[i].fails)
            r = add_attempt(out, &jobs[i]);
        if (r == 0)
            r = add_prodflow_job(out, &jobs[i], c, local_given(l, "timeouts"));
    }
    tell_prodflow(jobs, n, boundaries, summary);
    free(jobs);
    return r < 0 ? no_memory() : CLI_OK;
}

static int generate_prodflow(const struct local *l, uint64_t seed, struct trace_set *out,
                             json_t *summary)
{
    return make_prodflow(l, seed, false, out, summary);
}

static int generate_prodflow_attempts(const struct local *l, uint64_t seed, struct trace_set *out,
                                      json_t *summary)
{
    return make_prodflow(l, seed, true, out, summary);
}

static int generate_mg1(const struct local *l, uint64_t seed, struct trace_set *out,
                        json_t *summary)
{
    struct mg1_options o;
    struct mg1_waits w;
    mg1_options_init(&o, seed);
    uint64_t jobs = o.jobs;
    if (!local_number(l, "jobs", 1, 100000000, &jobs) || !take_decimal(l, "load", &o.load) ||
        !take_decimal(l, "short-share", &o.short_share) || !take_decimal(l, "ratio", &o.ratio) ||
        !take_service(l, &o.short_us))
        return CLI_USAGE;
    o.jobs = jobs;
    int code = make_room(out, o.jobs);
    if (code == CLI_OK && (mg1_waits(&o, &w) < 0 || mg1_generate(&o, out->jobs) < 0))
        return local_usage(l, "--load and --short-share are between 0 and 1, --ratio from 1 to "
                              "1000000, --service up to 1000s, all of it up to 100 years");
    if (code != CLI_OK)
        return code;
    json_object_set_new(summary, "closed_form",
                        json_pack("{s:f, s:f, s:f, s:f, s:f}", "fifo_ms", w.fifo_us / 1e3,
                                  "short_ratio", w.short_us / w.fifo_us, "long_ratio",
                                  w.long_us / w.fifo_us, "all_ratio", w.all_us / w.fifo_us,
                                  "short_work", w.short_work));
    for (uint32_t k = 0; code == CLI_OK && k < MG1_N_CLASSES; k++)
        code = add_key(out, mg1_key_name(k));
    return code;
}

static int generate_toy(const struct local *l, uint64_t seed, struct trace_set *out,
                        json_t *summary)
{
    struct toy_options o;
    toy_options_init(&o, seed);
    uint64_t workers = o.workers;
    bool backlog = local_given(l, "backlog");
    if (!take_decimal(l, "seconds", &o.seconds) || !take_decimal(l, "load", &o.load) ||
        !local_number(l, "workers", 1, 1000, &workers) || !take_service(l, &o.service_us))
        return CLI_USAGE;
    o.workers = (uint32_t)workers;
    size_t n = backlog ? toy_backlog_jobs(&o) : toy_overload_jobs(&o);
    if (n == 0)
        return local_usage(l, "--seconds goes up to 86400, --load up to 100, --service from 1ms to "
                              "1000s, and there must be a job");
    int code = make_room(out, n);
    if (code != CLI_OK)
        return code;
    if (backlog)
        toy_backlog(&o, out->jobs);
    else
        toy_overload(&o, out->jobs);
    json_object_set_new(summary, "workers", json_integer(o.workers));
    for (uint32_t k = 0; code == CLI_OK && k < TOY_N_CLASSES; k++)
        code = add_key(out, toy_key_name(k));
    return code;
}

static int generate_serverless(const struct local *l, uint64_t seed, struct trace_set *out,
                               json_t *summary)
{
    struct serverless_options o;
    serverless_options_init(&o, seed);
    uint64_t jobs = o.jobs;
    if (!local_number(l, "jobs", SERVERLESS_JOBS_MIN, SERVERLESS_JOBS_MAX, &jobs))
        return CLI_USAGE;
    o.jobs = jobs;
    int code = make_room(out, o.jobs);
    if (code == CLI_OK && serverless_generate(&o, out->jobs) < 0)
        return no_memory();
    for (uint32_t k = 0; code == CLI_OK && k < SERVERLESS_KEYS; k++) {
        char name[32];
        serverless_key_name(k, name);
        code = add_key(out, name);
    }
    return code;
}

static const struct kind kinds[] = {
    {"prodflow", "seconds rate-scale calibration timeouts", generate_prodflow},
    {"prodflow-attempts", "seconds rate-scale calibration", generate_prodflow_attempts},
    {"mg1", "jobs load short-share ratio service", generate_mg1},
    {"toy", "seconds load backlog workers service", generate_toy},
    {"serverless", "jobs", generate_serverless},
};

/* Whether the list, of words between blanks, has the word. */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = strstr(list, word); p != NULL; p = strstr(p + 1, word))
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

static int check_options(const struct local *l, const struct kind *k)
{
    for (const struct local_option *o = l->command->options; o->name != NULL; o++)
        if (local_given(l, o->name) && !has_word("seed out json", o->name) &&
            !has_word(k->options, o->name))
            return local_usage(l, "%s does not take --%s", k->name, o->name);
    return CLI_OK;
}

static int generate(const struct local *l, const struct kind *k, uint64_t seed)
{
    bool json = local_given(l, "json");
    struct trace_set set;
    json_t *summary = json_pack("{s:s, s:I}", "kind", k->name, "seed", (json_int_t)seed);
    trace_set_init(&set);
    int code = summary != NULL ? k->generate(l, seed, &set, summary) : no_memory();
    if (code == CLI_OK && (local_given(l, "out") || !json))
        code = cli_trace_save(l, &set, local_text(l, "out", "-"));
    json_object_set_new(summary, "jobs", json_integer((json_int_t)set.n));
    if (code == CLI_OK && json)
        code = cli_trace_print_json(summary);
    else
        json_decref(summary);
    trace_set_fini(&set);
    return code;
}

static const struct kind *find_kind(const struct local *l, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    local_usage(l, "there is no '%s'; one of prodflow, prodflow-attempts, mg1, toy, serverless",
                name);
    return NULL;
}

int cli_trace_generate(const struct local *l, const char *kind, uint64_t seed,
                       struct trace_set *out)
{
    static const struct local_command plain = {.options = local_trace_generate_options};
    const struct local defaults = {.command = &plain};
    const struct kind *k = find_kind(l, kind);
    json_t *summary = json_object();
    int code = k == NULL ? CLI_USAGE : summary == NULL ? no_memory() : CLI_OK;
    if (code == CLI_OK)
        code = k->generate(&defaults, seed, out, summary);
    json_decref(summary);
    return code;
}

int local_trace_generate(struct local *l)
{
    uint64_t seed = 1;
    if (l->n_operands != 1)
        return local_usage(l, "one of prodflow, prodflow-attempts, mg1, toy, serverless");
    const struct kind *k = find_kind(l, l->operands[0]);
    if (k == NULL)
        return CLI_USAGE;
    if (!local_number(l, "seed", 0, INT64_MAX, &seed))
        return CLI_USAGE;
    if (local_given(l, "json") && strcmp(local_text(l, "out", ""), "-") == 0)
        return local_usage(l, "--json and the trace cannot both go to standard output");
    int code = check_options(l, k);
    return code == CLI_OK ? generate(l, k, seed) : code;
}
