/* One row per method. */
#include "rpc/harbinger.pb-c.h"
#include "rpc/health.pb-c.h"
#include "rpc/rpc_internal.h"
#include "rpc/methods.h"

#define BROKER        "/harbinger_rpc.Broker/"
#define HEALTH        "/grpc.health.v1.Health/"
#define REQUEST(name) .request = &harbinger_rpc__##name##_request__descriptor
#define CHECK         .request = &grpc__health__v1__health_check_request__descriptor

static const struct rpc_method methods[] = {
    {BROKER "Submit", .raw = rpc_submit_one},
    {BROKER "Pull", REQUEST(pull), .message = rpc_pull, .gone = rpc_pull_gone},
    {BROKER "Ack", REQUEST(ack), .message = rpc_ack},
    {BROKER "Nack", REQUEST(nack), .message = rpc_nack},
    {BROKER "SubmitStream", .is_stream = true, .raw = rpc_submit_stream},
    {BROKER "Work", REQUEST(work), .is_stream = true, .message = rpc_work,
     .client_ended = rpc_work_client_ended, .gone = rpc_work_gone},
    {BROKER "RegisterProducer", REQUEST(register_producer), .message = rpc_register_producer},
    {BROKER "RegisterConsumer", REQUEST(register_consumer), .message = rpc_register_consumer},
    {BROKER "ExtendLease", REQUEST(extend_lease), .message = rpc_extend_lease},
    {BROKER "InspectDlq", REQUEST(inspect_dlq), .message = rpc_inspect_dlq},
    {BROKER "Stats", REQUEST(stats), .message = rpc_stats_now},
    {BROKER "RedriveDlq", REQUEST(redrive_dlq), .message = rpc_redrive_dlq},
    {BROKER "PurgeDlq", REQUEST(purge_dlq), .message = rpc_purge_dlq},
    {BROKER "Drain", REQUEST(drain), .message = rpc_drain},
    {HEALTH "Check", CHECK, .is_open = true, .message = rpc_health_check},
    {HEALTH "Watch", CHECK, .is_open = true, .is_stream = true, .message = rpc_health_watch,
     .client_ended = rpc_health_client_ended, .gone = rpc_health_gone},
};

const struct rpc_method *rpc_method_find(struct text path)
{
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
        if (text_equal(path, text_of(methods[i].path)))
            return &methods[i];
    return NULL;
}
