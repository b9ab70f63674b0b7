/* Calls with one request and one answer, whole or in two halves. */
#ifndef HARBINGER_CLIENT_UNARY_H
#define HARBINGER_CLIENT_UNARY_H

#include "client/peer.h"

/* The request waits in the connection until something sends it: call_flush, or any call_wait. Not
 * HB_RPC_OK: there is no call, and *e is set. */
int unary_start(struct call *c, struct peer *p, const char *method, const ProtobufCMessage *request,
                mono_t until, struct hb_rpc_error *e) MUST_CHECK;

/* Waits for the answer and finishes the call. HB_RPC_OK with *answer set, to be freed with
 * protobuf_c_message_free_unpacked; else a status with *e set, CANCELLED when the wake descriptor
 * became readable. */
int unary_end(struct call *c, const ProtobufCMessageDescriptor *answer_type, mono_t until,
              ProtobufCMessage **answer, struct hb_rpc_error *e) MUST_CHECK;

/* Both. */
int unary_call(struct peer *p, const char *method, const ProtobufCMessage *request,
               const ProtobufCMessageDescriptor *answer_type, mono_t until,
               ProtobufCMessage **answer, struct hb_rpc_error *e) MUST_CHECK;

#endif
