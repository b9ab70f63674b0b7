/* harbinger lab run: the file of an experiment (YAML; config/experiments has some). */
#include "base/num.h"
#include "cli/lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct lab_experiment *x;
    const char *path;
    struct err *e;
};

struct entry {
    const char *key;
    int (*take)(struct reader *r, yaml_node_t *key, yaml_node_t *value);
};

/* ---- nodes ---- */

static int fail(const struct reader *r, const yaml_node_t *n, const char *what)
{
    err_set(r->e, ERR_CONFIG, "%s:%zu:%zu: %s", r->path, n->start_mark.line + 1,
            n->start_mark.column + 1, what);
    return ERR_CONFIG;
}

static yaml_node_t *node(const struct reader *r, int i)
{
    return yaml_document_get_node(&r->x->document, i);
}

/* NULL when it is no scalar; the text has no NUL in it. */
static const char *text_in(const yaml_node_t *n)
{
    if (n->type != YAML_SCALAR_NODE ||
        strlen((const char *)n->data.scalar.value) != n->data.scalar.length)
        return NULL;
    return (const char *)n->data.scalar.value;
}

static int take_text(const struct reader *r, const yaml_node_t *n, const char **out)
{
    *out = text_in(n);
    return *out != NULL && **out != '\0' ? 0 : fail(r, n, "a text is expected");
}

static int take_number(const struct reader *r, const yaml_node_t *n, double *out)
{
    const char *text = text_in(n);
    if (text == NULL || num_parse_double(text, strlen(text), out) < 0)
        return fail(r, n, "a number is expected");
    return 0;
}

static int take_whole(const struct reader *r, const yaml_node_t *n, uint64_t max, uint64_t *out)
{
    const char *text = text_in(n);
    if (text == NULL || num_parse_u64(text, strlen(text), out) < 0 || *out > max)
        return fail(r, n, "a whole number is expected, and no larger one");
    return 0;
}

static int each_item(struct reader *r, yaml_node_t *n, unsigned max,
                     int (*take)(struct reader *r, yaml_node_t *item, void *ctx), void *ctx)
{
    if (n->type != YAML_SEQUENCE_NODE || n->data.sequence.items.start == n->data.sequence.items.top)
        return fail(r, n, "a list is expected");
    if (n->data.sequence.items.top - n->data.sequence.items.start > (ptrdiff_t)max)
        return fail(r, n, "the list is too long");
    int code = 0;
    for (yaml_node_item_t *i = n->data.sequence.items.start;
         code == 0 && i < n->data.sequence.items.top; i++)
        code = take(r, node(r, *i), ctx);
    return code;
}

static int each_pair(struct reader *r, yaml_node_t *n,
                     int (*take)(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx),
                     void *ctx)
{
    if (n->type != YAML_MAPPING_NODE)
        return fail(r, n, "names with values are expected");
    int code = 0;
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start;
         code == 0 && p < n->data.mapping.pairs.top; p++) {
        yaml_node_t *key = node(r, p->key);
        code = text_in(key) != NULL ? take(r, key, node(r, p->value), ctx)
                                    : fail(r, key, "a name is expected");
    }
    return code;
}

/* ---- the sections ---- */

static int take_name(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return take_text(r, value, &r->x->name);
}

static int take_trace(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return take_text(r, value, &r->x->trace);
}

static int take_unit(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    const char *text = text_in(value);
    if (text == NULL || (strcmp(text, "seed") != 0 && strcmp(text, "window") != 0))
        return fail(r, value, "seed or window is expected");
    r->x->by_window = strcmp(text, "window") == 0;
    return 0;
}

static int add_seed(struct reader *r, yaml_node_t *item, void *ctx)
{
    return take_whole(r, item, INT64_MAX, &r->x->seeds[r->x->n_seeds++]);
}

static int take_seeds(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    r->x->n_seeds = 0;
    return each_item(r, value, LAB_SEEDS_MAX, add_seed, NULL);
}

static int add_load(struct reader *r, yaml_node_t *item, void *ctx)
{
    double *load = &r->x->loads[r->x->n_loads++];
    if (take_number(r, item, load) < 0)
        return ERR_CONFIG;
    return *load > 0 && *load <= 10 ? 0 : fail(r, item, "a load is above 0 and at most 10");
}

