#include "sidecar/dispatch.h"

#include <stdlib.h>
#include <string.h>

struct dispatch *dispatch_new(struct list *all, struct held *h, const struct ticket *t)
{
    struct dispatch *d = malloc(sizeof *d + t->id.n + t->key.n);
    if (d == NULL)
        return NULL;
    *d = (struct dispatch){
        .held = h,
        .reason = t->reason,
        .level = t->level,
        .keep_priority = t->keep_priority,
        .n_id = t->id.n,
        .n_key = t->key.n,
    };
    memcpy(d->text, t->id.p, t->id.n);
    memcpy(d->text + t->id.n, t->key.p, t->key.n);
    list_init(&d->lane);
    d->parking = (struct parking_job){
        .held = h,
        .id = dispatch_id(d),
        .key = dispatch_key(d),
        .level_reason = t->reason,
        .level = t->level,
    };
    list_init(&d->parking.lane);
    list_push_back(all, &d->all);
    return d;
}

void dispatch_free(struct dispatch *d)
{
    list_remove(&d->lane);
    list_remove(&d->all);
    parking_forget(&d->parking);
    free(d);
}

void dispatch_settle(struct dispatch *d, enum held_settlement how)
{
    struct held *h = d->held;
    dispatch_free(d);
    held_settle(h, how);
}

void lane_put(struct list *lane, struct dispatch *d)
{
    list_remove(&d->lane);
    list_push_back(lane, &d->lane);
}

struct dispatch *lane_first(struct list *lane)
{
    struct list *node = list_first(lane);
    return node != NULL ? LIST_ENTRY(node, struct dispatch, lane) : NULL;
}

void lane_move_all(struct list *from, struct list *to)
{
    struct dispatch *d;
    while ((d = lane_first(from)) != NULL)
        lane_put(to, d);
}

size_t lane_count(const struct list *lane)
{
    size_t n = 0;
    for (const struct list *node = lane->next; node != lane; node = node->next)
        n++;
    return n;
}
