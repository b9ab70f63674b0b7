/* One option's value, from what a person wrote. */
#include "conf/conf_internal.h"

#include "base/err.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT  4096
#define MAX_URIS  32
#define MAX_NAME  255 /* AMQP short string */
#define MAX_LABEL 128 /* longer labels never become part of a key (docs/amqp.md, Key) */

/* Writes "KEY: 'value' PROBLEM; expected ...; example: ..." and returns ERR_CONFIG. */
static int refuse(const struct conf_option *o, const struct conf_scalar *s, const char *problem,
                  char why[CONF_WHY])
{
    char expected[192];
    conf_table_expected(o, expected, sizeof expected);
    const char *example = o->example != NULL ? o->example : o->preset;
    const char *key = strrchr(o->key, '.');
    key = key != NULL ? key + 1 : o->key;
    int shown = s->n > 60 ? 60 : (int)s->n;
    snprintf(why, CONF_WHY, "%s: '%.*s%s' %s; expected %s; example: %s: %s", o->key, shown, s->p,
             s->n > 60 ? "..." : "", problem, expected, key, example);
    return ERR_CONFIG;
}

static int refuse_shape(const struct conf_option *o, const char *problem, char why[CONF_WHY])
{
    char expected[192];
    conf_table_expected(o, expected, sizeof expected);
    snprintf(why, CONF_WHY, "%s: %s; expected %s", o->key, problem, expected);
    return ERR_CONFIG;
}

static int parse_u64(const char *text, size_t n, void *out)
{
    return num_parse_u64(text, n, out);
}

static int parse_double(const char *text, size_t n, void *out)
{
    return num_parse_double(text, n, out);
}

static int parse_duration(const char *text, size_t n, void *out)
{
    return num_parse_duration(text, n, out);
}

