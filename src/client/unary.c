#include "client/unary.h"

int unary_start(struct call *c, struct peer *p, const char *method, const ProtobufCMessage *request,
                mono_t until, struct hb_rpc_error *e)
{
    int status = call_start(c, p, method, until, e);
    if (status != HB_RPC_OK)
        return status;
    call_send(c, request);
    call_send_end(c);
    return HB_RPC_OK;
}

int unary_end(struct call *c, const ProtobufCMessageDescriptor *answer_type, mono_t until,
              ProtobufCMessage **answer, struct hb_rpc_error *e)
{
    struct text m = {NULL, 0};
    int status = HB_RPC_OK;
    enum call_event event;
    *answer = NULL;
    while ((event = call_wait(c, until, &m)) == CALL_MESSAGE)
        if (*answer == NULL)
            *answer = protobuf_c_message_unpack(answer_type, NULL, m.n, (const uint8_t *)m.p);
    if (event == CALL_LATE)
        status = GRPC_DEADLINE_EXCEEDED;
    else if (event == CALL_WOKEN)
        status = GRPC_CANCELLED;
    else if (c->status != GRPC_OK)
        status = c->status;
    else if (*answer == NULL)
        status = GRPC_INTERNAL;
    if (status != HB_RPC_OK) {
        call_error(c, status, e);
        if (*answer != NULL)
            protobuf_c_message_free_unpacked(*answer, NULL);
        *answer = NULL;
    }
    call_fini(c);
    return status;
}

int unary_call(struct peer *p, const char *method, const ProtobufCMessage *request,
               const ProtobufCMessageDescriptor *answer_type, mono_t until,
               ProtobufCMessage **answer, struct hb_rpc_error *e)
{
    struct call c;
    int status = unary_start(&c, p, method, request, until, e);
    return status == HB_RPC_OK ? unary_end(&c, answer_type, until, answer, e) : status;
}
