/*
 * One row per option. The parser, the defaults, config/harbinger.yaml, the manual page's list and
 * --help all come from these rows; nothing else in the program knows an option's name or range.
 *
 * Texts in the rows are written as in the file. `min` and `max` are inclusive unless they begin
 * with '>' or '<'.
 */
#ifndef HARBINGER_CONF_CONF_TABLE_H
#define HARBINGER_CONF_CONF_TABLE_H

#include "conf/conf.h"

enum conf_type {
    CONF_T_TEXT,     /* char *, checked by `syntax` */
    CONF_T_TEXTS,    /* struct conf_texts: one text or a list */
    CONF_T_BOOL,     /* bool */
    CONF_T_UNSIGNED, /* unsigned */
    CONF_T_U64,      /* uint64_t */
    CONF_T_DOUBLE,   /* double */
    CONF_T_DURATION, /* mono_t */
    CONF_T_SIZE,     /* uint64_t */
    CONF_T_ENUM,     /* an enum of int's size, one of `names` */
    CONF_T_LEVEL,    /* int: CONF_LEVEL_AUTO or a level */
    CONF_T_NUMBERS,  /* struct conf_numbers */
    CONF_T_SOURCE,   /* struct conf_source, one of `sources` */
    CONF_T_SOURCES,  /* struct conf_sources */
    CONF_T_LABELS,   /* struct conf_labels: free keys below the option's own */
};

enum conf_syntax {
    CONF_S_ANY,  /* may be empty */
    CONF_S_NAME, /* 1..255 bytes: an AMQP short string */
    CONF_S_NAME_OR_EMPTY,
    CONF_S_INSTANCE, /* letters, digits, '.', '_', '-'; at most 64; may be empty */
    CONF_S_URI,      /* amqp:// or amqps:// */
    CONF_S_LISTEN,   /* ADDRESS:PORT; may be empty */
};

#define CONF_SOURCE_BIT(kind) (1u << (kind))

struct conf_option {
    const char *key; /* dotted */
    enum conf_type type;
    size_t offset;       /* in struct conf */
    const char *preset;  /* the default, as text */
    const char *example; /* for messages, where the default would not help; else NULL */
    const char *min, *max;
    const char *const *names; /* CONF_T_ENUM: by value, NULL at the end */
    unsigned sources;         /* CONF_T_SOURCE(S): CONF_SOURCE_BIT of the allowed kinds */
    enum conf_syntax syntax;
    bool reloadable;
    bool minimal;     /* stands in the shortest useful file */
    const char *help; /* one sentence or two */
};

/* The rows in the file's order; *n_out = their number, at most CONF_MAX_OPTIONS. */
const struct conf_option *conf_table(size_t *n_out);

/* The row's index, or -1. `key` need not be terminated. */
int conf_table_find(const char *key, size_t n);

/* The sections: the index of "NAME" in "NAME.option", or -1; one sentence about it. */
#define CONF_MAX_SECTIONS 16
int conf_table_section(const char *name, size_t n);
const char *conf_table_section_help(int section);

/* A section's first option. */
const struct conf_option *conf_table_first_of(int section);

/* The option (or section) whose key is most like `key`, or NULL when none is close. */
const char *conf_table_nearest(const char *key);

/* What a value of this option looks like: "an integer 1..65535", "a duration with a unit, 0..1h".
 */
void conf_table_expected(const struct conf_option *o, char *out, size_t size);

/* The same in short, for a reader who sees a value: "1 to 65535"; empty where the help says it all.
 */
void conf_table_range(const struct conf_option *o, char *out, size_t size);

#endif
