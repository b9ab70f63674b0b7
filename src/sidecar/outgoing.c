#include "sidecar/outgoing.h"

static const struct text removed[] = {{"CC", 2}, {"BCC", 3}};

static struct header header_int32(const char *name, uint32_t value, char big_endian[4])
{
    for (int i = 0; i < 4; i++)
        big_endian[i] = (char)(value >> (24 - 8 * i));
    return (struct header){text_of(name), 'I', {big_endian, 4}};
}

int outgoing_props(const struct outgoing *o, enum outgoing_form form, struct buf *out)
{
    const struct props *props = &o->message->props;
    if (form == OUTGOING_RAW || props->opaque)
        return buf_append(out, props->raw.p, props->raw.n);

    struct header add[9];
    size_t n = 0;
    char level[4];
    struct text user_id = props_text(props, PROP_USER_ID);
    if (form == OUTGOING_WHOLE) {
        struct header cc;
        if (o->id.n > 0)
            add[n++] = header_text(OUTGOING_ID, o->id);
        if (o->key.n > 0)
            add[n++] = header_text(OUTGOING_KEY, o->key);
        if (o->reason != NULL) {
            add[n++] = header_int32(OUTGOING_LEVEL, o->level, level);
            add[n++] = header_text(OUTGOING_REASON, text_of(o->reason));
        }
        if (o->add_address) {
            add[n++] = header_text(OUTGOING_EXCHANGE, o->message->exchange);
            add[n++] = header_text(OUTGOING_ROUTING_KEY, o->message->routing_key);
        }
        if (!o->impersonate && user_id.p != NULL)
            add[n++] = header_text(OUTGOING_USER_ID, user_id);
        if (props_header(props, removed[0], &cc)) {
            cc.name = text_of(OUTGOING_CC);
            add[n++] = cc;
        }
        if (o->parked_reason != NULL)
            add[n++] = header_text(OUTGOING_PARKED_REASON, text_of(o->parked_reason));
    }
    struct props_edit edit = {
        .priority = o->priority,
        .drop_user_id = !o->impersonate && user_id.p != NULL,
        .strip_prefix = text_of(OUTGOING_PREFIX),
        .strip = removed,
        .n_strip = ARRAY_SIZE(removed),
        .add = add,
        .n_add = n,
    };
    return props_edit(props, &edit, out);
}

static int publish_as(struct publisher *p, const struct outgoing *o,
                      const struct outgoing_target *to, struct buf *scratch,
                      enum outgoing_form form)
{
    buf_reset(scratch);
    int r = outgoing_props(o, form, scratch);
    if (r < 0)
        return r;
    bool has_id = form == OUTGOING_WHOLE && !o->message->props.opaque && o->id.n > 0;
    struct publish what = {
        .exchange = to->exchange,
        .routing_key = to->routing_key,
        .props = {scratch->p, scratch->n},
        .body = o->message->body,
        .token = has_id ? o->id : (struct text){NULL, 0},
        .cookie = to->cookie,
    };
    return publisher_publish(p, &what);
}

int outgoing_publish(struct publisher *p, const struct outgoing *o,
                     const struct outgoing_target *to, struct buf *scratch,
                     enum outgoing_form *form)
{
    int r = PUBLISHER_TOO_BIG;
    for (int f = OUTGOING_WHOLE; f < OUTGOING_N_FORMS && r == PUBLISHER_TOO_BIG; f++) {
        *form = (enum outgoing_form)f;
        r = publish_as(p, o, to, scratch, *form);
    }
    return r;
}
