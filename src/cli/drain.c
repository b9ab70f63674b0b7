/* harbinger drain: nothing new comes in; --wait stays until what is there is done. */
#include "cli/cli.h"
#include "client/admin.h"

#include <inttypes.h>
#include <stdio.h>

#define LOOK_EVERY (500 * MONO_MS)

struct left {
    uint64_t waiting, in_flight;
};

/* Asking again changes nothing, and says what is left. */
static int ask(struct cli *c, struct left *out)
{
    HarbingerRpc__DrainResponse *r;
    struct hb_rpc_error e = {0};
    if (admin_drain(c->peer, &r, &e) != HB_RPC_OK)
        return cli_error(&e);
    *out = (struct left){r->waiting, r->in_flight};
    harbinger_rpc__drain_response__free_unpacked(r, NULL);
    return CLI_OK;
}

/* Progress is for people, so it goes where errors go. */
static int wait_for_it(struct cli *c, struct left *l)
{
    struct left told = {UINT64_MAX, UINT64_MAX};
    int code = CLI_OK;
    while (code == CLI_OK && (l->waiting > 0 || l->in_flight > 0)) {
        if (l->waiting != told.waiting || l->in_flight != told.in_flight)
            fprintf(stderr, "%" PRIu64 " waiting, %" PRIu64 " in flight\n", l->waiting,
                    l->in_flight);
        told = *l;
        peer_sleep(c->peer, LOOK_EVERY);
        code = ask(c, l);
    }
    return code;
}

int cli_drain(struct cli *c)
{
    struct left l = {0};
    int code = ask(c, &l);
    if (code == CLI_OK && c->wait)
        code = wait_for_it(c, &l);
    if (code != CLI_OK)
        return code;
    if (c->json)
        printf("{\"draining\": true, \"waiting\": %" PRIu64 ", \"in_flight\": %" PRIu64 "}\n",
               l.waiting, l.in_flight);
    else
        printf("draining: %" PRIu64 " waiting, %" PRIu64 " in flight\n", l.waiting, l.in_flight);
    return CLI_OK;
}
