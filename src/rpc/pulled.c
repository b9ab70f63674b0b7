/* A delivery on its way to a consumer: PulledMessage, written by hand into the answer's buffer. */
#include "rpc/pb.h"
#include "rpc/rpc_internal.h"

#include <string.h>

void rpc_pulled_of(struct rpc_server *s, const struct hb_delivery *d, struct rpc_pulled *out)
{
    out->n_id = ids_print(s->station.instance, d->id, out->id);
    out->n_token = ids_print(s->station.instance, d->token, out->token);
    out->view = (struct rpc_view){d->payload, d->headers};
    if (d->owner != NULL && s->station.view != NULL)
        s->station.view(s->station.ctx, d->owner, &out->view);
    /* A lease below a millisecond is still a limit. */
    out->lease_ms = (uint64_t)((d->lease_ns + MONO_MS - 1) / MONO_MS);
}

size_t rpc_pulled_bytes(const struct rpc_pulled *p)
{
    size_t n = pb_field_bytes(p->n_id) + p->view.headers.n + pb_field_bytes(p->n_token);
    if (p->view.payload.n > 0)
        n += pb_field_bytes(p->view.payload.n);
    if (p->lease_ms > 0)
        n += 1 + pb_varint_bytes(p->lease_ms);
    return n;
}

uint8_t *rpc_pulled_put(uint8_t *at, const struct rpc_pulled *p)
{
    at = pb_put_field(at, PB_BYTES(1), p->id, p->n_id);
    if (p->view.payload.n > 0)
        at = pb_put_field(at, PB_BYTES(2), p->view.payload.p, p->view.payload.n);
    if (p->view.headers.n > 0)
        memcpy(at, p->view.headers.p, p->view.headers.n);
    at += p->view.headers.n;
    at = pb_put_field(at, PB_BYTES(4), p->token, p->n_token);
    if (p->lease_ms > 0) {
        *at++ = PB_VARINT(5);
        at = pb_put_varint(at, p->lease_ms);
    }
    return at;
}
