/*
 * What must exist at RabbitMQ, declared or checked on throw-away channels of a link. Nothing is
 * ever deleted or declared differently from what exists.
 *
 * Each object in turn: asked for passively; missing (404) is created (declare) or a problem
 * (check). What exists is then declared once more as configured, which changes nothing: an equal
 * one is left as it is, a different one is refused with 406, whose words become a line such as:
 * queue 'harbinger.work' exists with x-max-priority 10, configured 2.
 *   - Arguments that nobody configured are the user's business (a dead-letter exchange, a length):
 *     they are taken over and it is asked again, so that what matters is still compared.
 *   - A queue or exchange of the user's own may be anything; it is asked further only because a
 *     stream as a queue is a problem, and an alternate exchange a warning: what that takes is
 *     confirmed and never returned.
 *   - 403 (no configure permission) leaves what the passive question told, with a note.
 *   - Bindings cannot be asked for: `declare` binds (idempotent), `check` notes nothing.
 */
#ifndef HARBINGER_AMQP_TOPOLOGY_H
#define HARBINGER_AMQP_TOPOLOGY_H

#include "amqp/link.h"
#include "amqp/loss.h"
#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct topology;

enum topology_kind { TOPOLOGY_QUEUE, TOPOLOGY_EXCHANGE, TOPOLOGY_BINDING };

/* One queue argument; text NULL means the number. */
struct topology_arg {
    const char *name;
    const char *text;
    int64_t number;
};

/* Texts and arguments are borrowed until the result. */
struct topology_object {
    enum topology_kind kind;
    const char *name; /* queue or exchange; of a binding: the queue */
    const char *type; /* exchange: "fanout", ..., or NULL: one of the user's own, whose kind is
                         found out; of a binding: the exchange it binds to */
    const char *routing_key; /* binding only; NULL means "" */
    bool transient;          /* not durable */
    bool any_arguments;      /* a queue of the user's own: only that it exists matters, whatever its
                                arguments */
    bool must_exist;         /* never created: missing is a problem under declare too */
    const struct topology_arg *args;
    size_t n_args;
};

/* What a queue that is there was found to be. Where it could not be asked (no right to configure
 * it, mode off) it is unknown. */
enum topology_queue_type { TOPOLOGY_UNKNOWN, TOPOLOGY_CLASSIC, TOPOLOGY_OTHER };

enum topology_mode { TOPOLOGY_DECLARE, TOPOLOGY_CHECK, TOPOLOGY_OFF };

enum topology_result {
    TOPOLOGY_OK,       /* all is as configured */
    TOPOLOGY_PROBLEMS, /* some lines say what is not */
    TOPOLOGY_LOST,     /* not all was asked: the link went, no answer within the limit, no channel
                        * number left, no memory; ask again when the link is up */
};

struct topology_report {
    enum topology_result result;
    const char *problems; /* terminated lines, "" when there are none; valid during the callback */
    const char *warnings; /* what works and yet may lose messages: an alternate exchange */
    const char *notes;    /* what was created, what could not be compared */
};

struct topology_job {
    enum topology_mode mode;
    const struct topology_object *objects;
    size_t n_objects;
    enum topology_queue_type *types; /* NULL, or one per object, written before `done` */
    void (*done)(void *ctx, const struct topology_report *report);
    void *ctx;
};

/* Starts; `done` comes once, from the loop (with TOPOLOGY_OFF also). The link must be up, else the
 * result is TOPOLOGY_LOST. Limited by 10 s per answer, then TOPOLOGY_LOST (during an alarm a
 * connection that has published is not read: use the consuming link). The job is copied, its
 * objects are borrowed until the result. Returns 0 or ERR_NOMEM. */
int topology_run(struct link *l, const struct topology_job *job, struct topology **out) MUST_CHECK;
/* After `done` or before (then it does not come). May be called in it. NULL does nothing. */
void topology_free(struct topology *t);

#endif
