/* A message as RabbitMQ delivered it: where from, properties (see props.h), body. */
#ifndef HARBINGER_AMQP_MESSAGE_H
#define HARBINGER_AMQP_MESSAGE_H

#include "amqp/props.h"
#include "base/compiler.h"
#include "base/text.h"

#include <stddef.h>

/* Heap, one block: free with message_free. All views point into it. */
struct message {
    struct text exchange; /* where it was published to */
    struct text routing_key;
    struct text body;
    bool body_cut; /* the body was over the consumer's limit and was not kept: `body` is empty */
    struct props props; /* props.raw = {flags, list} as received */
};

/* A message with room for the body, to be filled through message_body_at; all arguments are copied.
 * Returns NULL when there is no memory. Properties that cannot be indexed make it opaque, never a
 * failure. */
struct message *message_new(struct text exchange, struct text routing_key, struct text props,
                            size_t body_bytes);
void message_free(struct message *m);
/* Where byte `at` of the body is written while it arrives. */
char *message_body_at(struct message *m, size_t at);
/* The bytes that a message occupies: what a window in bytes counts. */
size_t message_bytes(const struct message *m);

#endif
