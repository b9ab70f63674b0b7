/*
 * The YAML subset: one document of block mappings, two deep, with lists of scalars in either style.
 * libyaml hands out events; a state says what the next one may be, so nothing here recurses. An
 * error in one option skips that option and the reading goes on; only text that is not YAML at all
 * ends it.
 */
#include "conf/conf_internal.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define MAX_ITEMS 64
#define MAX_DEPTH 16
#define MAX_KEY   64

enum state {
    AT_TOP,         /* before the document's mapping, and after it */
    AT_KEY,         /* a key of the document, or its end */
    AT_SECTION,     /* the mapping of a section */
    AT_SECTION_KEY, /* a key of it, or its end */
    AT_VALUE,       /* a scalar or a list */
    AT_ITEM,        /* an item of the list, or its end */
    AT_LABELS,      /* the mapping of free keys */
    AT_LABEL,       /* a free key, or the end */
    AT_LABEL_LEVEL, /* its value */
};

struct reader {
    struct conf *c;
    struct conf_errors *errors;
    const char *text;
    size_t n;
    enum state state;
    enum state after; /* AT_VALUE: where the next key is expected */
    unsigned skip;    /* nodes to pass over before `state` holds again */
    unsigned depth;   /* of collections inside the node that is passed over */
    unsigned documents;
    int row;               /* AT_VALUE, AT_ITEM, AT_LABEL*: the option */
    char section[MAX_KEY]; /* AT_SECTION*: its name */
    unsigned section_line[CONF_MAX_SECTIONS];
    bool seen[CONF_MAX_OPTIONS];
    yaml_mark_t list_at;
    struct conf_scalar items[MAX_ITEMS]; /* owned copies */
    size_t n_items;
    struct conf_scalar label; /* owned copy */
    int result;               /* the first ERR_* */
};

