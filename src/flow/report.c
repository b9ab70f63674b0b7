#include "flow/report.h"

#include "base/num.h"

#include <jansson.h>

#define MAX_BODY_BYTES (16u << 20)

static bool outcome_of(struct text t, enum report_outcome *out)
{
    static const char *const names[] = {
        [REPORT_OK] = "ok", [REPORT_ERROR] = "error", [REPORT_TIMEOUT] = "timeout"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (text_equal(t, text_of(names[i]))) {
            *out = (enum report_outcome)i;
            return true;
        }
    }
    return false;
}

/* An absent member or null leaves *out absent; false when it is there and not a string. */
static bool text_member(const json_t *object, const char *name, struct text *out)
{
    const json_t *v = json_object_get(object, name);
    if (v == NULL || json_is_null(v))
        return true;
    if (!json_is_string(v))
        return false;
    *out = (struct text){json_string_value(v), json_string_length(v)};
    return true;
}

/* JSON has no NaN and no infinity, and jansson refuses a number that would become one: a number is
 * finite here. */
static bool duration_member(const json_t *object, struct report *r)
{
    const json_t *v = json_object_get(object, "duration_ms");
    if (v == NULL || json_is_null(v))
        return true;
    r->has_duration = json_is_number(v);
    r->duration_ms = json_number_value(v);
    return r->has_duration;
}

static bool report_of(const json_t *object, struct report *r)
{
    struct text outcome = {NULL, 0};
    *r = (struct report){.outcome = REPORT_OK};
    return json_is_object(object) && text_member(object, "id", &r->id) &&
           text_member(object, "key", &r->key) && duration_member(object, r) &&
           text_member(object, "outcome", &outcome) &&
           (outcome.p == NULL || outcome_of(outcome, &r->outcome));
}

static void emit(const json_t *object, report_fn *fn, void *ctx)
{
    struct report r;
    fn(ctx, report_of(object, &r) ? &r : NULL);
}

void report_parse(const char *body, size_t n, report_fn *fn, void *ctx)
{
    json_t *root = n <= MAX_BODY_BYTES ? json_loadb(body, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_array(root)) {
        emit(root, fn, ctx);
    } else {
        size_t i;
        const json_t *element;
        json_array_foreach(root, i, element) emit(element, fn, ctx);
    }
    json_decref(root);
}

bool report_from_fields(struct text id, struct text key, struct text duration_ms,
                        struct text outcome, struct report *out)
{
    *out = (struct report){.id = id, .key = key, .outcome = REPORT_OK};
    if (outcome.p != NULL && !outcome_of(outcome, &out->outcome))
        return false;
    if (duration_ms.p == NULL)
        return true;
    out->has_duration = true;
    return num_parse_double(duration_ms.p, duration_ms.n, &out->duration_ms) == 0;
}
