/* grpc.health.v1: the server as a whole (the empty name) and the broker's service. Draining counts
 * as not serving: submissions are refused then. */
#include "rpc/health.pb-c.h"
#include "rpc/methods.h"

typedef Grpc__Health__V1__HealthCheckRequest check_request;
typedef Grpc__Health__V1__HealthCheckResponse check_response;

static bool is_known(const check_request *r)
{
    struct text name = text_of(r->service);
    return name.n == 0 || text_equal(name, text_of("harbinger_rpc.Broker"));
}

static Grpc__Health__V1__HealthCheckResponse__ServingStatus status_now(const struct rpc_server *s)
{
    return s->shut || s->station.draining(s->station.ctx)
               ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
               : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
}

void rpc_health_check(struct rpc_call *c, const ProtobufCMessage *m)
{
    check_response r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    if (!is_known((const check_request *)m)) {
        rpc_call_finish(c, GRPC_NOT_FOUND, "there is no such service");
        return;
    }
    r.status = status_now(c->conn->server);
    rpc_call_answer(c, &r.base);
}

static void tell(struct rpc_call *c)
{
    check_response r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    r.status = status_now(c->conn->server);
    rpc_call_send(c, &r.base);
}

/* Answers now and at each change; an unknown service stays unknown. */
void rpc_health_watch(struct rpc_call *c, const ProtobufCMessage *m)
{
    check_response r = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    if (c->opened)
        return;
    c->opened = true;
    if (is_known((const check_request *)m)) {
        list_push_back(&c->conn->server->watchers, &c->wait);
        tell(c);
    } else {
        r.status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN;
        rpc_call_send(c, &r.base);
    }
}

/* The client sends its one request and ends its side; the watch goes on. */
void rpc_health_client_ended(struct rpc_call *c)
{
    if (!c->opened)
        rpc_call_finish(c, GRPC_INTERNAL, "the request has no message");
}

void rpc_health_gone(struct rpc_call *c)
{
    list_remove(&c->wait);
}

void rpc_health_tell(struct rpc_server *s)
{
    struct list *next;
    for (struct list *node = s->watchers.next; node != &s->watchers; node = next) {
        struct rpc_call *c = LIST_ENTRY(node, struct rpc_call, wait);
        next = node->next;
        tell(c);
        if (s->shut)
            rpc_call_finish(c, GRPC_UNAVAILABLE, RPC_SHUT_TEXT);
    }
}
