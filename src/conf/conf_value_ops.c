/* Values that are read already: freed, exchanged, compared. */
#include "conf/conf_internal.h"

#include <stdlib.h>
#include <string.h>

const char *const conf_source_words[] = {"none", "user_id", "app_id", "type", "body", "header:"};

void conf_texts_fini(struct conf_texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->v[i]);
    free(t->v);
    *t = (struct conf_texts){0};
}

void conf_source_fini(struct conf_source *s)
{
    free(s->header);
    *s = (struct conf_source){CONF_SOURCE_NONE, NULL};
}

void conf_sources_fini(struct conf_sources *s)
{
    for (size_t i = 0; i < s->n; i++)
        conf_source_fini(&s->v[i]);
    s->n = 0;
}

static void labels_fini(struct conf_labels *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].label);
    free(l->v);
    *l = (struct conf_labels){0};
}

void conf_value_fini(const struct conf_option *o, struct conf *c)
{
    void *at = conf_field(o, c);
    switch (o->type) {
    case CONF_T_TEXT:
        free(*(char **)at);
        *(char **)at = NULL;
        break;
    case CONF_T_TEXTS: conf_texts_fini(at); break;
    case CONF_T_SOURCE: conf_source_fini(at); break;
    case CONF_T_SOURCES: conf_sources_fini(at); break;
    case CONF_T_LABELS: labels_fini(at); break;
    default: break;
    }
}

static size_t value_size(enum conf_type type)
{
    switch (type) {
    case CONF_T_TEXT: return sizeof(char *);
    case CONF_T_TEXTS: return sizeof(struct conf_texts);
    case CONF_T_BOOL: return sizeof(bool);
    case CONF_T_UNSIGNED: return sizeof(unsigned);
    case CONF_T_U64:
    case CONF_T_SIZE: return sizeof(uint64_t);
    case CONF_T_DOUBLE: return sizeof(double);
    case CONF_T_DURATION: return sizeof(mono_t);
    case CONF_T_ENUM:
    case CONF_T_LEVEL: return sizeof(int);
    case CONF_T_NUMBERS: return sizeof(struct conf_numbers);
    case CONF_T_SOURCE: return sizeof(struct conf_source);
    case CONF_T_SOURCES: return sizeof(struct conf_sources);
    case CONF_T_LABELS: return sizeof(struct conf_labels);
    }
    return 0;
}

/* Bytes may be exchanged because every value is a plain struct that nothing points into. */
void conf_value_swap(const struct conf_option *o, struct conf *a, struct conf *b)
{
    char *x = conf_field(o, a), *y = conf_field(o, b);
    for (size_t i = 0; i < value_size(o->type); i++) {
        char t = x[i];
        x[i] = y[i];
        y[i] = t;
    }
}

static bool source_equal(const struct conf_source *a, const struct conf_source *b)
{
    return a->kind == b->kind && (a->header == NULL || strcmp(a->header, b->header) == 0);
}

static bool texts_equal(const struct conf_texts *a, const struct conf_texts *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; equal && i < a->n; i++)
        equal = strcmp(a->v[i], b->v[i]) == 0;
    return equal;
}

static bool sources_equal(const struct conf_sources *a, const struct conf_sources *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; equal && i < a->n; i++)
        equal = source_equal(&a->v[i], &b->v[i]);
    return equal;
}

static bool labels_equal(const struct conf_labels *a, const struct conf_labels *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; equal && i < a->n; i++)
        equal = a->v[i].level == b->v[i].level && strcmp(a->v[i].label, b->v[i].label) == 0;
    return equal;
}

static bool numbers_equal(const struct conf_numbers *a, const struct conf_numbers *b)
{
    return a->n == b->n && memcmp(a->v, b->v, a->n * sizeof a->v[0]) == 0;
}

bool conf_value_equal(const struct conf_option *o, const struct conf *a, const struct conf *b)
{
    const void *x = conf_field(o, a), *y = conf_field(o, b);
    switch (o->type) {
    case CONF_T_TEXT: return strcmp(*(char *const *)x, *(char *const *)y) == 0;
    case CONF_T_TEXTS: return texts_equal(x, y);
    case CONF_T_NUMBERS: return numbers_equal(x, y);
    case CONF_T_SOURCE: return source_equal(x, y);
    case CONF_T_SOURCES: return sources_equal(x, y);
    case CONF_T_LABELS: return labels_equal(x, y);
    default: return memcmp(x, y, value_size(o->type)) == 0;
    }
}
