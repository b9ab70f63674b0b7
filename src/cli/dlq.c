#include "cli/dlq.h"

#include "client/admin.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 100 /* what the server gives at most */

const char *dlq_reason(HarbingerRpc__DlqReason reason)
{
    switch (reason) {
    case HARBINGER_RPC__DLQ_REASON__DLQ_MAX_RETRIES_EXCEEDED: return "max_retries";
    case HARBINGER_RPC__DLQ_REASON__DLQ_TTL_EXPIRED: return "ttl_expired";
    case HARBINGER_RPC__DLQ_REASON__DLQ_PROCESSING_ERROR: return "processing_error";
    default: return "unknown";
    }
}

int dlq_walk(struct cli *c, uint64_t offset, uint64_t limit, uint64_t *total,
             bool (*each)(void *ctx, const HarbingerRpc__DlqEntry *d), void *ctx)
{
    bool more = true;
    while (more && limit > 0 && offset <= INT32_MAX) {
        HarbingerRpc__InspectDlqResponse *page;
        struct hb_rpc_error e;
        int32_t n = limit < PAGE ? (int32_t)limit : PAGE;
        if (admin_inspect(c->peer, n, (int32_t)offset, &page, &e) != HB_RPC_OK)
            return cli_error(&e);
        *total = page->total_size;
        for (size_t i = 0; i < page->n_entries && more; i++)
            more = each(ctx, page->entries[i]);
        /* An answer may be cut short by its size: only one without entries is the end. */
        more = more && page->n_entries > 0;
        offset += page->n_entries;
        limit -= page->n_entries < limit ? page->n_entries : limit;
        harbinger_rpc__inspect_dlq_response__free_unpacked(page, NULL);
    }
    return CLI_OK;
}

static json_t *hex_of(const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(2 * n + 1);
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[p[i] >> 4];
        text[2 * i + 1] = digits[p[i] & 15];
    }
    json_t *out = json_stringn(text, 2 * n);
    free(text);
    return out;
}

/* Text that should be UTF-8; what is not is shown as '?', byte by byte beyond ASCII. */
static json_t *loose_text(const char *text)
{
    json_t *out = json_string(text);
    char *plain = out == NULL ? strdup(text) : NULL;
    if (plain == NULL)
        return out;
    for (char *p = plain; *p != '\0'; p++)
        *p = (unsigned char)*p < 0x80 ? *p : '?';
    out = json_string(plain);
    free(plain);
    return out;
}

json_t *dlq_json(const HarbingerRpc__DlqEntry *d)
{
    json_t *headers = json_object();
    for (size_t i = 0; i < d->n_headers; i++) {
        json_t *name = loose_text(d->headers[i]->key);
        if (name != NULL)
            json_object_set_new(headers, json_string_value(name), loose_text(d->headers[i]->value));
        json_decref(name);
    }
    json_t *out = json_pack("{s:o, s:s, s:o, s:I, s:I, s:o}", "id", loose_text(d->message_id),
                            "reason", dlq_reason(d->reason), "details", loose_text(d->details),
                            "failures", (json_int_t)d->retry_count, "age_ms",
                            (json_int_t)d->dlq_age_ms, "headers", headers);
    json_t *text = json_stringn((const char *)d->payload.data, d->payload.len);
    if (text != NULL)
        json_object_set_new(out, "payload", text);
    else
        json_object_set_new(out, "payload_hex", hex_of(d->payload.data, d->payload.len));
    return out;
}
