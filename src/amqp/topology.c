#include "amqp/topology.h"

#include "amqp/channel.h"
#include "amqp/clock.h"
#include "amqp/life.h"
#include "amqp/shape.h"
#include "base/buf.h"
#include "base/err.h"

#include <event2/event.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_FOR (10 * MONO_S)

/* What is being asked about the current object. A refused question costs its channel, so each may
 * need a new one. */
enum step {
    EXISTS,  /* passive */
    CREATE,  /* it was missing */
    COMPARE, /* it was there: declared as configured, to hear of differences */
    BIND,
};

enum { MAX_ARGS = 8 + SHAPE_EXTRAS };

struct topology {
    struct life life;
    struct link *link;
    struct topology_job job;
    size_t at; /* object */
    enum step step;
    struct channel *ch;
    struct event *deadline;
    struct event *kick; /* the result, when it is there before the first question */
    struct shape shape; /* of the current object */
    struct buf problems, warnings, notes;
    bool no_memory, done;
};

/* Off the link and the loop, at once; the memory may have to wait for the stack. */
static void shut(struct topology *t)
{
    channel_free(t->ch);
    t->ch = NULL;
    if (t->deadline != NULL)
        event_free(t->deadline);
    if (t->kick != NULL)
        event_free(t->kick);
    t->deadline = t->kick = NULL;
}

static void release(struct topology *t)
{
    buf_fini(&t->problems);
    buf_fini(&t->warnings);
    buf_fini(&t->notes);
    free(t);
}

static void leave(struct topology *t)
{
    if (life_leave(&t->life))
        release(t);
}

void topology_free(struct topology *t)
{
    if (t == NULL)
        return;
    shut(t);
    if (life_end(&t->life))
        release(t);
}

static const struct topology_object *current(const struct topology *t)
{
    return &t->job.objects[t->at];
}

static const char *kind_name(const struct topology_object *o)
{
    return o->kind == TOPOLOGY_QUEUE      ? "queue"
           : o->kind == TOPOLOGY_EXCHANGE ? "exchange"
                                          : "binding of queue";
}

/* The result. */

static void finish(struct topology *t, enum topology_result result)
{
    if (t->done)
        return;
    t->done = true;
    evtimer_del(t->deadline);
    channel_free(t->ch);
    t->ch = NULL;
    struct topology_report report = {
        .result = t->no_memory ? TOPOLOGY_LOST : result,
        .problems = t->problems.p != NULL ? t->problems.p : "",
        .warnings = t->warnings.p != NULL ? t->warnings.p : "",
        .notes = t->notes.p != NULL ? t->notes.p : "",
    };
    t->job.done(t->job.ctx, &report);
}

static void line(struct topology *t, struct buf *to, const char *what)
{
    const struct topology_object *o = current(t);
    if (buf_printf(to, "%s '%s' %s\n", kind_name(o), o->name, what) < 0)
        t->no_memory = true;
}

/* The kind of exchange is the user's business: no configuration of ours can differ from it. */
static bool is_users_exchange(const struct topology_object *o)
{
    return o->kind == TOPOLOGY_EXCHANGE && o->type == NULL;
}

static bool is_users_own(const struct topology_object *o)
{
    return is_users_exchange(o) || (o->kind == TOPOLOGY_QUEUE && o->any_arguments);
}

static bool is_configured(const struct topology_object *o, struct text arg)
{
    for (size_t i = 0; i < o->n_args; i++)
        if (text_equal(arg, text_of(o->args[i].name)))
            return true;
    return !is_users_own(o) && (arg.n < 2 || memcmp(arg.p, "x-", 2) != 0);
}

static void report_difference(struct topology *t, const char *words)
{
    struct difference d;
    char said[512];
    if (!difference_read(words, &d))
        snprintf(said, sizeof said, "differs from the configuration: %s", words);
    else
        snprintf(said, sizeof said, "exists with %.*s %.*s, configured %.*s", (int)d.arg.n, d.arg.p,
                 (int)d.exists.n, d.exists.p, (int)d.received.n, d.received.p);
    line(t, &t->problems, said);
}

/* The one thing about a user's own queue or exchange that matters. True: nothing else will. */
static bool report_user_trap(struct topology *t, const struct difference *d)
{
    char said[512];
    if (text_equal(d->arg, text_of("alternate-exchange"))) {
        snprintf(said, sizeof said,
                 "has the alternate exchange '%.*s': what it takes counts as delivered",
                 (int)d->exists.n, d->exists.p);
        line(t, &t->warnings, said);
        return true;
    }
    if (!text_equal(d->arg, text_of("x-queue-type")) || !text_equal(d->exists, text_of("stream")))
        return false;
    line(t, &t->problems,
         "is a stream, where an ack means nothing and a restart skips messages; use a queue");
    return true;
}

