/*
 * What the sidecar changes on a message's way through (docs/amqp.md, "What changes on the way"):
 * body byte for byte, properties and headers kept in type and order, except
 *
 *   priority        set from the level, unless the producer's own stands
 *   CC, BCC         removed, CC kept as x-harbinger-cc: RabbitMQ would route a second copy
 *   user_id         moved to x-harbinger-user-id unless this user may impersonate (406 otherwise)
 *   x-harbinger-*   incoming ones removed; id, key, level, reason and the original address added
 */
#ifndef HARBINGER_SIDECAR_OUTGOING_H
#define HARBINGER_SIDECAR_OUTGOING_H

#include "amqp/message.h"
#include "amqp/publisher.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/text.h"

#include <stdbool.h>

#define OUTGOING_PREFIX        "x-harbinger-"
#define OUTGOING_ID            "x-harbinger-id"
#define OUTGOING_KEY           "x-harbinger-key"
#define OUTGOING_LEVEL         "x-harbinger-level"
#define OUTGOING_REASON        "x-harbinger-reason"
#define OUTGOING_EXCHANGE      "x-harbinger-exchange"
#define OUTGOING_ROUTING_KEY   "x-harbinger-routing-key"
#define OUTGOING_USER_ID       "x-harbinger-user-id"
#define OUTGOING_CC            "x-harbinger-cc"
#define OUTGOING_PARKED_REASON "x-harbinger-parked-reason"

/* How much of it is done: a header frame cannot be split, so a message whose headers nearly fill
 * one goes out with fewer additions. The first that fits is used. */
enum outgoing_form {
    OUTGOING_WHOLE, /* all of the above */
    OUTGOING_BARE,  /* nothing added, what must go is removed, priority set */
    OUTGOING_RAW,   /* as it came, byte for byte */
    OUTGOING_N_FORMS
};

struct outgoing {
    const struct message *message;
    struct text id, key; /* empty ones are not written */
    const char *reason;  /* why this level; NULL: neither is written */
    unsigned level;
    int priority;              /* -1 keeps the producer's */
    bool impersonate;          /* keep user_id */
    bool add_address;          /* tell the original exchange and routing key */
    const char *parked_reason; /* NULL unless it is being parked */
};

/* Appends raw properties to `out`. 0, ERR_NOMEM or ERR_INVALID as props_edit. */
int outgoing_props(const struct outgoing *o, enum outgoing_form form, struct buf *out) MUST_CHECK;

struct outgoing_target {
    struct text exchange, routing_key;
    void *cookie; /* of the publisher's callbacks */
};

/* Publishes in the first form that fits, which is *form then. As publisher_publish, and ERR_INVALID
 * as outgoing_props. `scratch` is reset. */
int outgoing_publish(struct publisher *p, const struct outgoing *o,
                     const struct outgoing_target *to, struct buf *scratch,
                     enum outgoing_form *form) MUST_CHECK;

#endif
