/* The calls of operators: what the command line asks. Each is one unary call with the default
 * deadline; HB_RPC_OK with *out to be freed by the protobuf function of its type, else *e is set. */
#ifndef HARBINGER_CLIENT_ADMIN_H
#define HARBINGER_CLIENT_ADMIN_H

#include "base/compiler.h"
#include "client/peer.h"
#include "rpc/harbinger.pb-c.h"

#include <stdbool.h>

int admin_stats(struct peer *p, HarbingerRpc__StatsResponse **out,
                struct hb_rpc_error *e) MUST_CHECK;
int admin_inspect(struct peer *p, int32_t limit, int32_t offset,
                  HarbingerRpc__InspectDlqResponse **out, struct hb_rpc_error *e) MUST_CHECK;
/* `id` empty: the oldest `limit` ones, 0 = all. */
int admin_redrive(struct peer *p, const char *id, uint32_t limit, uint64_t *n,
                  struct hb_rpc_error *e) MUST_CHECK;
/* `id` empty: all. */
int admin_purge(struct peer *p, const char *id, uint64_t *n, struct hb_rpc_error *e) MUST_CHECK;
int admin_drain(struct peer *p, HarbingerRpc__DrainResponse **out,
                struct hb_rpc_error *e) MUST_CHECK;
/* gRPC's own health service, of the server as a whole. */
int admin_health(struct peer *p, bool *serving, struct hb_rpc_error *e) MUST_CHECK;

#endif