/* 406 to a declaration as configured, or as it has turned out to be so far. True: ask again. */
static bool take_difference(struct topology *t, const char *words)
{
    const struct topology_object *o = current(t);
    struct difference d;
    bool known = difference_read(words, &d);
    if (known && report_user_trap(t, &d))
        return false;
    if (known && !is_configured(o, d.arg) && shape_take(&t->shape, &d))
        return true;
    if (!is_users_own(o))
        report_difference(t, words);
    return false;
}

/* Questions. */

static void ask(struct topology *t);

static void next_object(struct topology *t)
{
    t->at++;
    shape_init(&t->shape);
    t->step = EXISTS;
    ask(t);
}

/* Declared as it turned out to be: what it is besides is in the shape. A queue that says nothing of
 * its type is of the virtual host's default one, classic unless an administrator changed it. */
static void keep_type(struct topology *t)
{
    if (t->job.types == NULL || current(t)->kind != TOPOLOGY_QUEUE)
        return;
    const struct topology_object *o = current(t);
    enum topology_queue_type type = TOPOLOGY_CLASSIC;
    for (size_t i = 0; i < o->n_args; i++)
        if (strcmp(o->args[i].name, "x-queue-type") == 0)
            type = TOPOLOGY_OTHER;
    for (size_t i = 0; i < t->shape.n_extra; i++)
        if (strcmp(t->shape.extra[i].name, "x-queue-type") == 0 &&
            strcmp(t->shape.extra[i].text, "classic") != 0)
            type = TOPOLOGY_OTHER;
    t->job.types[t->at] = type;
}

static void answered(void *ctx, const amqp_method_t *reply)
{
    struct topology *t = ctx;
    (void)reply;
    life_enter(&t->life);
    if (t->step == EXISTS) {
        t->step = COMPARE;
        ask(t);
    } else {
        keep_type(t);
        if (t->step == CREATE)
            line(t, &t->notes, "was created");
        next_object(t);
    }
    leave(t);
}

/* The broker refused the question about the current object and closed the channel over it. */
static void on_refused(struct topology *t, const struct loss *why)
{
    const struct topology_object *o = current(t);
    char said[400];
    snprintf(said, sizeof said, "%s (%u)", why->text, why->code);
    if (t->step == EXISTS && why->code == 404) {
        if (t->job.mode == TOPOLOGY_DECLARE && !o->must_exist) {
            t->step = CREATE;
            ask(t);
            return;
        }
        line(t, &t->problems, "does not exist");
    } else if (t->step == COMPARE && why->code == 406) {
        if (take_difference(t, why->text)) {
            ask(t);
            return;
        }
    } else if (t->step == COMPARE && is_users_own(o)) {
        /* It exists; more was only asked to warn. */
    } else if (t->step == COMPARE && why->code == 403) {
        line(t, &t->notes,
             "exists; its arguments cannot be compared without the right to configure it");
    } else if (t->step == COMPARE && why->code == 405) {
        line(t, &t->notes, "exists, and is exclusive to another connection");
    } else {
        line(t, &t->problems, said);
    }
    next_object(t);
}

static void on_closed(void *ctx, const struct loss *why)
{
    struct topology *t = ctx;
    life_enter(&t->life);
    channel_free(t->ch);
    t->ch = NULL;
    if (why->kind == LOSS_CHANNEL)
        on_refused(t, why);
    else
        finish(t, TOPOLOGY_LOST);
    leave(t);
}

static void fill_arg(amqp_table_entry_t *e, const struct topology_arg *a)
{
    e->key = lib_bytes(text_of(a->name));
    if (a->text != NULL) {
        e->value.kind = AMQP_FIELD_KIND_UTF8;
        e->value.value.bytes = lib_bytes(text_of(a->text));
    } else {
        e->value.kind = AMQP_FIELD_KIND_I64;
        e->value.value.i64 = a->number;
    }
}

/* What is configured, and what has turned out to be there besides. */
static amqp_table_t arguments(const struct topology *t, amqp_table_entry_t entries[MAX_ARGS])
{
    const struct topology_object *o = current(t);
    int n = 0;
    for (size_t i = 0; i < o->n_args && n < MAX_ARGS - SHAPE_EXTRAS; i++)
        fill_arg(&entries[n++], &o->args[i]);
    for (size_t i = 0; i < t->shape.n_extra; i++) {
        const struct shape_extra *x = &t->shape.extra[i];
        struct topology_arg a = {x->name, x->kind == SHAPE_TEXT ? x->text : NULL, x->number};
        fill_arg(&entries[n], &a);
        if (x->kind == SHAPE_BOOL) {
            entries[n].value.kind = AMQP_FIELD_KIND_BOOLEAN;
            entries[n].value.value.boolean = x->number != 0;
        }
        n++;
    }
    return (amqp_table_t){n, entries};
}