static int parse_size(const char *text, size_t n, void *out)
{
    return num_parse_size(text, n, out);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The kinds of number; each is 64 bits wide. */
struct number_kind {
    int (*parse)(const char *text, size_t n, void *out);
    int (*compare)(const void *a, const void *b);
    const char *problem;
};

static const struct number_kind integer_kind = {parse_u64, compare_u64, "is not an integer"};
static const struct number_kind double_kind = {parse_double, compare_double, "is not a number"};
static const struct number_kind duration_kind = {parse_duration, compare_i64, "is not a duration"};
static const struct number_kind size_kind = {parse_size, compare_u64, "is not a size"};

union number {
    uint64_t u;
    mono_t ns;
    double d;
};

static bool in_range(const struct conf_option *o, const struct number_kind *k,
                     const union number *v)
{
    bool above = o->min[0] == '>', below = o->max[0] == '<';
    union number lo = {0}, hi = {0};
    if (k->parse(o->min + above, strlen(o->min + above), &lo) < 0 ||
        k->parse(o->max + below, strlen(o->max + below), &hi) < 0)
        return false; /* a row that is wrong; a test reads them all */
    int from = k->compare(v, &lo), to = k->compare(v, &hi);
    return (above ? from > 0 : from >= 0) && (below ? to < 0 : to <= 0);
}

static bool is_bare_number(const struct conf_scalar *s)
{
    double ignored;
    return num_parse_double(s->p, s->n, &ignored) == 0;
}

static int read_number(const struct conf_option *o, const struct number_kind *k,
                       const struct conf_scalar *s, union number *out, char why[CONF_WHY])
{
    if (s->quoted)
        return refuse(o, s, "is quoted", why);
    if (k->parse(s->p, s->n, out) < 0) {
        bool no_unit = (k == &duration_kind || k == &size_kind) && is_bare_number(s);
        return refuse(o, s, no_unit ? "has no unit" : k->problem, why);
    }
    return in_range(o, k, out) ? 0 : refuse(o, s, "is out of range", why);
}

static int set_number(const struct conf_option *o, struct conf *c, const struct conf_scalar *s,
                      char why[CONF_WHY])
{
    union number v = {0};
    const struct number_kind *k = o->type == CONF_T_DOUBLE     ? &double_kind
                                  : o->type == CONF_T_DURATION ? &duration_kind
                                  : o->type == CONF_T_SIZE     ? &size_kind
                                                               : &integer_kind;
    int r = read_number(o, k, s, &v, why);
    if (r < 0)
        return r;
    void *to = conf_field(o, c);
    switch (o->type) {
    case CONF_T_DOUBLE: *(double *)to = v.d; break;
    case CONF_T_DURATION: *(mono_t *)to = v.ns; break;
    case CONF_T_UNSIGNED: *(unsigned *)to = (unsigned)v.u; break;
    default: *(uint64_t *)to = v.u; break;
    }
    return 0;
}

static bool scalar_is(const struct conf_scalar *s, const char *word)
{
    return strlen(word) == s->n && memcmp(s->p, word, s->n) == 0;
}

static int set_level(const struct conf_option *o, struct conf *c, const struct conf_scalar *s,
                     char why[CONF_WHY])
{
    union number v = {0};
    if (scalar_is(s, "auto")) {
        *(int *)conf_field(o, c) = CONF_LEVEL_AUTO;
        return 0;
    }
    int r = read_number(o, &integer_kind, s, &v, why);
    if (r == 0)
        *(int *)conf_field(o, c) = (int)v.u;
    return r;
}

static int set_bool(const struct conf_option *o, struct conf *c, const struct conf_scalar *s,
                    char why[CONF_WHY])
{
    bool yes = scalar_is(s, "true");
    if (s->quoted)
        return refuse(o, s, "is quoted", why);
    if (!yes && !scalar_is(s, "false"))
        return refuse(o, s, "is not a boolean", why);
    *(bool *)conf_field(o, c) = yes;
    return 0;
}

static int set_enum(const struct conf_option *o, struct conf *c, const struct conf_scalar *s,
                    char why[CONF_WHY])
{
    for (int i = 0; o->names[i] != NULL; i++) {
        if (scalar_is(s, o->names[i])) {
            *(int *)conf_field(o, c) = i;
            return 0;
        }
    }
    return refuse(o, s, "is unknown", why);
}

static bool all_of(const char *p, size_t n, const char *set)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] == '\0' || strchr(set, p[i]) == NULL)
            return false;
    return true;
}

static bool is_listen(const struct conf_scalar *s)
{
    size_t colon = s->n;
    while (colon > 0 && s->p[colon - 1] != ':')
        colon--;
    uint64_t port;
    return colon > 1 && num_parse_u64(s->p + colon, s->n - colon, &port) == 0 && port <= 65535;
}

static bool has_prefix(const struct conf_scalar *s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s->n > n && memcmp(s->p, prefix, n) == 0;
}

/* NULL, or what is wrong. */
static const char *syntax_problem(enum conf_syntax syntax, const struct conf_scalar *s)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *problem = conf_text_problem(s->p, s->n);
    if (problem != NULL)
        return problem;
    if (!s->quoted && (s->n == 0 || scalar_is(s, "~") || scalar_is(s, "null")))
        return "is no value (an empty text is written \"\")";
    switch (syntax) {
    case CONF_S_ANY: return s->n <= MAX_TEXT ? NULL : "is too long";
    case CONF_S_NAME: return s->n == 0 ? "is empty" : s->n <= MAX_NAME ? NULL : "is too long";
    case CONF_S_NAME_OR_EMPTY: return s->n <= MAX_NAME ? NULL : "is too long";
    case CONF_S_INSTANCE:
        return s->n > 64                  ? "is too long"
               : all_of(s->p, s->n, word) ? NULL
                                          : "has another character";
    case CONF_S_URI:
        if (s->n > MAX_TEXT)
            return "is too long";
        return has_prefix(s, "amqp://") || has_prefix(s, "amqps://") ? NULL : "is not an AMQP URI";
    case CONF_S_LISTEN: return s->n == 0 || is_listen(s) ? NULL : "is not an address";
    }
    return NULL;
}

