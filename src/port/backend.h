/*
 * What the flow needs from the world: a place that takes messages with a level. RabbitMQ's priority
 * queue is one, the linked broker another, the simulator a third.
 */
#ifndef HARBINGER_PORT_BACKEND_H
#define HARBINGER_PORT_BACKEND_H

#include "base/compiler.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend;

/* What was decided about one message at ingress. Texts are valid during the call they are passed to
 * only. */
struct ticket {
    struct text id;     /* identifies this message in its report */
    struct text key;    /* printed form; empty when the message has no valid key */
    const char *reason; /* why this level; static text */
    unsigned level;     /* 0 is served first; below the flow's number of levels */
    bool keep_priority; /* the producer's own priority stands; `level` is the default level */
    uint8_t priority;   /* with keep_priority: that one; larger is served first */

    struct text raw_key; /* not printed; empty when the message has no valid key */
    size_t n_parent;     /* raw_key's first bytes that are its parent; 0: it has none */

    bool predicted; /* what the predictor said, whatever `level` became of it */
    unsigned predicted_level;
    double predicted_ms;
    double estimate_ms; /* what the order of service may count with; negative: nothing */
};

/* Outcomes of backend_submit. */
enum { BACKEND_FULL = 1 };

/* Whether the backend wants a ticket's texts: printing them takes time. */
bool backend_prints(const struct backend *b);

/*
 * Hands over one message. `message` is what the flow's caller and the backend agreed on; on 0 the
 * backend owns it and settles it with its owner later. BACKEND_FULL: nothing was taken, offer it
 * again later. Negative: ERR_*.
 */
int backend_submit(struct backend *b, void *message, const struct ticket *ticket) MUST_CHECK;

#endif