static int ask_queue(struct topology *t, const struct topology_object *o)
{
    amqp_table_entry_t entries[MAX_ARGS];
    amqp_queue_declare_t declare = {
        .queue = lib_bytes(text_of(o->name)),
        .passive = t->step == EXISTS,
        .durable = !o->transient && !t->shape.transient,
        .auto_delete = t->shape.auto_delete,
    };
    if (t->step != EXISTS)
        declare.arguments = arguments(t, entries);
    return channel_call(t->ch, AMQP_QUEUE_DECLARE_METHOD, &declare, answered);
}

static int ask_exchange(struct topology *t, const struct topology_object *o)
{
    amqp_table_entry_t entries[MAX_ARGS];
    amqp_exchange_declare_t declare = {
        .exchange = lib_bytes(text_of(o->name)),
        .type = lib_bytes(text_of(o->type != NULL ? o->type : t->shape.type)),
        .passive = t->step == EXISTS,
        .durable = !o->transient && !t->shape.transient,
        .auto_delete = t->shape.auto_delete,
        .internal = t->shape.internal,
    };
    if (t->step != EXISTS)
        declare.arguments = arguments(t, entries);
    return channel_call(t->ch, AMQP_EXCHANGE_DECLARE_METHOD, &declare, answered);
}

static int ask_binding(struct topology *t, const struct topology_object *o)
{
    amqp_queue_bind_t bind = {
        .queue = lib_bytes(text_of(o->name)),
        .exchange = lib_bytes(text_of(o->type)),
        .routing_key = lib_bytes(text_of(o->routing_key != NULL ? o->routing_key : "")),
    };
    t->step = BIND;
    return channel_call(t->ch, AMQP_QUEUE_BIND_METHOD, &bind, answered);
}

static int open_channel(struct topology *t)
{
    struct conn *conn = link_conn(t->link);
    if (t->ch != NULL)
        return 0;
    struct channel_options options = {.on_closed = on_closed, .ctx = t};
    return conn != NULL ? channel_new(conn, &options, &t->ch) : ERR_LOST;
}

static int ask_current(struct topology *t)
{
    const struct topology_object *o = current(t);
    struct timeval limit = clock_timeval(ANSWER_FOR);
    int r = open_channel(t);
    if (r < 0)
        return r;
    evtimer_add(t->deadline, &limit);
    switch (o->kind) {
    case TOPOLOGY_QUEUE: return ask_queue(t, o);
    case TOPOLOGY_EXCHANGE: return ask_exchange(t, o);
    default: return ask_binding(t, o);
    }
}

static void ask(struct topology *t)
{
    /* The default exchange is always there and may not be declared; bindings cannot be asked for.
     */
    while (t->at < t->job.n_objects &&
           ((current(t)->kind == TOPOLOGY_EXCHANGE && current(t)->name[0] == '\0') ||
            (current(t)->kind == TOPOLOGY_BINDING && t->job.mode == TOPOLOGY_CHECK)))
        t->at++;
    if (t->at == t->job.n_objects)
        finish(t, t->problems.n > 0 ? TOPOLOGY_PROBLEMS : TOPOLOGY_OK);
    else if (ask_current(t) < 0)
        finish(t, TOPOLOGY_LOST);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct topology *t = arg;
    (void)fd;
    (void)what;
    life_enter(&t->life);
    finish(t, TOPOLOGY_LOST);
    leave(t);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
    struct topology *t = arg;
    (void)fd;
    (void)what;
    life_enter(&t->life);
    if (t->job.mode == TOPOLOGY_OFF)
        finish(t, TOPOLOGY_OK);
    else
        ask(t);
    leave(t);
}

int topology_run(struct link *l, const struct topology_job *job, struct topology **out)
{
    struct topology *t = calloc(1, sizeof *t);
    if (t == NULL)
        return ERR_NOMEM;
    t->link = l;
    t->job = *job;
    shape_init(&t->shape);
    for (size_t i = 0; job->types != NULL && i < job->n_objects; i++)
        job->types[i] = TOPOLOGY_UNKNOWN;
    t->deadline = evtimer_new(link_base(l), on_deadline, t);
    t->kick = event_new(link_base(l), -1, 0, on_kick, t);
    if (t->deadline == NULL || t->kick == NULL) {
        topology_free(t);
        return ERR_NOMEM;
    }
    event_active(t->kick, EV_TIMEOUT, 0);
    *out = t;
    return 0;
}
