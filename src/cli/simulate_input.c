/* harbinger simulate: where the jobs come from, and what its keys mean. */
#include "base/num.h"
#include "cli/cli.h"
#include "cli/simulate.h"
#include "cli/trace.h"

#include <stdlib.h>
#include <string.h>

/* ---- the trace ---- */

static int read_all(struct simulate_input *in, const char *path)
{
    struct trace_reader *r;
    struct err e;
    int f = trace_open(&r, path, &e);
    if (f == 0) {
        f = trace_set_read(&in->set, r, &e);
        trace_close(r);
    }
    return f < 0 ? local_failed(&e) : CLI_OK;
}

/* KIND:SEED */
int simulate_input_generate(const struct local *l, struct simulate_input *in, const char *what)
{
    const char *colon = strchr(what, ':');
    char kind[32];
    uint64_t seed = 1;
    size_t n = colon != NULL ? (size_t)(colon - what) : strlen(what);
    if (n >= sizeof kind ||
        (colon != NULL && num_parse_u64(colon + 1, strlen(colon + 1), &seed) < 0))
        return local_usage(l, "--generate: '%s' is not of the form KIND:SEED", what);
    memcpy(kind, what, n);
    kind[n] = '\0';
    *in = (struct simulate_input){0};
    trace_set_init(&in->set);
    in->name = what;
    in->has_history = strcmp(kind, "serverless") == 0;
    return cli_trace_generate(l, kind, seed, &in->set);
}

int simulate_input_open(const struct local *l, struct simulate_input *in)
{
    const char *what = local_text(l, "generate", NULL);
    *in = (struct simulate_input){0};
    trace_set_init(&in->set);
    if (l->n_operands > 1)
        return local_usage(l, "unexpected argument '%s'", l->operands[1]);
    if ((what != NULL) == (l->n_operands == 1))
        return local_usage(l, "either a FILE or --generate KIND:SEED");
    if (what != NULL)
        return simulate_input_generate(l, in, what);
    in->name = l->operands[0];
    in->has_history = true;
    if (strcmp(in->name, "-") == 0)
        return read_all(in, in->name);
    in->path = in->name;
    return CLI_OK;
}

void simulate_input_fini(struct simulate_input *in)
{
    trace_set_fini(&in->set);
}

static int next(void *ctx, struct sim_job *out, struct err *e)
{
    struct simulate_source *s = ctx;
    struct trace_job job;
    if (s->reader == NULL) {
        if (s->at == s->in->set.n)
            return 0;
        job = s->in->set.jobs[s->at++];
    } else {
        int got = trace_next(s->reader, &job, e);
        if (got <= 0)
            return got;
    }
    *out = (struct sim_job){
        .arrival_us = job.arrival_us,
        .duration_us = job.duration_us,
        .size = job.size == TRACE_NO_SIZE ? SIM_NO_SIZE : job.size,
        .key = job.key,
        .producer = job.producer == TRACE_NO_PRODUCER ? SIM_NO_PRODUCER : job.producer,
    };
    return 1;
}

static int to_first(void *ctx, struct err *e)
{
    struct simulate_source *s = ctx;
    s->at = 0;
    return s->reader != NULL ? trace_rewind(s->reader, e) : 0;
}

static struct text key(void *ctx, uint32_t i)
{
    const struct simulate_source *s = ctx;
    return s->reader != NULL ? trace_key(s->reader, i) : s->in->set.keys.texts[i];
}

static struct text producer(void *ctx, uint32_t i)
{
    const struct simulate_source *s = ctx;
    return s->reader != NULL ? trace_producer(s->reader, i) : s->in->set.producers.texts[i];
}

int simulate_source_open(struct simulate_source *s, const struct simulate_input *in, struct err *e)
{
    *s = (struct simulate_source){.in = in, .source = {s, next, to_first, key, producer}};
    return in->path != NULL ? trace_open(&s->reader, in->path, e) : 0;
}

void simulate_source_close(struct simulate_source *s)
{
    if (s->reader != NULL)
        trace_close(s->reader);
    s->reader = NULL;
}

/* ---- keys with a meaning ---- */

static int no_memory(void)
{
    fputs("harbinger: out of memory\n", stderr);
    return CLI_FAILED;
}

/* Adds the name with its value; one that is there already gets the new one. */
static int set_value(struct names *names, uint8_t **values, struct text name, uint8_t value)
{
    uint32_t i;
    bool is_new;
    if (names_add(names, name, &i, &is_new) < 0)
        return ERR_INVALID;
    if (is_new) {
        uint8_t *more = realloc(*values, names->n);
        if (more == NULL)
            return ERR_NOMEM;
        *values = more;
    }
    (*values)[i] = value;
    return 0;
}

static struct text trimmed(struct text t)
{
    while (t.n > 0 && strchr(" \t\r\n", t.p[t.n - 1]) != NULL)
        t.n--;
    while (t.n > 0 && strchr(" \t", *t.p) != NULL)
        t = (struct text){t.p + 1, t.n - 1};
    return t;
}

