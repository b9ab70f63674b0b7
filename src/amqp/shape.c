#include "amqp/shape.h"

#include "base/num.h"

#include <stdio.h>

static struct text between(const char *from, const char *start, const char *end)
{
    const char *a = strstr(from, start);
    if (a == NULL)
        return (struct text){NULL, 0};
    a += strlen(start);
    const char *b = strstr(a, end);
    return (struct text){a, b != NULL ? (size_t)(b - a) : strlen(a)};
}

/* A value is: none, 'true', or the value '10' of type 'signedint'. */
static struct text bare_value(struct text t)
{
    const char *a = t.n > 0 ? memchr(t.p, '\'', t.n) : NULL;
    if (a == NULL)
        return t;
    a++;
    size_t left = t.n - (size_t)(a - t.p);
    const char *b = memchr(a, '\'', left);
    return (struct text){a, b != NULL ? (size_t)(b - a) : left};
}

bool difference_read(const char *words, struct difference *out)
{
    out->arg = between(words, "inequivalent arg '", "'");
    out->received = bare_value(between(words, "received ", " but current is "));
    out->exists = bare_value(between(words, "but current is ", "\n"));
    const char *current = strstr(words, "but current is ");
    out->exists_type =
        current != NULL ? between(current, "of type '", "'") : (struct text){NULL, 0};
    return out->arg.p != NULL && out->received.p != NULL && out->exists.p != NULL;
}

void shape_init(struct shape *s)
{
    *s = (struct shape){.type = "direct"};
}

static bool fits(struct text t, size_t size)
{
    return t.n < size;
}

static void copy(char *to, struct text from)
{
    memcpy(to, from.p, from.n);
    to[from.n] = '\0';
}

static bool take_flag(bool *flag, bool value)
{
    bool news = *flag != value;
    *flag = value;
    return news;
}

static bool is_number_type(struct text type)
{
    static const char *const names[] = {"byte", "short", "signedint", "long"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (text_equal(type, text_of(names[i])))
            return true;
    return false;
}

static bool take_extra(struct shape *s, const struct difference *d)
{
    struct shape_extra e = {.kind = SHAPE_TEXT};
    if (s->n_extra == SHAPE_EXTRAS || !fits(d->arg, sizeof e.name) ||
        !fits(d->exists, sizeof e.text))
        return false;
    copy(e.name, d->arg);
    copy(e.text, d->exists);
    for (size_t i = 0; i < s->n_extra; i++)
        if (strcmp(s->extra[i].name, e.name) == 0)
            return false;
    if (text_equal(d->exists_type, text_of("bool"))) {
        e.kind = SHAPE_BOOL;
        e.number = text_equal(d->exists, text_of("true"));
    } else if (is_number_type(d->exists_type)) {
        e.kind = SHAPE_NUMBER;
        if (num_parse_i64(d->exists.p, d->exists.n, &e.number) < 0)
            return false;
    } else if (!text_equal(d->exists_type, text_of("longstr"))) {
        return false;
    }
    s->extra[s->n_extra++] = e;
    return true;
}

bool shape_take(struct shape *s, const struct difference *d)
{
    bool set = text_equal(d->exists, text_of("true"));
    if (text_equal(d->arg, text_of("durable")))
        return take_flag(&s->transient, !set);
    if (text_equal(d->arg, text_of("auto_delete")))
        return take_flag(&s->auto_delete, set);
    if (text_equal(d->arg, text_of("internal")))
        return take_flag(&s->internal, set);
    if (!text_equal(d->arg, text_of("type")))
        return take_extra(s, d);
    if (!fits(d->exists, sizeof s->type) || text_equal(d->exists, text_of(s->type)))
        return false;
    copy(s->type, d->exists);
    return true;
}
