/* The configuration as a file: values as the reader would take them, each below its help. */
#include "conf/conf_doc.h"
#include "conf/conf_internal.h"

#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "amqp://user:***@host": what stands between the user's name and the last '@' before the path. */
static int print_uri(const char *uri, bool redact, struct buf *out)
{
    const char *start = strstr(uri, "://");
    const char *rest = start != NULL ? start + 3 : uri;
    size_t authority = strcspn(rest, "/?");
    const char *at = memrchr(rest, '@', authority);
    const char *colon = at != NULL ? memchr(rest, ':', (size_t)(at - rest)) : NULL;
    if (!redact || colon == NULL)
        return conf_text_print(uri, out);
    struct buf hidden = {0};
    int r = buf_printf(&hidden, "%.*s:***%s", (int)(colon - uri), uri, at);
    if (r == 0)
        r = conf_text_print(hidden.p, out);
    buf_fini(&hidden);
    return r;
}

/* The built-in URI is in the manual: its password is no secret, and the sample file must read back.
 */
static bool is_preset(const struct conf_option *o, const struct conf_texts *t)
{
    return t->n == 1 && strcmp(t->v[0], o->preset) == 0;
}

static int print_texts(const struct conf_texts *t, bool redact, struct buf *out)
{
    if (t->n == 1)
        return print_uri(t->v[0], redact, out);
    int r = buf_append(out, "[", 1);
    for (size_t i = 0; r == 0 && i < t->n; i++) {
        r = i > 0 ? buf_append(out, ", ", 2) : 0;
        if (r == 0)
            r = print_uri(t->v[i], redact, out);
    }
    return r < 0 ? r : buf_append(out, "]", 1);
}

static int print_source(const struct conf_source *s, struct buf *out)
{
    struct buf text = {0};
    int r =
        buf_printf(&text, "%s%s", conf_source_words[s->kind], s->header != NULL ? s->header : "");
    if (r == 0)
        r = conf_text_print(text.p, out);
    buf_fini(&text);
    return r;
}

static int print_sources(const struct conf_sources *s, struct buf *out)
{
    int r = buf_append(out, "[", 1);
    for (size_t i = 0; r == 0 && i < s->n; i++) {
        r = i > 0 ? buf_append(out, ", ", 2) : 0;
        if (r == 0)
            r = print_source(&s->v[i], out);
    }
    return r < 0 ? r : buf_append(out, "]", 1);
}

static int print_numbers(const struct conf_numbers *v, struct buf *out)
{
    int r = buf_append(out, "[", 1);
    for (size_t i = 0; r == 0 && i < v->n; i++)
        r = buf_printf(out, "%s%u", i > 0 ? ", " : "", v->v[i]);
    return r < 0 ? r : buf_append(out, "]", 1);
}

int conf_value_print(const struct conf_option *o, const struct conf *c, bool redact,
                     struct buf *out)
{
    const void *at = conf_field(o, c);
    char text[32] = "";
    switch (o->type) {
    case CONF_T_TEXT: return conf_text_print(*(char *const *)at, out);
    case CONF_T_TEXTS: return print_texts(at, redact && !is_preset(o, at), out);
    case CONF_T_BOOL: return buf_printf(out, "%s", *(const bool *)at ? "true" : "false");
    case CONF_T_UNSIGNED: return buf_printf(out, "%u", *(const unsigned *)at);
    case CONF_T_U64: return buf_printf(out, "%" PRIu64, *(const uint64_t *)at);
    case CONF_T_DOUBLE: num_format_double(*(const double *)at, text, sizeof text); break;
    case CONF_T_DURATION: num_format_duration(*(const mono_t *)at, text, sizeof text); break;
    case CONF_T_SIZE: num_format_size(*(const uint64_t *)at, text, sizeof text); break;
    case CONF_T_ENUM: return buf_printf(out, "%s", o->names[*(const int *)at]);
    case CONF_T_LEVEL:
        if (*(const int *)at == CONF_LEVEL_AUTO)
            return buf_printf(out, "auto");
        return buf_printf(out, "%d", *(const int *)at);
    case CONF_T_NUMBERS: return print_numbers(at, out);
    case CONF_T_SOURCE: return print_source(at, out);
    case CONF_T_SOURCES: return print_sources(at, out);
    case CONF_T_LABELS: break;
    }
    return buf_printf(out, "%s", text);
}

