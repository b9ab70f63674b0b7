/* harbinger dlq redrive: dead letters live again. */
#include "cli/cli.h"
#include "client/admin.h"

#include <inttypes.h>
#include <stdio.h>

int cli_dlq_redrive(struct cli *c)
{
    struct hb_rpc_error e;
    uint64_t n = 0;
    if ((c->id != NULL) + c->all + c->limited != 1)
        return cli_usage(c, "say one of an id, --all and --limit");
    if (admin_redrive(c->peer, c->id != NULL ? c->id : "", c->limited ? c->limit : 0, &n, &e) !=
        HB_RPC_OK)
        return cli_error(&e);
    printf("redriven: %" PRIu64 "\n", n);
    return CLI_OK;
}
