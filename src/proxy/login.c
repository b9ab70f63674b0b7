/* What a client says about itself. The password is looked at by RabbitMQ alone. */
#include "amqp/codec.h"
#include "amqp/header.h"
#include "base/err.h"
#include "proxy/chan.h"

#include <string.h>

enum { ACCESS_REFUSED = 403 };

static void keep(char *out, size_t size, struct text t)
{
    size_t n = t.n < size - 1 ? t.n : size - 1;
    if (n > 0)
        memcpy(out, t.p, n);
    out[n] = '\0';
}

/* A text in a table's content; absent when there is none. */
static struct text find(struct text table, const char *name)
{
    struct header h;
    for (size_t at = 0; header_next(table, true, &at, &h) == 0;)
        if (text_equal(h.name, text_of(name)) && h.type == 'S')
            return h.value;
    return (struct text){NULL, 0};
}

/* PLAIN: authorization NUL user NUL password. */
static struct text plain_user(struct text response)
{
    const char *end = response.p + response.n;
    const char *user = response.n > 0 ? memchr(response.p, '\0', response.n) : NULL;
    if (user == NULL)
        return (struct text){NULL, 0};
    user++;
    const char *stop = memchr(user, '\0', (size_t)(end - user));
    return (struct text){user, (size_t)((stop != NULL ? stop : end) - user)};
}

static struct text user_of(struct text mechanism, struct text response)
{
    if (text_equal(mechanism, text_of("PLAIN")))
        return plain_user(response);
    if (text_equal(mechanism, text_of("AMQPLAIN")))
        return find(response, "LOGIN");
    return (struct text){NULL, 0};
}

/* RabbitMQ lets guest in from its own machine only; it would take every client for one of there,
 * for it sees the proxy's address. */
int login_start_ok(struct call *c)
{
    struct session *s = c->s;
    struct text properties = args_long(&c->a), mechanism = args_short(&c->a);
    struct text response = args_long(&c->a);
    if (c->a.cut)
        return FORWARD;
    struct text user = user_of(mechanism, response);
    keep(s->user, sizeof s->user, user);
    keep(s->product, sizeof s->product, find(properties, "product"));
    if (s->local || s->world->options.guest_anyone || !text_equal(user, text_of("guest")))
        return FORWARD;
    s->world->stats.refused_guest++;
    int r = session_refuse(s, ACCESS_REFUSED,
                           "ACCESS_REFUSED - user guest may come from this machine only",
                           AMQP_CONNECTION_START_OK_METHOD);
    return r < 0 ? r : SWALLOW;
}
