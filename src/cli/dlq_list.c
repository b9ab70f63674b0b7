/* harbinger dlq list: a line for each dead letter. */
#include "cli/dlq.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_LIMIT 20
#define DETAILS_BYTES 60

struct listing {
    bool json, any;
};

static bool print_line(void *ctx, const HarbingerRpc__DlqEntry *d)
{
    struct listing *l = ctx;
    char age[32];
    if (l->json) {
        json_t *one = dlq_json(d);
        fputs(l->any ? ",\n" : "", stdout);
        l->any = true;
        bool done = one != NULL && json_dumpf(one, stdout, JSON_COMPACT) == 0;
        json_decref(one);
        return done;
    }
    if (!l->any)
        printf("%-28s %-16s %8s %10s %10s  %s\n", "id", "reason", "failures", "age", "bytes",
               "details");
    l->any = true;
    cli_format_age(d->dlq_age_ms, age);
    printf("%-28s %-16s %8" PRIu32 " %10s %10zu  ", d->message_id, dlq_reason(d->reason),
           d->retry_count, age, d->payload.len);
    cli_print_text(d->details, strlen(d->details), DETAILS_BYTES);
    puts("");
    return true;
}

int cli_dlq_list(struct cli *c)
{
    struct listing l = {.json = c->json};
    uint64_t total = 0;
    if (c->json)
        fputs("{\"entries\": [", stdout);
    int code =
        dlq_walk(c, c->offset, c->limited ? c->limit : DEFAULT_LIMIT, &total, print_line, &l);
    if (code != CLI_OK)
        return code;
    if (c->json)
        printf("], \"total\": %" PRIu64 "}\n", total);
    else
        printf("%s%" PRIu64 " dead letters in all\n", l.any ? "\n" : "", total);
    return CLI_OK;
}
