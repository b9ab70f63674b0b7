#include "conf/conf.h"

#include "base/err.h"
#include "conf/conf_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int conf_errors_add(struct conf_errors *errors, int code, const char *fmt, ...)
{
    if (errors == NULL)
        return code;
    if (errors->n++ >= CONF_MAX_ERRORS)
        return code;
    char raw[sizeof errors->line[0]], *to = errors->line[errors->n - 1];
    size_t n = 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    for (const char *p = raw; *p != '\0' && n + 5 < sizeof raw; p++) {
        unsigned char ch = (unsigned char)*p;
        if (ch < 0x20 || ch == 0x7f)
            n += (size_t)snprintf(to + n, 5, "\\x%02x", ch);
        else
            to[n++] = *p;
    }
    to[n] = '\0';
    return code;
}

static int fail_memory(struct conf_errors *errors)
{
    return conf_errors_add(errors, ERR_NOMEM, "%s", err_name(ERR_NOMEM));
}

/* "[a, b]" into its items; anything else is one plain scalar. Presets and --set use only this form.
 */
#define MAX_SET_ITEMS 32

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct conf_scalar trimmed(const char *p, size_t n)
{
    while (n > 0 && is_blank(p[0])) {
        p++;
        n--;
    }
    while (n > 0 && is_blank(p[n - 1]))
        n--;
    return (struct conf_scalar){p, n, false};
}

/* Returns false when the list is too long. The items borrow `text`; `items` has room for
 * MAX_SET_ITEMS. */
static bool split_value(const char *text, struct conf_scalar *items, struct conf_value *out)
{
    size_t n = strlen(text);
    *out = (struct conf_value){items, 1, false};
    /* An argument says by itself that it is a text: "" needs no quotes here. */
    items[0] = (struct conf_scalar){text, n, n == 0};
    if (n < 2 || text[0] != '[' || text[n - 1] != ']')
        return true;
    *out = (struct conf_value){items, 0, true};
    const char *p = text + 1, *end = text + n - 1;
    if (trimmed(p, (size_t)(end - p)).n == 0)
        return true;
    while (out->n < MAX_SET_ITEMS) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma != NULL ? comma : end;
        items[out->n++] = trimmed(p, (size_t)(stop - p));
        if (comma == NULL)
            return true;
        p = comma + 1;
    }
    return false;
}

static int set_from_text(const struct conf_option *o, struct conf *c, const char *text,
                         char why[CONF_WHY])
{
    struct conf_scalar items[MAX_SET_ITEMS];
    struct conf_value v;
    if (!split_value(text, items, &v)) {
        snprintf(why, CONF_WHY, "%s: the list is too long", o->key);
        return ERR_CONFIG;
    }
    return conf_value_set(o, c, &v, why);
}

void conf_fini(struct conf *c)
{
    size_t n;
    const struct conf_option *rows = conf_table(&n);
    for (size_t i = 0; i < n; i++)
        conf_value_fini(&rows[i], c);
    free(c->name);
    *c = (struct conf){0};
}

int conf_init_named(struct conf *c, const char *name)
{
    *c = (struct conf){0};
    size_t n;
    const struct conf_option *rows = conf_table(&n);
    c->name = strdup(name);
    bool whole = c->name != NULL;
    for (size_t i = 0; whole && i < n; i++) {
        char why[CONF_WHY];
        whole =
            rows[i].type == CONF_T_LABELS || set_from_text(&rows[i], c, rows[i].preset, why) == 0;
    }
    if (!whole) {
        conf_fini(c);
        return ERR_NOMEM;
    }
    return 0;
}

int conf_init_defaults(struct conf *c)
{
    return conf_init_named(c, "");
}

static int fail_unknown(const char *key, struct conf_errors *errors)
{
    int section = conf_table_section(key, strlen(key));
    if (section >= 0) {
        const struct conf_option *first = conf_table_first_of(section);
        return conf_errors_add(errors, ERR_CONFIG,
                               "--set: '%s' is a section; expected one of its options; example: "
                               "--set %s=%s",
                               key, first->key,
                               first->example != NULL ? first->example : first->preset);
    }
    const char *nearest = conf_table_nearest(key);
    if (nearest == NULL)
        return conf_errors_add(errors, ERR_CONFIG, "--set: unknown key '%s'", key);
    return conf_errors_add(errors, ERR_CONFIG, "--set: unknown key '%s' (nearest: '%s')", key,
                           nearest);
}

/* Everything between "static." and '=' is the label, dots included. */
static int set_label(const struct conf_option *o, struct conf *c, const char *label, size_t n,
                     const char *text, char why[CONF_WHY])
{
    struct conf_scalar name = {label, n, false}, level = {text, strlen(text), false};
    return conf_value_set_label(o, c, &name, &(struct conf_value){&level, 1, false}, why);
}

