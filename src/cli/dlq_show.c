/* harbinger dlq show: one dead letter. There is no call for one, so the list is walked. */
#include "cli/dlq.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct search {
    const struct cli *cli;
    bool found, failed;
};

static void print_entry(const HarbingerRpc__DlqEntry *d)
{
    char age[32];
    cli_format_age(d->dlq_age_ms, age);
    printf("id        %s\nreason    %s\ndetails   ", d->message_id, dlq_reason(d->reason));
    cli_print_text(d->details, strlen(d->details), SIZE_MAX);
    printf("\nfailures  %" PRIu32 "\nage       %s\n", d->retry_count, age);
    for (size_t i = 0; i < d->n_headers; i++) {
        fputs("header    ", stdout);
        cli_print_text(d->headers[i]->key, strlen(d->headers[i]->key), SIZE_MAX);
        fputs(": ", stdout);
        cli_print_text(d->headers[i]->value, strlen(d->headers[i]->value), SIZE_MAX);
        puts("");
    }
    printf("payload   %zu bytes\n", d->payload.len);
    cli_print_text((const char *)d->payload.data, d->payload.len, SIZE_MAX);
    puts("");
}

static bool print_if_it(void *ctx, const HarbingerRpc__DlqEntry *d)
{
    struct search *s = ctx;
    if (strcmp(d->message_id, s->cli->id) != 0)
        return true;
    s->found = true;
    if (!s->cli->json) {
        print_entry(d);
        return false;
    }
    json_t *one = dlq_json(d);
    s->failed = one == NULL || json_dumpf(one, stdout, JSON_COMPACT) != 0;
    puts("");
    json_decref(one);
    return false;
}

int cli_dlq_show(struct cli *c)
{
    struct search s = {.cli = c};
    uint64_t total = 0;
    int code = dlq_walk(c, 0, UINT64_MAX, &total, print_if_it, &s);
    if (code != CLI_OK)
        return code;
    if (s.found)
        return s.failed ? CLI_FAILED : CLI_OK;
    fprintf(stderr, "harbinger: there is no dead letter '%s' at %s\n", c->id, c->client.address);
    return CLI_NOT_FOUND;
}
