#include "rpc/submission.h"

#include "base/err.h"
#include "rpc/pb.h"
#include "rpc/service.h"

/* The fields of SubmitRequest and of a map's entry. */
enum { PRODUCER_ID = 1, PAYLOAD = 2, HEADERS = 3, TTL_MS = 4, KEY = 1, VALUE = 2 };

/* A field of another type than its own counts as unknown. Of a repeated one the last wins. */
static void take(struct submission *s, const struct pb_field *f)
{
    if (f->type == PB_TYPE_BYTES && f->number == PRODUCER_ID)
        s->producer = f->bytes;
    else if (f->type == PB_TYPE_BYTES && f->number == PAYLOAD)
        s->payload = f->bytes;
    else if (f->type == PB_TYPE_VARINT && f->number == TTL_MS) {
        s->has_ttl = true;
        s->ttl_ms = (int64_t)f->value;
    }
}

bool submission_read(struct text request, struct submission *out)
{
    struct pb_field f;
    enum pb_next next;
    *out = (struct submission){.producer = {"", 0}, .payload = {"", 0}};
    while ((next = pb_next_field(&request, &f)) == PB_FIELD)
        take(out, &f);
    return next == PB_END;
}

static bool read_entry(struct text entry, struct text *name, struct text *value)
{
    struct pb_field f;
    enum pb_next next;
    *name = *value = (struct text){"", 0};
    while ((next = pb_next_field(&entry, &f)) == PB_FIELD)
        if (f.type == PB_TYPE_BYTES && f.number == KEY)
            *name = f.bytes;
        else if (f.type == PB_TYPE_BYTES && f.number == VALUE)
            *value = f.bytes;
    return next == PB_END && rpc_is_utf8(*name) && rpc_is_utf8(*value);
}

int submission_headers(struct text request, struct text producer, struct buf *out)
{
    static const char by[] = SUBMISSION_PRODUCER;
    struct pb_field f;
    while (pb_next_field(&request, &f) == PB_FIELD) {
        struct text name, value;
        if (f.type != PB_TYPE_BYTES || f.number != HEADERS)
            continue;
        if (!read_entry(f.bytes, &name, &value))
            return ERR_INVALID;
        if (!text_equal(name, text_of(by)) && rpc_put_header(out, name, value) < 0)
            return ERR_NOMEM;
    }
    return rpc_put_header(out, text_of(by), producer);
}