#define WIDTH 100

/* Words as comment lines of at most WIDTH columns. */
static int print_comment(const char *text, int indent, struct buf *out)
{
    while (*text != '\0') {
        size_t n = strlen(text), room = (size_t)(WIDTH - 2 - indent);
        if (n > room) {
            n = room;
            while (n > 0 && text[n] != ' ')
                n--;
            if (n == 0)
                n = strcspn(text, " ");
        }
        int r = buf_printf(out, "%*s# %.*s\n", indent, "", (int)n, text);
        if (r < 0)
            return r;
        text += n;
        text += strspn(text, " ");
    }
    return 0;
}

static int print_help(const struct conf_option *o, int indent, struct buf *out)
{
    char text[768], range[192];
    conf_table_range(o, range, sizeof range);
    const char *open = range[0] != '\0' ? " (" : "", *close = range[0] != '\0' ? ")" : "";
    snprintf(text, sizeof text, "%s%s%s%s%s", o->help, open, range, close,
             o->reloadable ? " (R)" : "");
    return print_comment(text, indent, out);
}

static int print_labels(const struct conf_option *o, const struct conf *c, struct buf *out)
{
    const struct conf_labels *l = conf_field(o, c);
    int r = buf_printf(out, "%s:\n", o->key);
    if (r == 0 && l->n == 0)
        r = buf_printf(out, "  # %s\n", o->example);
    for (size_t i = 0; r == 0 && i < l->n; i++) {
        r = buf_append(out, "  ", 2);
        if (r == 0)
            r = conf_text_print(l->v[i].label, out);
        if (r == 0)
            r = buf_printf(out, ": %u\n", l->v[i].level);
    }
    return r;
}

static int print_line(const struct conf_option *o, const struct conf *c, const char *name,
                      int indent, struct buf *out)
{
    if (o->type == CONF_T_LABELS)
        return print_labels(o, c, out);
    int r = buf_printf(out, "%*s%s: ", indent, "", name);
    if (r == 0)
        r = conf_value_print(o, c, true, out);
    return r < 0 ? r : buf_append(out, "\n", 1);
}

/* The section's heading when the option is the first one in it. */
static int print_section(const struct conf_option *o, const struct conf_option *before, bool help,
                         struct buf *out)
{
    size_t n = strcspn(o->key, ".");
    bool same = before != NULL && strncmp(before->key, o->key, n + 1) == 0;
    if (o->key[n] == '\0')
        return help ? buf_append(out, "\n", 1) : 0;
    if (same)
        return 0;
    int r = help ? buf_append(out, "\n", 1) : 0;
    if (r == 0 && help)
        r = print_comment(conf_table_section_help(conf_table_section(o->key, n)), 0, out);
    return r < 0 ? r : buf_printf(out, "%.*s:\n", (int)n, o->key);
}

static int print_options(const struct conf *c, bool minimal, struct buf *out)
{
    size_t n;
    const struct conf_option *rows = conf_table(&n), *before = NULL;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        const struct conf_option *o = &rows[i];
        if (minimal && !o->minimal)
            continue;
        const char *dot = strchr(o->key, '.');
        int indent = dot != NULL ? 2 : 0;
        r = print_section(o, before, !minimal, out);
        if (r == 0 && !minimal)
            r = print_help(o, indent, out);
        if (r == 0)
            r = print_line(o, c, dot != NULL ? dot + 1 : o->key, indent, out);
        before = o;
    }
    return r;
}

int conf_print(const struct conf *c, struct buf *out)
{
    static const char head[] = "Configuration of harbingerd. Durations and sizes need a unit "
                               "(250ms, 16MiB); a boolean is true or false. "
                               "What is left out has its default. (R): SIGHUP takes over a change; "
                               "other changes need a restart.";
    int r = print_comment(head, 0, out);
    return r < 0 ? r : print_options(c, false, out);
}

int conf_doc_minimal(const struct conf *c, struct buf *out)
{
    int r = print_comment(
        "The least that a harbingerd somewhere else needs; all options: harbinger.yaml(5).", 0,
        out);
    return r < 0 ? r : print_options(c, true, out);
}
