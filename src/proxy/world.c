#include "proxy/world.h"

#define TOP_BIT (UINT64_C(1) << 63)

void world_init(struct world *w, const struct proxy_options *o, const struct proxy_station *s)
{
    *w = (struct world){.options = *o, .station = *s};
    w->runtimes.seed = (struct hash_seed){o->seed[0], o->seed[1]};
    list_init(&w->ready);
    list_init(&w->returning);
    list_init(&w->dirty);
}

void world_fini(struct world *w)
{
    runtimes_fini(&w->runtimes);
}

uint64_t world_number(struct world *w)
{
    return TOP_BIT | ++w->n_numbers;
}
