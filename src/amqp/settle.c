#include "amqp/settle.h"

#include "base/err.h"

#include <stdlib.h>

int settle_init(struct settle *s, uint32_t n_slots)
{
    struct settle_slot *slots = calloc(n_slots, sizeof *slots);
    if (slots == NULL)
        return ERR_NOMEM;
    *s = (struct settle){.slots = slots, .n_slots = n_slots};
    settle_reset(s);
    return 0;
}

void settle_fini(struct settle *s)
{
    free(s->slots);
    *s = (struct settle){0};
}

void settle_reset(struct settle *s)
{
    list_init(&s->free);
    list_init(&s->held);
    list_init(&s->done);
    s->n_held = s->n_done = 0;
    s->covered = s->urgent = false;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        s->slots[i].tag = 0;
        s->slots[i].held = false;
        list_push_back(&s->free, &s->slots[i].node);
    }
}

static void move(struct settle_slot *slot, struct list *to)
{
    list_remove(&slot->node);
    list_push_back(to, &slot->node);
}

int settle_add(struct settle *s, uint64_t tag, uint32_t *slot)
{
    struct list *first = list_first(&s->free);
    if (first == NULL)
        return SETTLE_FULL;
    struct settle_slot *taken = LIST_ENTRY(first, struct settle_slot, node);
    taken->tag = tag;
    taken->held = true;
    move(taken, &s->held);
    s->n_held++;
    *slot = (uint32_t)(taken - s->slots);
    return 0;
}

int settle_decide(struct settle *s, uint32_t slot, uint64_t tag, enum settle_verdict verdict)
{
    if (slot >= s->n_slots || !s->slots[slot].held || s->slots[slot].tag != tag)
        return SETTLE_STALE;
    struct settle_slot *decided = &s->slots[slot];
    s->covered = false;
    decided->held = false;
    decided->verdict = verdict;
    s->n_held--;
    s->n_done++;
    s->urgent = s->urgent || verdict != SETTLE_ACK;
    list_remove(&decided->node);
    /* Nacks in front of acks; see settle_next. */
    if (verdict == SETTLE_ACK)
        list_push_back(&s->done, &decided->node);
    else
        list_push_front(&s->done, &decided->node);
    return 0;
}

static void release(struct settle *s, struct settle_slot *slot)
{
    slot->tag = 0;
    s->n_done--;
    move(slot, &s->free);
}

/* Makes one ack of all those that are older than every held delivery; false when there are none.
 * Each decision brings one such walk, so that a long list of uncovered acks is not walked for each
 * of them. */
static bool take_covered(struct settle *s, struct settle_frame *out)
{
    struct list *oldest = list_first(&s->held), *next;
    uint64_t limit =
        oldest != NULL ? LIST_ENTRY(oldest, struct settle_slot, node)->tag : UINT64_MAX;
    uint64_t highest = 0;
    for (struct list *at = s->done.next; at != &s->done; at = next) {
        struct settle_slot *slot = LIST_ENTRY(at, struct settle_slot, node);
        next = at->next;
        if (slot->tag >= limit)
            continue;
        highest = slot->tag > highest ? slot->tag : highest;
        release(s, slot);
    }
    s->covered = true;
    if (highest == 0)
        return false;
    *out = (struct settle_frame){.tag = highest, .multiple = true, .verdict = SETTLE_ACK};
    return true;
}

int settle_next(struct settle *s, struct settle_frame *out)
{
    struct list *first = list_first(&s->done);
    if (first == NULL) {
        s->urgent = false;
        return 0;
    }
    struct settle_slot *slot = LIST_ENTRY(first, struct settle_slot, node);
    *out = (struct settle_frame){.tag = slot->tag, .verdict = slot->verdict};
    if (slot->verdict != SETTLE_ACK) {
        release(s, slot);
        return 1;
    }
    if (!s->covered && take_covered(s, out))
        return 1;
    release(s, slot);
    return 1;
}
