/* Dead letters, page by page, and how one is shown. */
#ifndef HARBINGER_CLI_DLQ_H
#define HARBINGER_CLI_DLQ_H

#include "cli/cli.h"
#include "rpc/harbinger.pb-c.h"

#include <jansson.h>

/* "max_retries", ... */
const char *dlq_reason(HarbingerRpc__DlqReason reason);

/* Asks for at most `limit` of them from `offset` on and calls `each`, until it says false. *total
 * is how many there are. An exit code. */
int dlq_walk(struct cli *c, uint64_t offset, uint64_t limit, uint64_t *total,
             bool (*each)(void *ctx, const HarbingerRpc__DlqEntry *d), void *ctx) MUST_CHECK;

/* NULL when memory is short. A payload that is no UTF-8 stands in "payload_hex". */
json_t *dlq_json(const HarbingerRpc__DlqEntry *d);

#endif
