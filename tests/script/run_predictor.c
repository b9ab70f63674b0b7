/*
 * run_predictor SCRIPT: runs a script of predictor operations and prints what each answers. The
 * expected text lies beside the script (NAME.script, NAME.expect); tests/script/compare.sh
 * compares.
 *
 * One operation per line, `#` begins a comment, and every line is echoed with its answer. Times are
 * seconds and only move forwards, by `at`; KEY:PARENT names a parent.
 *
 *   option NAME VALUE          before the first operation: levels default_level min_samples
 * max_keys hysteresis decay stale_s half_life_s idle_eviction_s cold_eviction_s pooled_min every at
 * SECONDS                 sets the time observe KEY MS [TIMES]     learns censor KEY [TIMES] marks
 *   predict KEY                reason level estimate
 *   why KEY                    reason n age censored-share
 *   boundaries                 sequence: values
 *   keys                       most recently active first
 *   stats                      keys evictions stale_freed overflow parent_fallbacks
 *
 * Between any two operations all invariants are checked.
 */
#include "base/compiler.h"
#include "base/num.h"
#include "lib/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct script {
    struct hb_predictor_options options;
    struct hb_predictor *p; /* made by the first operation */
    int64_t now;
};

struct op {
    const char *name;
    int n_args_least;
    void (*run)(struct script *s, int argc, char **argv);
};

static void fail(const char *what, const char *with)
{
    printf("!! %s: %s\n", what, with);
    exit(EXIT_FAILURE);
}

static double number(const char *text)
{
    double v = 0;
    if (num_parse_double(text, strlen(text), &v) < 0)
        fail("not a number", text);
    return v;
}

static void split(char *text, struct hb_key *key, struct hb_key *parent)
{
    char *colon = strchr(text, ':');
    *parent = colon != NULL ? k(colon + 1) : NO_PARENT;
    *key = (struct hb_key){text, colon != NULL ? (size_t)(colon - text) : strlen(text)};
}

static void op_option(struct script *s, int argc, char **argv)
{
    double v = number(argv[2]);
    struct hb_predictor_options *o = &s->options;
    const struct {
        const char *name;
        unsigned *u;
        uint32_t *n;
        double *d;
        int64_t *seconds;
    } rows[] = {
        {"levels", .u = &o->levels},
        {"default_level", .u = &o->default_level},
        {"min_samples", .n = &o->min_samples},
        {"max_keys", .n = &o->max_keys},
        {"pooled_min", .n = &o->pooled_min_samples},
        {"every", .n = &o->boundary_every},
        {"hysteresis", .d = &o->hysteresis},
        {"decay", .d = &o->decay},
        {"stale_s", .seconds = &o->stale_after_ns},
        {"half_life_s", .seconds = &o->half_life_ns},
        {"idle_eviction_s", .seconds = &o->idle_eviction_ns},
        {"cold_eviction_s", .seconds = &o->cold_eviction_ns},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strcmp(rows[i].name, argv[1]) != 0)
            continue;
        if (rows[i].u != NULL)
            *rows[i].u = (unsigned)v;
        else if (rows[i].n != NULL)
            *rows[i].n = (uint32_t)v;
        else if (rows[i].d != NULL)
            *rows[i].d = v;
        else
            *rows[i].seconds = SECONDS(v);
        return;
    }
    fail("no such option", argv[1]);
}

static void op_at(struct script *s, int argc, char **argv)
{
    s->now = SECONDS(number(argv[1]));
}

static void op_observe(struct script *s, int argc, char **argv)
{
    struct hb_key key, parent;
    split(argv[1], &key, &parent);
    int times = argc > 3 ? (int)number(argv[3]) : 1;
    for (int i = 0; i < times; i++)
        if (!hb_predictor_observe(s->p, key, parent, number(argv[2]), s->now))
            printf("  rejected\n");
}

