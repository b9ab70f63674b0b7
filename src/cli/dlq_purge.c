/* harbinger dlq purge: dead letters go for good, when --yes says so. */
#include "cli/cli.h"
#include "client/admin.h"

#include <inttypes.h>
#include <stdio.h>

int cli_dlq_purge(struct cli *c)
{
    struct hb_rpc_error e;
    uint64_t n = 0;
    if ((c->id != NULL) + c->all != 1)
        return cli_usage(c, "say one of an id and --all");
    if (!c->yes)
        return cli_usage(c, "this cannot be undone: say --yes as well");
    if (admin_purge(c->peer, c->id != NULL ? c->id : "", &n, &e) != HB_RPC_OK)
        return cli_error(&e);
    printf("purged: %" PRIu64 "\n", n);
    return CLI_OK;
}
