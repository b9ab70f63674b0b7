#include "amqp/confirms.h"

#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

static struct confirm *slot_of(const struct confirms *c, uint64_t tag)
{
    return &c->slots[tag & c->mask];
}

int confirms_init(struct confirms *c, uint32_t max_open, uint64_t max_bytes)
{
    if (max_open == 0 || max_open > UINT32_C(1) << 24)
        return ERR_INVALID;
    /* Twice the window: a slow oldest tag does not stop the ones behind it at once. */
    uint32_t size = 2;
    while (size < 2 * max_open)
        size *= 2;
    struct confirm *slots = calloc(size, sizeof *slots);
    if (slots == NULL)
        return ERR_NOMEM;
    *c = (struct confirms){
        .slots = slots, .mask = size - 1, .max_open = max_open, .max_bytes = max_bytes};
    confirms_reset(c);
    return 0;
}

void confirms_fini(struct confirms *c)
{
    free(c->slots);
    *c = (struct confirms){0};
}

void confirms_reset(struct confirms *c)
{
    c->first = c->next = 1;
    c->n_open = 0;
    c->open_bytes = 0;
}

bool confirms_has_room(const struct confirms *c, uint64_t bytes)
{
    if (c->n_open == 0)
        return true;
    return c->n_open < c->max_open && c->next - c->first <= c->mask &&
           c->open_bytes < c->max_bytes && bytes <= c->max_bytes - c->open_bytes;
}

int confirms_add(struct confirms *c, const struct confirm *what)
{
    if (!confirms_has_room(c, what->bytes))
        return CONFIRMS_FULL;
    struct confirm *s = slot_of(c, c->next++);
    *s = *what;
    s->open = true;
    c->n_open++;
    c->open_bytes += what->bytes;
    return 0;
}

static void close_slot(struct confirms *c, uint64_t tag, struct confirm *out)
{
    struct confirm *s = slot_of(c, tag);
    assert(s->open && c->n_open > 0);
    s->open = false;
    c->n_open--;
    c->open_bytes -= s->bytes;
    *out = *s;
    while (c->first < c->next && !slot_of(c, c->first)->open)
        c->first++;
}

int confirms_take(struct confirms *c, uint64_t tag, bool multiple, struct confirm *out)
{
    if (multiple) {
        /* `first` is always open, or there is nothing open at all. */
        if (c->first == c->next || (tag != 0 && c->first > tag))
            return CONFIRMS_NONE;
        close_slot(c, c->first, out);
        return 0;
    }
    if (tag < c->first || tag >= c->next || !slot_of(c, tag)->open)
        return CONFIRMS_NONE;
    close_slot(c, tag, out);
    return 0;
}

int confirms_take_key(struct confirms *c, uint64_t key, struct confirm *out)
{
    for (uint64_t tag = c->first; tag < c->next; tag++) {
        const struct confirm *s = slot_of(c, tag);
        if (s->open && (s->key == key || c->n_open == 1)) {
            close_slot(c, tag, out);
            return 0;
        }
    }
    return CONFIRMS_NONE;
}

bool confirms_is_unknown(const struct confirms *c, uint64_t tag)
{
    return tag >= c->next;
}

uint64_t confirms_oldest(const struct confirms *c)
{
    return c->first < c->next ? c->first : 0;
}
