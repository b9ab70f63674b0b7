#include "proxy/runtimes.h"

#include "amqp/props.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct runtimes_entry {
    uint64_t id; /* the task's, hashed; 0 = empty */
    uint16_t n;
    char lesson[PROXY_LESSON_MAX];
};

void runtimes_fini(struct runtimes *r)
{
    free(r->v);
    r->v = NULL;
}

static struct runtimes_entry *place_of(const struct runtimes *r, struct text id, uint64_t *hash)
{
    *hash = hash_bytes(&r->seed, id.p, id.n);
    *hash += *hash == 0;
    return &r->v[*hash % RUNTIMES_MAX];
}

/* Celery puts a task's id where others put what an answer is to. */
bool runtimes_remember(struct runtimes *r, const struct proxy_delivery *d)
{
    struct props props;
    if (d->lesson.n == 0 || d->lesson.n > PROXY_LESSON_MAX)
        return false;
    props_parse(&props, d->props);
    struct text id = props_text(&props, PROP_CORRELATION_ID);
    if (id.n == 0)
        return false;
    if (r->v == NULL && (r->v = calloc(RUNTIMES_MAX, sizeof *r->v)) == NULL)
        return false;
    uint64_t hash;
    struct runtimes_entry *e = place_of(r, id, &hash);
    e->id = hash;
    e->n = (uint16_t)d->lesson.n;
    memcpy(e->lesson, d->lesson.p, d->lesson.n);
    return true;
}

bool runtimes_are_events(struct text exchange, struct text routing_key)
{
    return text_equal(exchange, text_of("celeryev")) &&
           (text_equal(routing_key, text_of("task.multi")) ||
            text_equal(routing_key, text_of("task.succeeded")));
}

/* One event; true when it taught. */
static bool read_event(struct runtimes *r, const json_t *event, const struct proxy_station *station)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    const json_t *uuid = json_object_get(event, "uuid"),
                 *runtime = json_object_get(event, "runtime");
    double ms = json_is_number(runtime) ? json_number_value(runtime) * 1000 : -1;
    if (r->v == NULL || type == NULL || strcmp(type, "task-succeeded") != 0 ||
        !json_is_string(uuid) || !isfinite(ms) || ms < 0)
        return false;
    uint64_t hash;
    struct runtimes_entry *e =
        place_of(r, (struct text){json_string_value(uuid), json_string_length(uuid)}, &hash);
    if (e->id != hash)
        return false;
    e->id = 0; /* a task succeeds once */
    station->learn(station->ctx, (struct text){e->lesson, e->n}, ms);
    return true;
}

unsigned runtimes_read(struct runtimes *r, struct text json, mono_t now,
                       const struct proxy_station *station)
{
    json_t *all = json_loadb(json.p, json.n, 0, NULL), *event;
    unsigned n = 0;
    size_t i;
    if (json_is_object(all))
        n = read_event(r, all, station);
    json_array_foreach(all, i, event) n += read_event(r, event, station);
    json_decref(all);
    if (n > 0)
        r->believed_until = mono_add(now, RUNTIMES_BELIEVED_FOR);
    return n;
}