static int take_loads(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    r->x->n_loads = 0;
    return each_item(r, value, SIMULATE_LIST_MAX, add_load, NULL);
}

static int take_workers(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    uint64_t n;
    if (take_whole(r, value, 1000000, &n) < 0)
        return ERR_CONFIG;
    r->x->options.workers = (uint32_t)n;
    return 0;
}

static int take_history(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return take_number(r, value, &r->x->split.history);
}

static int take_windows(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    uint64_t n;
    if (take_whole(r, value, SIM_WINDOWS_MAX, &n) < 0)
        return ERR_CONFIG;
    r->x->split.windows = (unsigned)n;
    return 0;
}

static int take_split(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    const char *text = text_in(value);
    if (text == NULL || (strcmp(text, "rows") != 0 && strcmp(text, "time") != 0))
        return fail(r, value, "rows or time is expected");
    r->x->split.by = r->x->split.windows_by = *text == 'r' ? SIM_BY_ROWS : SIM_BY_TIME;
    return 0;
}

static int set_option(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx)
{
    struct err e;
    const char *text = text_in(value);
    if (text == NULL)
        return fail(r, value, "a value is expected");
    if (sim_option_set(&r->x->options, text_of(text_in(key)), text_of(text), &e) < 0)
        return fail(r, key, e.msg);
    return 0;
}

static int take_set(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return each_pair(r, value, set_option, NULL);
}

static int map_key(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx)
{
    uint64_t level;
    if (take_whole(r, value, HB_LEVELS_MAX - 1, &level) < 0)
        return ERR_CONFIG;
    int code = simulate_keys_map(&r->x->keys, text_of(text_in(key)), (uint8_t)level);
    return code < 0 ? fail(r, key, "this is no key") : 0;
}

static int take_map(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return each_pair(r, value, map_key, NULL);
}

static int add_to_group(struct reader *r, yaml_node_t *item, void *ctx)
{
    const char *text = text_in(item);
    if (text == NULL || simulate_keys_group(&r->x->keys, ctx, text_of(text)) < 0)
        return fail(r, item, "this is no key, or the group is one too many");
    return 0;
}

static int add_group(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx)
{
    char name[SIMULATE_GROUP_BYTES];
    if (strlen(text_in(key)) >= sizeof name)
        return fail(r, key, "the name is too long");
    strcpy(name, text_in(key)); /* NOLINT: it fits */
    return each_item(r, value, 1000, add_to_group, name);
}

static int take_groups(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return each_pair(r, value, add_group, NULL);
}

static int set_interval(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx)
{
    struct stats_bootstrap *b = &r->x->bootstrap;
    const char *name = text_in(key);
    uint64_t n = 0;
    if (strcmp(name, "confidence") == 0)
        return take_number(r, value, &b->confidence);
    if (take_whole(r, value, 1000000, &n) < 0)
        return ERR_CONFIG;
    if (strcmp(name, "resamples") == 0)
        b->resamples = (unsigned)n;
    else if (strcmp(name, "seed") == 0)
        b->seed = n;
    else if (strcmp(name, "block") == 0)
        b->block = (unsigned)n;
    else
        return fail(r, key, "one of resamples, seed, confidence and block is expected");
    return 0;
}

static int take_interval(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return each_pair(r, value, set_interval, NULL);
}

/* ---- criteria, gates, variants ---- */

static const struct {
    const char *name;
    size_t offset;
} metrics[] = {
    {"mean", offsetof(struct sim_figures, mean_ms)},
    {"p50", offsetof(struct sim_figures, p50_ms)},
    {"p95", offsetof(struct sim_figures, p95_ms)},
    {"p99", offsetof(struct sim_figures, p99_ms)},
    {"mean_wait", offsetof(struct sim_figures, mean_wait_ms)},
    {"max_wait", offsetof(struct sim_figures, max_wait_ms)},
    {"mean_slowdown", offsetof(struct sim_figures, mean_slowdown)},
};

