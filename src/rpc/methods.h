/* What methods.c lists: one function per message of a method, and what follows the end of a stream. */
#ifndef HARBINGER_RPC_METHODS_H
#define HARBINGER_RPC_METHODS_H

#include "rpc/rpc_internal.h"

#define RPC_MESSAGE(name) void rpc_##name(struct rpc_call *c, const ProtobufCMessage *m)

/* submit.c, settle.c, admin.c, health.c; pull.c, work.c */
RPC_MESSAGE(register_producer);
RPC_MESSAGE(register_consumer);
RPC_MESSAGE(ack);
RPC_MESSAGE(nack);
RPC_MESSAGE(extend_lease);
RPC_MESSAGE(inspect_dlq);
RPC_MESSAGE(stats_now);
RPC_MESSAGE(redrive_dlq);
RPC_MESSAGE(purge_dlq);
RPC_MESSAGE(drain);
RPC_MESSAGE(health_check);
RPC_MESSAGE(health_watch);
RPC_MESSAGE(pull);
RPC_MESSAGE(work);
#undef RPC_MESSAGE
void rpc_submit_one(struct rpc_call *c, struct text body);
void rpc_submit_stream(struct rpc_call *c, struct text body);

void rpc_pull_gone(struct rpc_call *c);
void rpc_work_client_ended(struct rpc_call *c);
void rpc_work_gone(struct rpc_call *c);
void rpc_health_client_ended(struct rpc_call *c);
void rpc_health_gone(struct rpc_call *c);

#endif
