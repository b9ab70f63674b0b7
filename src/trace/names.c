#include "trace/names.h"

#include "base/err.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { BLOCK_BYTES = 64 * 1024 };

/* Texts never move: a growing table only gets further blocks. */
struct names_block {
    struct names_block *before;
    size_t n;
    char bytes[BLOCK_BYTES];
};

void names_init(struct names *t)
{
    *t = (struct names){0};
    /* Texts come from files of others: nobody can prepare ones that collide. Without random bytes
     * yet, at boot, the fixed seed does. */
    if (getrandom(&t->seed, sizeof t->seed, GRND_NONBLOCK) != (ssize_t)sizeof t->seed)
        t->seed = (struct hash_seed){0};
}

void names_fini(struct names *t)
{
    while (t->blocks != NULL) {
        struct names_block *b = t->blocks;
        t->blocks = b->before;
        free(b);
    }
    free(t->texts);
    free(t->slots);
    *t = (struct names){0};
}

bool names_valid(struct text name)
{
    if (name.n < 1 || name.n > TRACE_NAME_BYTES)
        return false;
    for (size_t i = 0; i < name.n; i++)
        if ((unsigned char)name.p[i] < 0x20 || name.p[i] == 0x7f)
            return false;
    return true;
}

/* The slot where the text is, or would be put. There must be slots. */
static uint32_t slot_of(const struct names *t, struct text name)
{
    uint32_t i = (uint32_t)hash_bytes(&t->seed, name.p, name.n) & (t->n_slots - 1);
    while (t->slots[i] != 0 && !text_equal(t->texts[t->slots[i] - 1], name))
        i = (i + 1) & (t->n_slots - 1);
    return i;
}

uint32_t names_find(const struct names *t, struct text name)
{
    if (t->n == 0)
        return UINT32_MAX;
    uint32_t at = t->slots[slot_of(t, name)];
    return at == 0 ? UINT32_MAX : at - 1;
}

/* Room for one text more in both arrays. */
static int grow(struct names *t)
{
    if (t->n == t->cap) {
        uint32_t cap = t->cap > 0 ? 2 * t->cap : 64;
        struct text *texts = realloc(t->texts, cap * sizeof *texts);
        if (texts == NULL)
            return ERR_NOMEM;
        t->texts = texts;
        t->cap = cap;
    }
    if (2 * (t->n + 1) <= t->n_slots)
        return 0;
    uint32_t n_slots = t->n_slots > 0 ? 2 * t->n_slots : 256;
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (slots == NULL)
        return ERR_NOMEM;
    free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    for (uint32_t i = 0; i < t->n; i++)
        t->slots[slot_of(t, t->texts[i])] = i + 1;
    return 0;
}

static char *keep(struct names *t, struct text name)
{
    if (t->blocks == NULL || BLOCK_BYTES - t->blocks->n < name.n) {
        struct names_block *b = malloc(sizeof *b);
        if (b == NULL)
            return NULL;
        b->before = t->blocks;
        b->n = 0;
        t->blocks = b;
    }
    char *p = t->blocks->bytes + t->blocks->n;
    memcpy(p, name.p, name.n);
    t->blocks->n += name.n;
    return p;
}

int names_add(struct names *t, struct text name, uint32_t *out, bool *is_new)
{
    uint32_t at = names_find(t, name);
    if (is_new != NULL)
        *is_new = at == UINT32_MAX;
    if (at != UINT32_MAX) {
        *out = at;
        return 0;
    }
    if (!names_valid(name) || t->n >= TRACE_MAX_NAMES)
        return ERR_INVALID;
    if (grow(t) < 0)
        return ERR_NOMEM;
    char *p = keep(t, name);
    if (p == NULL)
        return ERR_NOMEM;
    t->slots[slot_of(t, name)] = t->n + 1;
    t->texts[t->n] = (struct text){p, name.n};
    *out = t->n++;
    return 0;
}