static const struct {
    const char *name;
    enum stats_rule rule;
} rules[] = {
    {"change", STATS_CHANGE},
    {"max_ratio", STATS_MAX_RATIO},
    {"min_ratio", STATS_MIN_RATIO},
    {"band", STATS_BAND},
};

static int set_metric(struct reader *r, yaml_node_t *value, struct lab_criterion *c)
{
    const char *text = text_in(value);
    for (size_t i = 0; text != NULL && i < ARRAY_SIZE(metrics); i++)
        if (strcmp(metrics[i].name, text) == 0) {
            c->metric = metrics[i].name;
            c->offset = metrics[i].offset;
            return 0;
        }
    return fail(r, value,
                "one of mean, p50, p95, p99, mean_wait, max_wait, mean_slowdown is expected");
}

static int set_criterion(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx)
{
    struct lab_criterion *c = ctx;
    const char *name = text_in(key);
    if (strcmp(name, "metric") == 0)
        return set_metric(r, value, c);
    if (strcmp(name, "of") == 0)
        return take_text(r, value, &c->of);
    if (strcmp(name, "arm") == 0)
        return take_text(r, value, &c->arm);
    if (strcmp(name, "base") == 0)
        return take_text(r, value, &c->base);
    if (strcmp(name, "limit_ms") == 0)
        return take_number(r, value, &c->c.limit);
    if (strcmp(name, "floor_ms") == 0)
        return take_number(r, value, &c->floor_ms);
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (strcmp(rules[i].name, name) == 0) {
            if (c->has_bar)
                return fail(r, key, "a criterion has one bar");
            c->c.rule = rules[i].rule;
            c->has_bar = true;
            return take_number(r, value, &c->c.bar);
        }
    return fail(r, key,
                "one of metric, of, arm, base, change, max_ratio, min_ratio, band and "
                "limit_ms is expected");
}

static int add_criterion(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx)
{
    struct lab_experiment *x = r->x;
    struct sim_options o = x->options;
    struct err e;
    if (x->n_criteria == LAB_CRITERIA_MAX)
        return fail(r, key, "one criterion too many");
    struct lab_criterion *c = &x->criteria[x->n_criteria++];
    *c = (struct lab_criterion){.name = text_in(key), .base = "fifo", .of = "all"};
    if (each_pair(r, value, set_criterion, c) < 0)
        return ERR_CONFIG;
    if (c->arm == NULL || c->metric == NULL || !c->has_bar)
        return fail(r, key, "a criterion has a metric, an arm and a bar");
    if (sim_arm_apply(&o, c->arm, &e) < 0 || sim_arm_apply(&o, c->base, &e) < 0)
        return fail(r, key, e.msg);
    return 0;
}

static int take_criteria(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return each_pair(r, value, add_criterion, NULL);
}

static int add_to_gate(struct reader *r, yaml_node_t *item, void *ctx)
{
    struct lab_gate *g = ctx;
    const char *name = text_in(item);
    for (unsigned i = 0; name != NULL && i < r->x->n_criteria; i++)
        if (strcmp(r->x->criteria[i].name, name) == 0) {
            g->criteria[g->n++] = i;
            return 0;
        }
    return fail(r, item, "there is no such criterion above");
}

static int add_gate(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx)
{
    if (r->x->n_gates == LAB_GATES_MAX)
        return fail(r, key, "one gate too many");
    struct lab_gate *g = &r->x->gates[r->x->n_gates++];
    g->name = text_in(key);
    return each_item(r, value, LAB_CRITERIA_MAX, add_to_gate, g);
}

static int take_gates(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return each_pair(r, value, add_gate, NULL);
}

static int add_variant(struct reader *r, yaml_node_t *item, void *ctx)
{
    struct sim_options o = r->x->options;
    struct err e;
    const char *value = text_in(item);
    if (r->x->n_variants == LAB_VARIANTS_MAX)
        return fail(r, item, "one variant too many");
    if (value == NULL)
        return fail(r, item, "a value is expected");
    if (sim_option_set(&o, text_of(ctx), text_of(value), &e) < 0)
        return fail(r, item, e.msg);
    r->x->variants[r->x->n_variants++] = (struct lab_variant){ctx, value};
    return 0;
}