int conf_set(struct conf *c, const char *assignment, struct conf_errors *errors)
{
    static const char labels[] = "static.";
    size_t n_rows, n = strcspn(assignment, "=");
    const struct conf_option *rows = conf_table(&n_rows);
    if (assignment[n] == '\0')
        return conf_errors_add(errors, ERR_CONFIG, "--set: '%s' has no '='; expected KEY=VALUE",
                               assignment);
    const char *value = assignment + n + 1;
    char why[CONF_WHY];
    bool is_label = n >= sizeof labels - 1 && memcmp(assignment, labels, sizeof labels - 1) == 0;
    int row = conf_table_find(assignment, is_label ? sizeof labels - 2 : n);
    if (row < 0) {
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)(n < sizeof key ? n : sizeof key), assignment);
        return fail_unknown(key, errors);
    }
    int r = is_label ? set_label(&rows[row], c, assignment + sizeof labels - 1,
                                 n - sizeof labels + 1, value, why)
                     : set_from_text(&rows[row], c, value, why);
    if (r == ERR_NOMEM)
        return fail_memory(errors);
    if (r < 0)
        return conf_errors_add(errors, r, "--set: %s", why);
    c->place[row] = (struct conf_place){.by_set = true};
    return 0;
}

/* The whole file into `out`; regular files and pipes alike, at most one byte more than the limit.
 */
static int read_all(int fd, struct buf *out)
{
    char chunk[8192];
    ssize_t n;
    do {
        n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno != EINTR)
            return ERR_SYSTEM;
        int r = n > 0 ? buf_append(out, chunk, (size_t)n) : 0;
        if (r < 0)
            return r;
    } while (n != 0 && out->n <= CONF_MAX_BYTES);
    return 0;
}

static int read_file(const char *path, struct buf *out, struct conf_errors *errors)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return conf_errors_add(errors, ERR_SYSTEM, "%s: cannot open: %s", path, strerror(errno));
    int r = read_all(fd, out);
    if (r == ERR_SYSTEM)
        (void)conf_errors_add(errors, r, "%s: cannot read: %s", path, strerror(errno));
    else if (r < 0)
        (void)fail_memory(errors);
    close(fd);
    return r;
}

/* Sets, and the check when everything was readable; *c is finished on error. `r` is the file's
 * result. */
static int complete(struct conf *c, const char *const *sets, size_t n_sets, int r,
                    struct conf_errors *errors)
{
    for (size_t i = 0; i < n_sets; i++) {
        int one = conf_set(c, sets[i], errors);
        if (r == 0)
            r = one;
    }
    if (r == 0)
        r = conf_check(c, errors);
    if (r < 0)
        conf_fini(c);
    return r;
}

int conf_load_file(const char *path, const char *const *sets, size_t n_sets, struct conf *c,
                   struct conf_errors *errors)
{
    struct buf text = {0};
    if (conf_init_named(c, path != NULL ? path : "") < 0)
        return fail_memory(errors);
    int r = path != NULL ? read_file(path, &text, errors) : 0;
    if (r == 0)
        r = conf_yaml_read(c, text.n > 0 ? text.p : "", text.n, errors);
    buf_fini(&text);
    return complete(c, sets, n_sets, r, errors);
}

int conf_load_text(const char *name, const char *text, size_t n, struct conf *c,
                   struct conf_errors *errors)
{
    if (conf_init_named(c, name) < 0)
        return fail_memory(errors);
    return complete(c, NULL, 0, conf_yaml_read(c, text, n, errors), errors);
}

size_t conf_diff(const struct conf *a, const struct conf *b,
                 struct conf_change out[CONF_MAX_OPTIONS])
{
    size_t n, n_out = 0;
    const struct conf_option *rows = conf_table(&n);
    for (size_t i = 0; i < n; i++)
        if (!conf_value_equal(&rows[i], a, b))
            out[n_out++] = (struct conf_change){rows[i].key, rows[i].reloadable};
    return n_out;
}

/* An exchange undoes itself, so a mix that does not agree is taken back by a second one. */
static void swap_reloadable(struct conf *a, struct conf *b)
{
    size_t n;
    const struct conf_option *rows = conf_table(&n);
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].reloadable)
            continue;
        conf_value_swap(&rows[i], a, b);
        struct conf_place place = a->place[i];
        a->place[i] = b->place[i];
        b->place[i] = place;
    }
}

int conf_reload(struct conf *running, struct conf *fresh, struct conf_errors *errors)
{
    swap_reloadable(running, fresh);
    int r = conf_check(running, errors);
    if (r < 0)
        swap_reloadable(running, fresh);
    return r;
}

unsigned conf_default_level(const struct conf *c)
{
    return c->default_level == CONF_LEVEL_AUTO ? c->levels / 2 : (unsigned)c->default_level;
}

unsigned conf_intake_channels(const struct conf *c)
{
    if (c->intake.channels > 0)
        return c->intake.channels;
    return c->backend == CONF_BACKEND_HARBINGER ? 8 : 1;
}

unsigned conf_intake_window(const struct conf *c)
{
    return conf_intake_channels(c) * c->intake.window;
}

unsigned conf_priority(const struct conf *c, unsigned level)
{
    return c->work.priorities.n > level ? c->work.priorities.v[level] : c->levels - 1 - level;
}
