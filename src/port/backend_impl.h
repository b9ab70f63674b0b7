/* For implementers of a backend only. An implementation embeds struct backend. */
#ifndef HARBINGER_PORT_BACKEND_IMPL_H
#define HARBINGER_PORT_BACKEND_IMPL_H

#include "port/backend.h"

struct backend_ops {
    const char *name;
    int (*submit)(struct backend *b, void *message, const struct ticket *ticket);
    bool unprinted; /* it does without the ticket's `id` and `key`, which then are empty */
};

struct backend {
    const struct backend_ops *ops;
};

#endif
