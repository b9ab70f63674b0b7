#include "client/admin.h"

#include "client/unary.h"
#include "rpc/health.pb-c.h"

static int ask(struct peer *p, const char *method, const ProtobufCMessage *request,
               const ProtobufCMessageDescriptor *type, void *out, struct hb_rpc_error *e)
{
    ProtobufCMessage **answer = out;
    return unary_call(p, method, request, type, peer_now() + peer_timeout(p), answer, e);
}

int admin_stats(struct peer *p, HarbingerRpc__StatsResponse **out, struct hb_rpc_error *e)
{
    HarbingerRpc__StatsRequest r = HARBINGER_RPC__STATS_REQUEST__INIT;
    return ask(p, "Stats", &r.base, &harbinger_rpc__stats_response__descriptor, out, e);
}

int admin_inspect(struct peer *p, int32_t limit, int32_t offset,
                  HarbingerRpc__InspectDlqResponse **out, struct hb_rpc_error *e)
{
    HarbingerRpc__InspectDlqRequest r = HARBINGER_RPC__INSPECT_DLQ_REQUEST__INIT;
    r.limit = limit;
    r.offset = offset;
    return ask(p, "InspectDlq", &r.base, &harbinger_rpc__inspect_dlq_response__descriptor, out, e);
}

/* The generated structs do not know const; packing reads only. */
static char *borrowed(const char *text)
{
    union {
        const char *from;
        char *to;
    } u = {.from = text};
    return u.to;
}

int admin_redrive(struct peer *p, const char *id, uint32_t limit, uint64_t *n,
                  struct hb_rpc_error *e)
{
    HarbingerRpc__RedriveDlqRequest r = HARBINGER_RPC__REDRIVE_DLQ_REQUEST__INIT;
    HarbingerRpc__RedriveDlqResponse *answer;
    r.message_id = borrowed(id);
    r.limit = limit;
    int status =
        ask(p, "RedriveDlq", &r.base, &harbinger_rpc__redrive_dlq_response__descriptor, &answer, e);
    if (status != HB_RPC_OK)
        return status;
    *n = answer->redriven;
    harbinger_rpc__redrive_dlq_response__free_unpacked(answer, NULL);
    return HB_RPC_OK;
}

int admin_purge(struct peer *p, const char *id, uint64_t *n, struct hb_rpc_error *e)
{
    HarbingerRpc__PurgeDlqRequest r = HARBINGER_RPC__PURGE_DLQ_REQUEST__INIT;
    HarbingerRpc__PurgeDlqResponse *answer;
    r.message_id = borrowed(id);
    int status =
        ask(p, "PurgeDlq", &r.base, &harbinger_rpc__purge_dlq_response__descriptor, &answer, e);
    if (status != HB_RPC_OK)
        return status;
    *n = answer->purged;
    harbinger_rpc__purge_dlq_response__free_unpacked(answer, NULL);
    return HB_RPC_OK;
}

int admin_drain(struct peer *p, HarbingerRpc__DrainResponse **out, struct hb_rpc_error *e)
{
    HarbingerRpc__DrainRequest r = HARBINGER_RPC__DRAIN_REQUEST__INIT;
    return ask(p, "Drain", &r.base, &harbinger_rpc__drain_response__descriptor, out, e);
}

int admin_health(struct peer *p, bool *serving, struct hb_rpc_error *e)
{
    Grpc__Health__V1__HealthCheckRequest r = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    Grpc__Health__V1__HealthCheckResponse *answer;
    int status = ask(p, "/grpc.health.v1.Health/Check", &r.base,
                     &grpc__health__v1__health_check_response__descriptor, &answer, e);
    if (status != HB_RPC_OK)
        return status;
    *serving = answer->status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
    grpc__health__v1__health_check_response__free_unpacked(answer, NULL);
    return HB_RPC_OK;
}
