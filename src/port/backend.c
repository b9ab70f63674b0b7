#include "port/backend.h"

#include "port/backend_impl.h"

int backend_submit(struct backend *b, void *message, const struct ticket *ticket)
{
    return b->ops->submit(b, message, ticket);
}

bool backend_prints(const struct backend *b)
{
    return !b->ops->unprinted;
}
