/* What the files of this folder share: values as written, the list of errors, UTF-8. */
#ifndef HARBINGER_CONF_CONF_INTERNAL_H
#define HARBINGER_CONF_CONF_INTERNAL_H

#include "conf/conf_table.h"

/* A value as a person wrote it: one scalar, or the items of a list. Everything is borrowed. */
struct conf_scalar {
    const char *p;
    size_t n;
    bool quoted;
};

struct conf_value {
    const struct conf_scalar *items;
    size_t n;
    bool is_list;
};

/* Appends one line; a NULL list is fine. Returns `code`. Control characters are escaped. */
int conf_errors_add(struct conf_errors *errors, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Sets the option from `v`. ERR_CONFIG: `why` says what is wrong with the value and what is
 * expected, in the form "intake.window: '0' is ..."; ERR_NOMEM. On error the option is unchanged.
 */
#define CONF_WHY 512
int conf_value_set(const struct conf_option *o, struct conf *c, const struct conf_value *v,
                   char why[CONF_WHY]) MUST_CHECK;

/* Adds LABEL: LEVEL to a CONF_T_LABELS option; a known label gets the new level. Results as above.
 */
int conf_value_set_label(const struct conf_option *o, struct conf *c,
                         const struct conf_scalar *label, const struct conf_value *level,
                         char why[CONF_WHY]) MUST_CHECK;

/* The value as the file would say it, on one line; not for CONF_T_LABELS. `redact` replaces
 * passwords in URIs. */
int conf_value_print(const struct conf_option *o, const struct conf *c, bool redact,
                     struct buf *out) MUST_CHECK;

/* A text as a YAML scalar: plain where that reads back as itself, else in double quotes. */
int conf_text_print(const char *text, struct buf *out) MUST_CHECK;

/* Where the option's value is. */
static inline void *conf_field(const struct conf_option *o, const struct conf *c)
{
    return (char *)(uintptr_t)c + o->offset;
}

/* How the file calls each enum conf_source_kind; a header's name follows its word. */
#define CONF_N_SOURCE_KINDS (CONF_SOURCE_HEADER + 1)
extern const char *const conf_source_words[CONF_N_SOURCE_KINDS];

void conf_texts_fini(struct conf_texts *t);
void conf_source_fini(struct conf_source *s);
void conf_sources_fini(struct conf_sources *s);

bool conf_value_equal(const struct conf_option *o, const struct conf *a, const struct conf *b);
void conf_value_swap(const struct conf_option *o, struct conf *a, struct conf *b);
void conf_value_fini(const struct conf_option *o, struct conf *c);

/* The code point at p (n > 0 bytes left) and its length, or 0 for what is not UTF-8 (surrogates,
 * overlong forms). */
size_t conf_utf8_next(const char *p, size_t n, uint32_t *cp);

/* NULL, or what is wrong with it as a text: not UTF-8, or a control character. */
const char *conf_text_problem(const char *p, size_t n);

/* Reads the text over what *c already holds, reporting all errors. No conf_check. */
int conf_yaml_read(struct conf *c, const char *text, size_t n,
                   struct conf_errors *errors) MUST_CHECK;

/* conf_init_defaults with a name for messages. */
int conf_init_named(struct conf *c, const char *name) MUST_CHECK;

#endif