static int set_text(const struct conf_option *o, struct conf *c, const struct conf_scalar *s,
                    char why[CONF_WHY])
{
    const char *problem = syntax_problem(o->syntax, s);
    if (problem != NULL)
        return refuse(o, s, problem, why);
    char *copy = strndup(s->p, s->n);
    if (copy == NULL)
        return ERR_NOMEM;
    char **to = conf_field(o, c);
    free(*to);
    *to = copy;
    return 0;
}

static int set_texts(const struct conf_option *o, struct conf *c, const struct conf_value *v,
                     char why[CONF_WHY])
{
    if (v->n == 0)
        return refuse_shape(o, "the list is empty", why);
    if (v->n > MAX_URIS)
        return refuse_shape(o, "the list is too long", why);
    for (size_t i = 0; i < v->n; i++) {
        const char *problem = syntax_problem(o->syntax, &v->items[i]);
        if (problem != NULL)
            return refuse(o, &v->items[i], problem, why);
    }
    struct conf_texts t = {.v = calloc(v->n, sizeof *t.v)};
    if (t.v == NULL)
        return ERR_NOMEM;
    for (; t.n < v->n; t.n++) {
        t.v[t.n] = strndup(v->items[t.n].p, v->items[t.n].n);
        if (t.v[t.n] == NULL) {
            conf_texts_fini(&t);
            return ERR_NOMEM;
        }
    }
    conf_texts_fini(conf_field(o, c));
    *(struct conf_texts *)conf_field(o, c) = t;
    return 0;
}

static int set_numbers(const struct conf_option *o, struct conf *c, const struct conf_value *v,
                       char why[CONF_WHY])
{
    struct conf_numbers numbers = {.n = v->n};
    if (v->n > ARRAY_SIZE(numbers.v))
        return refuse_shape(o, "the list is too long", why);
    for (size_t i = 0; i < v->n; i++) {
        union number one = {0};
        int r = read_number(o, &integer_kind, &v->items[i], &one, why);
        if (r < 0)
            return r;
        numbers.v[i] = (unsigned)one.u;
    }
    *(struct conf_numbers *)conf_field(o, c) = numbers;
    return 0;
}

static int read_source(const struct conf_option *o, const struct conf_scalar *s,
                       struct conf_source *out, char why[CONF_WHY])
{
    *out = (struct conf_source){CONF_SOURCE_NONE, NULL};
    if (conf_text_problem(s->p, s->n) != NULL)
        return refuse(o, s, conf_text_problem(s->p, s->n), why);
    for (int kind = 0; kind < CONF_N_SOURCE_KINDS; kind++) {
        if ((o->sources & CONF_SOURCE_BIT(kind)) == 0)
            continue;
        bool is_header = kind == CONF_SOURCE_HEADER;
        if (is_header ? !has_prefix(s, conf_source_words[kind])
                      : !scalar_is(s, conf_source_words[kind]))
            continue;
        size_t skip = strlen(conf_source_words[kind]);
        if (is_header && s->n - skip > MAX_NAME)
            return refuse(o, s, "is too long", why);
        out->kind = (enum conf_source_kind)kind;
        out->header = is_header ? strndup(s->p + skip, s->n - skip) : NULL;
        return is_header && out->header == NULL ? ERR_NOMEM : 0;
    }
    return refuse(o, s, "is not a source", why);
}

static int set_source(const struct conf_option *o, struct conf *c, const struct conf_scalar *s,
                      char why[CONF_WHY])
{
    struct conf_source source;
    int r = read_source(o, s, &source, why);
    if (r < 0)
        return r;
    conf_source_fini(conf_field(o, c));
    *(struct conf_source *)conf_field(o, c) = source;
    return 0;
}

