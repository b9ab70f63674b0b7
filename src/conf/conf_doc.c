#include "conf/conf_doc.h"

#include "base/buf.h"
#include "conf/conf_internal.h"

#include <string.h>

#define MAN_WIDTH 72

static int default_text(const struct conf_option *o, const struct conf *defaults, struct buf *out)
{
    return conf_value_print(o, defaults, false, out);
}

int conf_doc_help(const struct conf *defaults, struct buf *out)
{
    size_t n;
    const struct conf_option *rows = conf_table(&n);
    struct buf value = {0};
    int r = buf_printf(out, "  (R): SIGHUP takes over a change; other changes need a restart.\n\n");
    for (size_t i = 0; r == 0 && i < n; i++) {
        buf_reset(&value);
        bool labels = rows[i].type == CONF_T_LABELS;
        r = labels ? buf_printf(&value, "LEVEL") : default_text(&rows[i], defaults, &value);
        if (r == 0)
            r = buf_printf(out, "  %s%s=%s%s\n      %s\n", rows[i].key, labels ? ".LABEL" : "",
                           value.p, rows[i].reloadable ? "  (R)" : "", rows[i].help);
    }
    buf_fini(&value);
    return r;
}

/* The length of the word at `text`. */
static size_t word_length(const char *text)
{
    return strcspn(text, " ");
}

static int man_word(const char *word, size_t n, struct buf *out)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (word[i] == '\\')
            r = buf_append(out, "\\e", 2);
        else if (word[i] == '"')
            r = buf_append(out, "\\(dq", 4);
        else
            r = buf_append(out, &word[i], 1);
    }
    return r;
}

/* mdoc wants each sentence on a line of its own, and no line longer than 80 bytes. */
static int man_words(const char *text, struct buf *out)
{
    size_t column = 0;
    int r = 0;
    while (r == 0 && *text != '\0') {
        size_t n = word_length(text);
        if (column > 0 && column + 1 + n > MAN_WIDTH)
            column = 0;
        if (out->n > 0 && out->p[out->n - 1] != '\n')
            r = buf_append(out, column > 0 ? " " : "\n", 1);
        if (r == 0)
            r = man_word(text, n, out);
        column += n + 1;
        if (n > 0 && text[n - 1] == '.' && text[n] == ' ')
            column = 0;
        text += n + (text[n] == ' ');
    }
    return r < 0 ? r : buf_append(out, "\n", 1);
}

static int man_section(const struct conf_option *o, const struct conf_option *before,
                       struct buf *out)
{
    size_t n = strcspn(o->key, ".");
    size_t m = before != NULL ? strcspn(before->key, ".") : 0;
    bool top = o->key[n] == '\0' && o->type != CONF_T_LABELS;
    bool top_before = before != NULL && before->key[m] == '\0' && before->type != CONF_T_LABELS;
    bool same =
        before != NULL && (top ? top_before : n == m && strncmp(before->key, o->key, n) == 0);
    if (same)
        return 0;
    int r = before != NULL ? buf_printf(out, ".El\n") : 0;
    if (r == 0 && top)
        r = buf_printf(out, ".Ss General\n");
    else if (r == 0)
        r = buf_printf(out, ".Ss Section %.*s\n", (int)n, o->key);
    int section = conf_table_section(o->key, n);
    if (r == 0 && section >= 0)
        r = man_words(conf_table_section_help(section), out);
    return r < 0 ? r : buf_printf(out, ".Bl -tag -width Ds\n");
}

static int man_option(const struct conf_option *o, const struct conf *defaults, struct buf *out)
{
    char expected[192];
    struct buf value = {0};
    conf_table_expected(o, expected, sizeof expected);
    int r =
        buf_printf(out, ".It Ic %s%s\n", o->key, o->type == CONF_T_LABELS ? " Ns Ar .LABEL" : "");
    if (r == 0)
        r = man_words(o->help, out);
    if (r == 0)
        r = buf_printf(out, "Value:\n");
    if (r == 0)
        r = man_words(expected, out);
    if (r == 0 && o->type != CONF_T_LABELS)
        r = default_text(o, defaults, &value);
    if (r == 0 && value.n > 0)
        r = buf_printf(out, ".Pp\nDefault:\n");
    if (r == 0 && value.n > 0)
        r = man_words(value.p, out);
    if (r == 0 && o->reloadable)
        r = buf_printf(out, ".Pp\nReloadable.\n");
    buf_fini(&value);
    return r;
}

int conf_doc_man(const struct conf *defaults, struct buf *out)
{
    size_t n;
    const struct conf_option *rows = conf_table(&n), *before = NULL;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = man_section(&rows[i], before, out);
        if (r == 0)
            r = man_option(&rows[i], defaults, out);
        before = &rows[i];
    }
    return r < 0 ? r : buf_printf(out, ".El\n");
}
