#include "sidecar/demand.h"

static uint32_t wanted(const struct demand *d)
{
    uint64_t enough = d->window / d->per_worker + 1;
    if (d->slots >= enough)
        return d->window;
    uint32_t n = (uint32_t)d->slots * d->per_worker;
    return n < d->window ? n : d->window;
}

uint32_t demand_limit(struct demand *d, mono_t now)
{
    if (d->idle_after == 0)
        return d->window;
    if (d->slots > 0) {
        uint32_t n = wanted(d);
        d->worked_at = now;
        return n > d->limit || n <= d->limit / 2 ? n : d->limit;
    }
    bool patient = d->awaiting || now - d->worked_at < d->idle_after;
    return patient ? d->limit : 0;
}