static int fail_at(struct reader *r, const yaml_mark_t *at, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Adds "file:line:column: ..."; the reading goes on. */
static int fail_at(struct reader *r, const yaml_mark_t *at, const char *fmt, ...)
{
    char text[CONF_WHY + 64];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (r->result == 0)
        r->result = ERR_CONFIG;
    return conf_errors_add(r->errors, ERR_CONFIG, "%s:%zu:%zu: %s", r->c->name, at->line + 1,
                           at->column + 1, text);
}

static void fail_memory(struct reader *r)
{
    if (r->result != ERR_NOMEM)
        (void)conf_errors_add(r->errors, ERR_NOMEM, "%s: %s", r->c->name, err_name(ERR_NOMEM));
    r->result = ERR_NOMEM;
}

static bool copy_scalar(struct reader *r, const yaml_event_t *e, struct conf_scalar *out)
{
    size_t n = e->data.scalar.length;
    char *copy = malloc(n + 1);
    if (copy == NULL) {
        fail_memory(r);
        return false;
    }
    memcpy(copy, e->data.scalar.value, n);
    copy[n] = '\0';
    out->p = copy;
    out->n = n;
    out->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return true;
}

static void free_scalar(struct conf_scalar *s)
{
    free((char *)(uintptr_t)s->p);
    *s = (struct conf_scalar){0};
}

static void free_items(struct reader *r)
{
    while (r->n_items > 0)
        free_scalar(&r->items[--r->n_items]);
}

static struct conf_scalar borrow_scalar(const yaml_event_t *e)
{
    return (struct conf_scalar){(const char *)e->data.scalar.value, e->data.scalar.length,
                                e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE};
}

static bool is_start(const yaml_event_t *e)
{
    return e->type == YAML_MAPPING_START_EVENT || e->type == YAML_SEQUENCE_START_EVENT;
}

static bool is_end(const yaml_event_t *e)
{
    return e->type == YAML_MAPPING_END_EVENT || e->type == YAML_SEQUENCE_END_EVENT;
}

/* Passes over this event's node, and over `more` nodes after it. */
static void skip_node(struct reader *r, const yaml_event_t *e, unsigned more)
{
    r->skip = more + is_start(e);
    r->depth = is_start(e);
}

static void skip_event(struct reader *r, const yaml_event_t *e)
{
    if (is_start(e))
        r->depth++;
    else if (is_end(e))
        r->depth--;
    if (r->depth == 0)
        r->skip--;
}

static const struct conf_option *option_of(const struct reader *r)
{
    size_t n;
    return &conf_table(&n)[r->row];
}

static void store(struct reader *r, const yaml_mark_t *at, const struct conf_value *v)
{
    char why[CONF_WHY];
    int result = conf_value_set(option_of(r), r->c, v, why);
    if (result == ERR_NOMEM)
        fail_memory(r);
    else if (result < 0)
        (void)fail_at(r, at, "%s", why);
}

static void fail_unknown(struct reader *r, const yaml_event_t *e, const char *key)
{
    const char *problem = conf_text_problem(key, strlen(key));
    const char *nearest = conf_table_nearest(key);
    if (problem != NULL)
        (void)fail_at(r, &e->start_mark, "a key %s", problem);
    else if (nearest != NULL)
        (void)fail_at(r, &e->start_mark, "unknown key '%s' (nearest: '%s')", key, nearest);
    else
        (void)fail_at(r, &e->start_mark, "unknown key '%s'", key);
}

/* The key of an option: what follows is its value. */
static void begin_option(struct reader *r, const yaml_event_t *e, const char *key)
{
    size_t n;
    const struct conf_option *rows = conf_table(&n);
    r->row = conf_table_find(key, strlen(key));
    if (r->row < 0) {
        fail_unknown(r, e, key);
        skip_node(r, e, 1);
        return;
    }
    struct conf_place *place = &r->c->place[r->row];
    if (r->seen[r->row]) {
        (void)fail_at(r, &e->start_mark, "duplicate key '%s' (first on line %u)", key, place->line);
        skip_node(r, e, 1);
        return;
    }
    r->seen[r->row] = true;
    *place = (struct conf_place){(unsigned)e->start_mark.line + 1,
                                 (unsigned)e->start_mark.column + 1, false};
    r->after = r->state;
    r->state = rows[r->row].type == CONF_T_LABELS ? AT_LABELS : AT_VALUE;
}

static void begin_section(struct reader *r, const yaml_event_t *e, const char *key, int section)
{
    if (r->section_line[section] != 0) {
        (void)fail_at(r, &e->start_mark, "duplicate key '%s' (first on line %u)", key,
                      r->section_line[section]);
        skip_node(r, e, 1);
        return;
    }
    r->section_line[section] = (unsigned)e->start_mark.line + 1;
    snprintf(r->section, sizeof r->section, "%s", key);
    r->state = AT_SECTION;
}

/* Keys longer than any option's are cut: unknown either way. */
static void on_key(struct reader *r, const yaml_event_t *e)
{
    if (is_end(e)) {
        r->state = r->state == AT_SECTION_KEY ? AT_KEY : AT_TOP;
        return;
    }
    if (e->type != YAML_SCALAR_EVENT) {
        if (e->type != YAML_ALIAS_EVENT)
            (void)fail_at(r, &e->start_mark, "a key must be a plain word");
        skip_node(r, e, 1);
        return;
    }
    struct conf_scalar s = borrow_scalar(e);
    char key[2 * MAX_KEY];
    if (r->state == AT_SECTION_KEY) {
        snprintf(key, sizeof key, "%s.%.*s", r->section, (int)(s.n < MAX_KEY ? s.n : MAX_KEY), s.p);
        begin_option(r, e, key);
        return;
    }
    snprintf(key, sizeof key, "%.*s", (int)(s.n < MAX_KEY ? s.n : MAX_KEY), s.p);
    int section = conf_table_section(key, strlen(key));
    if (section >= 0)
        begin_section(r, e, key, section);
    else if (strchr(key, '.') != NULL && conf_table_find(key, strlen(key)) >= 0) {
        char *dot = strchr(key, '.');
        (void)fail_at(r, &e->start_mark,
                      "'%s' is written as '%s' on an indented line below '%.*s:'", key, dot + 1,
                      (int)(dot - key), key);
        skip_node(r, e, 1);
    } else {
        begin_option(r, e, key);
    }
}

static bool is_nothing(const yaml_event_t *e)
{
    return e->type == YAML_SCALAR_EVENT && e->data.scalar.length == 0 &&
           e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* The mapping behind a section's name; `state` is where its keys are expected. A section without
 * any is fine: its lines may all be comments. */
static void on_section(struct reader *r, const yaml_event_t *e, const char *name, enum state state)
{
    bool is_block = e->type == YAML_MAPPING_START_EVENT &&
                    e->data.mapping_start.style != YAML_FLOW_MAPPING_STYLE;
    r->state = is_block ? state : AT_KEY;
    if (is_block || is_nothing(e) || e->type == YAML_ALIAS_EVENT)
        return;
    (void)fail_at(r, &e->start_mark, "%s: is a section; expected one KEY: VALUE per indented line",
                  name);
    skip_node(r, e, 0);
}

static void on_value(struct reader *r, const yaml_event_t *e)
{
    r->state = r->after;
    if (e->type == YAML_SCALAR_EVENT) {
        struct conf_scalar s = borrow_scalar(e);
        store(r, &e->start_mark, &(struct conf_value){&s, 1, false});
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        r->list_at = e->start_mark;
        r->state = AT_ITEM;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        (void)fail_at(r, &e->start_mark, "%s: is an option, not a section", option_of(r)->key);
        skip_node(r, e, 0);
    }
}

static void on_item(struct reader *r, const yaml_event_t *e)
{
    if (e->type == YAML_SEQUENCE_END_EVENT) {
        store(r, &r->list_at, &(struct conf_value){r->items, r->n_items, true});
        free_items(r);
        r->state = r->after;
    } else if (is_start(e)) {
        (void)fail_at(r, &e->start_mark, "%s: a list inside a list", option_of(r)->key);
        skip_node(r, e, 0);
    } else if (e->type == YAML_SCALAR_EVENT && r->n_items < MAX_ITEMS) {
        /* The options' own limits are lower: a full array is refused as too long. */
        if (copy_scalar(r, e, &r->items[r->n_items]))
            r->n_items++;
    }
}

static void on_label(struct reader *r, const yaml_event_t *e)
{
    if (is_end(e)) {
        r->state = AT_KEY;
    } else if (e->type != YAML_SCALAR_EVENT) {
        if (e->type != YAML_ALIAS_EVENT)
            (void)fail_at(r, &e->start_mark, "a label must be one text");
        skip_node(r, e, 1);
    } else if (conf_static_level(r->c, (const char *)e->data.scalar.value, e->data.scalar.length) >=
               0) {
        (void)fail_at(r, &e->start_mark, "duplicate key '%s.%s'", option_of(r)->key,
                      e->data.scalar.value);
        skip_node(r, e, 1);
    } else if (copy_scalar(r, e, &r->label)) {
        r->list_at = e->start_mark;
        r->state = AT_LABEL_LEVEL;
    }
}

static void on_label_level(struct reader *r, const yaml_event_t *e)
{
    char why[CONF_WHY];
    r->state = AT_LABEL;
    if (e->type == YAML_SCALAR_EVENT) {
        struct conf_scalar s = borrow_scalar(e);
        int result = conf_value_set_label(option_of(r), r->c, &r->label,
                                          &(struct conf_value){&s, 1, false}, why);
        if (result == ERR_NOMEM)
            fail_memory(r);
        else if (result < 0)
            (void)fail_at(r, &r->list_at, "%s", why);
    } else if (is_start(e)) {
        (void)fail_at(r, &e->start_mark, "%s: a label has one level", option_of(r)->key);
        skip_node(r, e, 0);
    }
    free_scalar(&r->label);
}

static void on_top(struct reader *r, const yaml_event_t *e)
{
    if (e->type == YAML_MAPPING_START_EVENT &&
        e->data.mapping_start.style != YAML_FLOW_MAPPING_STYLE) {
        r->state = AT_KEY;
    } else if (e->type == YAML_DOCUMENT_START_EVENT) {
        bool directives = e->data.document_start.version_directive != NULL ||
                          e->data.document_start.tag_directives.start !=
                              e->data.document_start.tag_directives.end;
        if (directives)
            (void)fail_at(r, &e->start_mark, "directives are not used here");
        if (++r->documents == 2)
            (void)fail_at(r, &e->start_mark, "a second document starts here; expected only one");
    } else if ((e->type == YAML_SCALAR_EVENT && !is_nothing(e)) || is_start(e)) {
        (void)fail_at(r, &e->start_mark, "expected one KEY: VALUE per line");
        skip_node(r, e, 0);
    }
}

/* What the subset leaves out, wherever it stands. */
static void check_subset(struct reader *r, const yaml_event_t *e)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (e->type == YAML_ALIAS_EVENT)
        (void)fail_at(r, &e->start_mark, "aliases (*%s) are not used here; write the value again",
                      e->data.alias.anchor);
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_SEQUENCE_START_EVENT) {
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    if (anchor != NULL)
        (void)fail_at(r, &e->start_mark, "anchors (&%s) are not used here", anchor);
    if (tag != NULL)
        (void)fail_at(r, &e->start_mark, "tags (%s) are not used here", tag);
}

static void on_event(struct reader *r, const yaml_event_t *e)
{
    check_subset(r, e);
    if (r->skip > 0) {
        skip_event(r, e);
        return;
    }
    switch (r->state) {
    case AT_TOP: on_top(r, e); break;
    case AT_KEY:
    case AT_SECTION_KEY: on_key(r, e); break;
    case AT_SECTION: on_section(r, e, r->section, AT_SECTION_KEY); break;
    case AT_VALUE: on_value(r, e); break;
    case AT_ITEM: on_item(r, e); break;
    case AT_LABELS: on_section(r, e, option_of(r)->key, AT_LABEL); break;
    case AT_LABEL: on_label(r, e); break;
    case AT_LABEL_LEVEL: on_label_level(r, e); break;
    }
}

static void fail_syntax(struct reader *r, const yaml_parser_t *p)
{
    if (p->error == YAML_MEMORY_ERROR) {
        fail_memory(r);
        return;
    }
    size_t line_start = p->problem_mark.index;
    bool is_tab = line_start < r->n && r->text[line_start] == '\t';
    (void)fail_at(r, &p->problem_mark, "not valid YAML: %s%s",
                  p->problem != NULL ? p->problem : "unreadable",
                  is_tab ? " (a tab; indent with spaces)" : "");
}

/* The first byte that YAML cannot hold, checked here because libyaml would also take UTF-16, and
 * names no line. */
static int check_bytes(struct reader *r)
{
    yaml_mark_t at = {0};
    for (size_t i = 0; i < r->n;) {
        uint32_t cp;
        size_t len = conf_utf8_next(r->text + i, r->n - i, &cp);
        if (len == 0)
            return fail_at(r, &at, "not UTF-8 (byte 0x%02x)", (unsigned char)r->text[i]);
        if (cp == 0)
            return fail_at(r, &at, "a NUL byte");
        if (cp != '\t' && cp != '\n' && cp != '\r' &&
            (cp < 0x20 || (cp >= 0x7f && cp < 0xa0 && cp != 0x85) || cp == 0xfffe || cp == 0xffff ||
             (cp == 0xfeff && i > 0)))
            return fail_at(r, &at, "a control character (U+%04X)", (unsigned)cp);
        at.column++;
        if (cp == '\n') {
            at.line++;
            at.column = 0;
        }
        i += len;
    }
    return 0;
}

static void read_events(struct reader *r, yaml_parser_t *p)
{
    bool more = true;
    while (more && r->result != ERR_NOMEM) {
        yaml_event_t e;
        if (!yaml_parser_parse(p, &e)) {
            fail_syntax(r, p);
            return;
        }
        on_event(r, &e);
        more = e.type != YAML_STREAM_END_EVENT && r->documents < 2;
        if (r->depth > MAX_DEPTH) {
            (void)fail_at(r, &e.start_mark, "nested too deeply");
            more = false;
        }
        yaml_event_delete(&e);
    }
}

int conf_yaml_read(struct conf *c, const char *text, size_t n, struct conf_errors *errors)
{
    struct reader r = {.c = c, .errors = errors, .text = text, .n = n};
    if (n > CONF_MAX_BYTES)
        return conf_errors_add(errors, ERR_CONFIG, "%s: larger than 1 MiB", c->name);
    if (check_bytes(&r) < 0)
        return ERR_CONFIG;
    yaml_parser_t p;
    if (!yaml_parser_initialize(&p)) {
        fail_memory(&r);
        return ERR_NOMEM;
    }
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *)text, n);
    read_events(&r, &p);
    yaml_parser_delete(&p);
    free_items(&r);
    free_scalar(&r.label);
    return r.result;
}
