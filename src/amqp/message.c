#include "amqp/message.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct text place(char **at, struct text t)
{
    struct text placed = {*at, t.n};
    if (t.n > 0)
        memcpy(*at, t.p, t.n);
    *at += t.n;
    return placed;
}

struct message *message_new(struct text exchange, struct text routing_key, struct text props,
                            size_t body_bytes)
{
    size_t views = exchange.n + routing_key.n + props.n;
    if (body_bytes > SIZE_MAX - views - sizeof(struct message))
        return NULL;
    struct message *m = malloc(sizeof *m + views + body_bytes);
    if (m == NULL)
        return NULL;
    char *at = (char *)(m + 1);
    m->exchange = place(&at, exchange);
    m->routing_key = place(&at, routing_key);
    props_parse(&m->props, place(&at, props));
    m->body = (struct text){at, body_bytes};
    return m;
}

void message_free(struct message *m)
{
    free(m);
}

char *message_body_at(struct message *m, size_t at)
{
    return (char *)(m + 1) + m->exchange.n + m->routing_key.n + m->props.raw.n + at;
}

size_t message_bytes(const struct message *m)
{
    return sizeof *m + m->exchange.n + m->routing_key.n + m->props.raw.n + m->body.n;
}