int simulate_keys_map(struct simulate_keys *k, struct text key, uint8_t level)
{
    return set_value(&k->mapped, &k->levels, key, level);
}

int simulate_keys_group(struct simulate_keys *k, const char *name, struct text key)
{
    unsigned g = 1;
    while (g <= k->n_groups && strcmp(k->group_names[g], name) != 0)
        g++;
    if (g == SIM_GROUPS || strlen(name) >= SIMULATE_GROUP_BYTES)
        return ERR_INVALID;
    if (g > k->n_groups)
        snprintf(k->group_names[++k->n_groups], SIMULATE_GROUP_BYTES, "%s", name);
    return set_value(&k->grouped, &k->groups, key, (uint8_t)g);
}

/* "KEY: LEVEL"; the last colon counts, since keys may have some. */
static int take_map_line(struct simulate_keys *k, struct text line)
{
    const char *colon = memrchr(line.p, ':', line.n);
    uint64_t level;
    if (colon == NULL)
        return ERR_INVALID;
    struct text name = trimmed((struct text){line.p, (size_t)(colon - line.p)});
    struct text number = trimmed((struct text){colon + 1, line.n - (size_t)(colon + 1 - line.p)});
    if (num_parse_u64(number.p, number.n, &level) < 0 || level >= HB_LEVELS_MAX)
        return ERR_INVALID;
    return simulate_keys_map(k, name, (uint8_t)level);
}

static int read_map(struct simulate_keys *k, FILE *f, const char *path)
{
    char *line = NULL;
    size_t room = 0, number = 0;
    int code = CLI_OK;
    for (ssize_t n; code == CLI_OK && (n = getline(&line, &room, f)) >= 0;) {
        struct text t = trimmed((struct text){line, (size_t)n});
        number++;
        if (t.n == 0 || *t.p == '#')
            continue;
        int r = take_map_line(k, t);
        if (r == ERR_NOMEM)
            code = no_memory();
        else if (r < 0) {
            fprintf(stderr, "harbinger: %s:%zu: not of the form KEY: LEVEL\n", path, number);
            code = CLI_FAILED;
        }
    }
    free(line);
    return code;
}

static int open_map(struct simulate_keys *k, const char *path)
{
    FILE *f = fopen(path, "re");
    int code = CLI_OK;
    if (f != NULL) {
        code = read_map(k, f, path);
        if (code == CLI_OK && !ferror(f)) {
            fclose(f);
            return CLI_OK;
        }
        fclose(f);
    }
    return code == CLI_OK ? local_failed_file(path) : CLI_FAILED;
}

/* NAME=KEY,KEY */
static int take_group(struct simulate_keys *k, struct text t)
{
    const char *equals = memchr(t.p, '=', t.n);
    char name[SIMULATE_GROUP_BYTES] = "";
    if (equals == NULL || equals == t.p || equals - t.p >= SIMULATE_GROUP_BYTES)
        return ERR_INVALID;
    memcpy(name, t.p, (size_t)(equals - t.p));
    t = (struct text){equals + 1, t.n - (size_t)(equals + 1 - t.p)};
    for (size_t from = 0, to; from < t.n; from = to + 1) {
        const char *comma = memchr(t.p + from, ',', t.n - from);
        to = comma != NULL ? (size_t)(comma - t.p) : t.n;
        int r = simulate_keys_group(k, name, (struct text){t.p + from, to - from});
        if (r < 0)
            return r;
    }
    return 0;
}

/* Groups between semicolons. */
static int take_groups(const struct local *l, struct simulate_keys *k, const char *all)
{
    for (size_t n; *all != '\0'; all += n + (all[n] == ';')) {
        n = strcspn(all, ";");
        int r = take_group(k, (struct text){all, n});
        if (r == ERR_NOMEM)
            return no_memory();
        if (r < 0)
            return local_usage(l,
                               "--group: '%s' is not of the form NAME=KEY,KEY;NAME=KEY: at most "
                               "%d groups, with names of at most %d bytes",
                               all, SIM_GROUPS - 1, SIMULATE_GROUP_BYTES - 1);
    }
    return CLI_OK;
}

void simulate_keys_init(struct simulate_keys *k)
{
    *k = (struct simulate_keys){0};
    names_init(&k->mapped);
    names_init(&k->grouped);
}

int simulate_keys_read(const struct local *l, struct simulate_keys *k)
{
    const char *path = local_text(l, "map", NULL);
    const char *groups = local_text(l, "group", NULL);
    simulate_keys_init(k);
    int code = path != NULL ? open_map(k, path) : CLI_OK;
    return code == CLI_OK && groups != NULL ? take_groups(l, k, groups) : code;
}

void simulate_keys_fini(struct simulate_keys *k)
{
    names_fini(&k->mapped);
    names_fini(&k->grouped);
    free(k->levels);
    free(k->groups);
}
