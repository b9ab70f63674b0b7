#include "sidecar/rules.h"

#include "sidecar/loop.h"

static struct key_source source_of(const struct conf_source *s)
{
    switch (s->kind) {
    case CONF_SOURCE_USER_ID: return (struct key_source){KEY_USER_ID, NULL};
    case CONF_SOURCE_APP_ID: return (struct key_source){KEY_APP_ID, NULL};
    case CONF_SOURCE_TYPE: return (struct key_source){KEY_TYPE, NULL};
    case CONF_SOURCE_BODY: return (struct key_source){KEY_BODY, NULL};
    case CONF_SOURCE_HEADER: return (struct key_source){KEY_HEADER, s->header};
    case CONF_SOURCE_NONE: break;
    }
    return (struct key_source){KEY_NONE, NULL};
}

static size_t sources_of(const struct conf_sources *s, struct key_source out[KEY_MAX_SOURCES])
{
    _Static_assert(CONF_MAX_SOURCES == KEY_MAX_SOURCES, "one list must fit the other");
    for (size_t i = 0; i < s->n; i++)
        out[i] = source_of(&s->v[i]);
    return s->n;
}

static int static_level(const void *ctx, struct text label)
{
    return conf_static_level(ctx, label.p, label.n);
}

static enum flow_mode mode_of(enum conf_mode mode)
{
    switch (mode) {
    case CONF_MODE_STATIC: return FLOW_STATIC;
    case CONF_MODE_SHADOW: return FLOW_SHADOW;
    case CONF_MODE_PREDICTIVE: break;
    }
    return FLOW_PREDICTIVE;
}

static enum flow_respect respect_of(enum conf_respect respect)
{
    switch (respect) {
    case CONF_RESPECT_NONZERO: return FLOW_RESPECT_NONZERO;
    case CONF_RESPECT_ALWAYS: return FLOW_RESPECT_ALWAYS;
    case CONF_RESPECT_NEVER: break;
    }
    return FLOW_RESPECT_NEVER;
}

void rules_of(const struct conf *c, struct flow_rules *out)
{
    *out = (struct flow_rules){
        .mode = mode_of(c->mode),
        .respect_priority = respect_of(c->work.respect_priority),
        .max_duration_ms = mono_to_ms(c->reports.max_duration),
        .static_level = static_level,
        .static_ctx = c,
    };
    out->key.n_producer = sources_of(&c->key.producer, out->key.producer);
    out->key.n_label = sources_of(&c->key.label, out->key.label);
    out->key.size = source_of(&c->key.size);
}

void rules_flow_options(const struct conf *c, struct flow_options *out)
{
    *out = (struct flow_options){
        .remembered_ids = c->reports.remembered_ids,
        .instance = loop_random(),
        .seed = {loop_random(), loop_random()},
    };
    rules_of(c, &out->rules);

    conf_predictor_options(c, &out->predictor);
    out->predictor.seed[0] = loop_random();
    out->predictor.seed[1] = loop_random();
}

static int print_source(struct buf *out, const struct conf_source *s)
{
    static const char *const words[] = {
        [CONF_SOURCE_NONE] = "none",     [CONF_SOURCE_USER_ID] = "user_id",
        [CONF_SOURCE_APP_ID] = "app_id", [CONF_SOURCE_TYPE] = "type",
        [CONF_SOURCE_BODY] = "body",     [CONF_SOURCE_HEADER] = "header:",
    };
    return buf_printf(out, " %s%s", words[s->kind], s->header != NULL ? s->header : "");
}

static int print_sources(struct buf *out, const char *name, const struct conf_source *v, size_t n)
{
    int r = buf_printf(out, "%s", name);
    for (size_t i = 0; i < n && r == 0; i++)
        r = print_source(out, &v[i]);
    return r;
}

int rules_snapshot_context(const struct conf *c, struct buf *out)
{
    int r = print_sources(out, "key.producer", c->key.producer.v, c->key.producer.n);
    if (r == 0)
        r = print_sources(out, "; key.label", c->key.label.v, c->key.label.n);
    if (r == 0)
        r = print_sources(out, "; key.size", &c->key.size, 1);
    return r;
}