static int set_sources(const struct conf_option *o, struct conf *c, const struct conf_value *v,
                       char why[CONF_WHY])
{
    struct conf_sources sources = {0};
    if (v->n > ARRAY_SIZE(sources.v))
        return refuse_shape(o, "the list is too long", why);
    for (; sources.n < v->n; sources.n++) {
        int r = read_source(o, &v->items[sources.n], &sources.v[sources.n], why);
        if (r < 0) {
            conf_sources_fini(&sources);
            return r;
        }
    }
    conf_sources_fini(conf_field(o, c));
    *(struct conf_sources *)conf_field(o, c) = sources;
    return 0;
}

int conf_value_set(const struct conf_option *o, struct conf *c, const struct conf_value *v,
                   char why[CONF_WHY])
{
    switch (o->type) {
    case CONF_T_TEXTS: return set_texts(o, c, v, why);
    case CONF_T_NUMBERS: return set_numbers(o, c, v, why);
    case CONF_T_SOURCES: return set_sources(o, c, v, why);
    case CONF_T_LABELS: return refuse_shape(o, "a value stands where labels are expected", why);
    default: break;
    }
    if (v->is_list)
        return refuse_shape(o, "a list stands where one value is expected", why);
    const struct conf_scalar *s = &v->items[0];
    switch (o->type) {
    case CONF_T_TEXT: return set_text(o, c, s, why);
    case CONF_T_BOOL: return set_bool(o, c, s, why);
    case CONF_T_ENUM: return set_enum(o, c, s, why);
    case CONF_T_LEVEL: return set_level(o, c, s, why);
    case CONF_T_SOURCE: return set_source(o, c, s, why);
    default: return set_number(o, c, s, why);
    }
}

/* Binary search: the position of the label, or where it belongs. */
static size_t labels_find(const struct conf_labels *l, const char *label, size_t n, bool *found)
{
    size_t from = 0, to = l->n;
    *found = false;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const char *here = l->v[middle].label;
        int order = strncmp(here, label, n);
        if (order == 0)
            order = here[n] != '\0';
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

int conf_static_level(const struct conf *c, const char *label, size_t n)
{
    bool found;
    size_t at = labels_find(&c->static_levels, label, n, &found);
    return found ? (int)c->static_levels.v[at].level : -1;
}

static int labels_insert(struct conf_labels *l, size_t at, const char *label, size_t n,
                         unsigned level)
{
    /* Capacity is the next power of two: grow exactly when n is one. */
    if ((l->n & (l->n - 1)) == 0) {
        struct conf_label *v = realloc(l->v, (l->n == 0 ? 1 : 2 * l->n) * sizeof *v);
        if (v == NULL)
            return ERR_NOMEM;
        l->v = v;
    }
    char *copy = strndup(label, n);
    if (copy == NULL)
        return ERR_NOMEM;
    memmove(&l->v[at + 1], &l->v[at], (l->n - at) * sizeof *l->v);
    l->v[at] = (struct conf_label){copy, level};
    l->n++;
    return 0;
}

int conf_value_set_label(const struct conf_option *o, struct conf *c,
                         const struct conf_scalar *label, const struct conf_value *level,
                         char why[CONF_WHY])
{
    struct conf_labels *l = conf_field(o, c);
    const char *problem = conf_text_problem(label->p, label->n);
    if (problem == NULL && (label->n == 0 || label->n > MAX_LABEL))
        problem = "is not a label of 1 to 128 bytes";
    if (problem != NULL)
        return refuse(o, label, problem, why);
    if (level->is_list)
        return refuse_shape(o, "a list stands where one value is expected", why);
    union number v = {0};
    int r = read_number(o, &integer_kind, &level->items[0], &v, why);
    if (r < 0)
        return r;
    bool found;
    size_t at = labels_find(l, label->p, label->n, &found);
    if (found) {
        l->v[at].level = (unsigned)v.u;
        return 0;
    }
    if (l->n == CONF_MAX_LABELS)
        return refuse_shape(o, "there are too many labels", why);
    return labels_insert(l, at, label->p, label->n, (unsigned)v.u);
}