static int add_option(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx)
{
    return each_item(r, value, LAB_VARIANTS_MAX, add_variant, key->data.scalar.value);
}

static int take_sweep(struct reader *r, yaml_node_t *key, yaml_node_t *value)
{
    return each_pair(r, value, add_option, NULL);
}

/* ---- the file ---- */

static const struct entry entries[] = {
    {"name", take_name},         {"trace", take_trace},     {"seeds", take_seeds},
    {"unit", take_unit},         {"workers", take_workers}, {"loads", take_loads},
    {"history", take_history},   {"split", take_split},     {"windows", take_windows},
    {"set", take_set},           {"map", take_map},         {"groups", take_groups},
    {"criteria", take_criteria}, {"gates", take_gates},     {"interval", take_interval},
    {"sweep", take_sweep},
};

static int take_entry(struct reader *r, yaml_node_t *key, yaml_node_t *value, void *ctx)
{
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
        if (strcmp(entries[i].key, text_in(key)) == 0)
            return entries[i].take(r, key, value);
    return fail(r, key, "an experiment has no such entry");
}

static int check(const struct reader *r)
{
    const struct lab_experiment *x = r->x;
    if (x->n_criteria == 0)
        return err_set(r->e, ERR_CONFIG, "%s: an experiment needs criteria", r->path);
    if (x->by_window && x->n_seeds > 1)
        return err_set(r->e, ERR_CONFIG, "%s: with windows as units there is one seed", r->path);
    if (x->trace == NULL && !x->by_window)
        return err_set(r->e, ERR_CONFIG, "%s: a file's units are windows", r->path);
    for (unsigned i = 0; i < x->n_criteria; i++) {
        struct sim_window window = {{0}};
        const struct sim_result none = {.windows = &window};
        if (lab_figures(x, x->criteria[i].of, &none, x->by_window ? 0 : -1) == NULL)
            return err_set(r->e, ERR_CONFIG, "%s: criterion %s: there is no class%s '%s'", r->path,
                           x->criteria[i].name, x->by_window ? "" : " or group", x->criteria[i].of);
    }
    return 0;
}

static int load(struct reader *r, FILE *f)
{
    yaml_parser_t parser;
    if (yaml_parser_initialize(&parser) == 0)
        return err_set(r->e, ERR_NOMEM, "no memory for %s", r->path);
    yaml_parser_set_input_file(&parser, f);
    int code = 0;
    if (yaml_parser_load(&parser, &r->x->document) == 0)
        code = err_set(r->e, ERR_CONFIG, "%s:%zu: %s", r->path, parser.problem_mark.line + 1,
                       parser.problem != NULL ? parser.problem : "this cannot be read");
    else
        r->x->has_document = true;
    yaml_parser_delete(&parser);
    return code;
}

int lab_experiment_read(struct lab_experiment *x, const char *path, struct err *e)
{
    struct reader r = {x, path, e};
    *x = (struct lab_experiment){
        .name = path,
        .seeds = {1},
        .n_seeds = 1,
        .n_loads = 1,
        .split = {.history = 0.5, .by = SIM_BY_TIME, .windows = 7, .windows_by = SIM_BY_TIME},
        .n_variants = 1};
    sim_options_init(&x->options);
    stats_bootstrap_init(&x->bootstrap);
    simulate_keys_init(&x->keys);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return err_set(e, ERR_SYSTEM, "%s: %s", path, strerror(errno));
    int code = load(&r, f);
    fclose(f);
    yaml_node_t *root = code == 0 ? yaml_document_get_root_node(&x->document) : NULL;
    if (code == 0 && root == NULL)
        return err_set(e, ERR_CONFIG, "%s: the file is empty", path);
    if (code == 0)
        code = each_pair(&r, root, take_entry, NULL);
    return code == 0 ? check(&r) : code;
}

void lab_experiment_fini(struct lab_experiment *x)
{
    if (x->has_document)
        yaml_document_delete(&x->document);
    x->has_document = false;
    simulate_keys_fini(&x->keys);
}