static void op_censor(struct script *s, int argc, char **argv)
{
    struct hb_key key, parent;
    split(argv[1], &key, &parent);
    int times = argc > 2 ? (int)number(argv[2]) : 1;
    for (int i = 0; i < times; i++)
        if (!hb_predictor_censor(s->p, key, parent, s->now))
            printf("  rejected\n");
}

static void op_predict(struct script *s, int argc, char **argv)
{
    struct hb_key key, parent;
    struct hb_prediction out;
    split(argv[1], &key, &parent);
    hb_predictor_predict(s->p, key, parent, s->now, &out);
    printf("  %s level %u", hb_reason_name(out.reason), out.level);
    if (out.has_estimate)
        printf(" estimate %.3f", out.estimate_ms);
    printf("%s\n", out.from_parent ? " from parent" : "");
}

static void op_why(struct script *s, int argc, char **argv)
{
    struct hb_key_info info;
    if (!hb_predictor_explain(s->p, k(argv[1]), s->now, &info)) {
        printf("  %s, not known\n", hb_reason_name(info.reason));
        return;
    }
    printf("  %s n %" PRIu64 " age %gs censored %.4f\n", hb_reason_name(info.reason), info.n,
           (double)info.age_ns / 1e9, info.censored_share);
}

static void op_boundaries(struct script *s, int argc, char **argv)
{
    size_t n;
    const double *b = hb_predictor_boundaries(s->p, &n);
    printf("  %" PRIu64 ":", stats_of(s->p).boundary_seq);
    for (size_t i = 0; i < n; i++)
        printf(" %.3f", b[i]);
    printf("\n");
}

static bool print_key(void *ctx, const struct hb_key_info *info)
{
    printf(" %.*s", (int)info->key.n, info->key.p);
    return true;
}

static void op_keys(struct script *s, int argc, char **argv)
{
    printf(" ");
    hb_predictor_each_key(s->p, s->now, print_key, NULL);
    printf("\n");
}

static void op_stats(struct script *s, int argc, char **argv)
{
    struct hb_predictor_stats st = stats_of(s->p);
    printf("  keys %" PRIu32 " evictions %" PRIu64 " stale_freed %" PRIu64 " overflow %" PRIu64
           " parent_fallbacks %" PRIu64 "\n",
           st.keys, st.evictions, st.stale_freed, st.overflow, st.parent_fallbacks);
}

static const struct op ops[] = {
    {"option", 3, op_option}, {"at", 2, op_at},           {"observe", 3, op_observe},
    {"censor", 2, op_censor}, {"predict", 2, op_predict}, {"why", 2, op_why},
    {"keys", 1, op_keys},     {"stats", 1, op_stats},     {"boundaries", 1, op_boundaries},
};

static void need_predictor(struct script *s)
{
    char why[128];
    if (!hb_predictor_options_valid(&s->options, why, sizeof why))
        fail("options", why);
    s->p = hb_predictor_new(&s->options);
    if (s->p == NULL)
        fail("memory", "short");
}

static void run_line(struct script *s, char *line)
{
    char *argv[8];
    int argc = 0;
    for (char *word = strtok(line, " \n"); word != NULL && argc < 8; word = strtok(NULL, " \n")) {
        if (word[0] == '#')
            break;
        argv[argc++] = word;
    }
    if (argc == 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
        if (strcmp(ops[i].name, argv[0]) != 0 || argc < ops[i].n_args_least)
            continue;
        if (s->p == NULL && ops[i].run != op_option)
            need_predictor(s);
        ops[i].run(s, argc, argv);
        const char *broken = s->p != NULL ? hb_predictor_check(s->p) : NULL;
        if (broken != NULL)
            fail("broken", broken);
        return;
    }
    fail("not an operation", argv[0]);
}

int main(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (f == NULL)
        fail("usage", "run_predictor SCRIPT");
    struct script s = {0};
    hb_predictor_options_init(&s.options);
    char line[512];
    while (fgets(line, sizeof line, f) != NULL) {
        fputs(line, stdout);
        run_line(&s, line);
    }
    fclose(f);
    hb_predictor_free(s.p);
    return EXIT_SUCCESS;
}
