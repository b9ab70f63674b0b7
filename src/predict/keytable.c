#include "predict/keytable.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BITS = 8, CHUNK_SLOTS = 1 << CHUNK_BITS, LINE = 64 };

/* Open addressing with linear probing, at most half full. A cell is a slot and, above it, the high
 * bits of the hash, so that few misses need a look at an entry; CELL_FREE = none. */
typedef uint32_t cell_t;

enum { SLOT_BITS = 24, TAG_SHIFT = 32 + SLOT_BITS };

#define SLOT_MASK ((UINT32_C(1) << SLOT_BITS) - 1)
#define CELL_FREE UINT32_MAX

struct link {
    uint32_t newer, older;
};

struct chunk {
    struct keytable_entry *entries;
    char *histories;
};

struct keytable {
    struct hash_seed seed;
    const struct histogram_layout *layout;
    cell_t *index;
    uint32_t index_mask;
    uint32_t max, count;
    uint32_t n_used; /* slots ever used: those beyond have never been touched */
    uint32_t n_chunks;
    uint32_t free; /* chained through link.older */
    uint32_t newest, oldest;
    struct link *links;
    struct chunk *chunks; /* room for all */
    uint64_t far_bytes;   /* in keys that are not inline */
};

static uint32_t chunks_for(uint32_t max)
{
    return (max + CHUNK_SLOTS - 1) >> CHUNK_BITS;
}

struct keytable *keytable_new(uint32_t max, const struct hash_seed *seed,
                              const struct histogram_layout *layout)
{
    struct keytable *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    uint32_t cells = 16;
    while (cells < 2 * max)
        cells *= 2;
    t->seed = *seed;
    t->layout = layout;
    t->index_mask = cells - 1;
    t->max = max;
    t->free = t->newest = t->oldest = KEYTABLE_NONE;
    t->index = malloc(cells * sizeof *t->index);
    t->links = calloc(max, sizeof *t->links);
    t->chunks = calloc(chunks_for(max), sizeof *t->chunks);
    if (t->index == NULL || t->links == NULL || t->chunks == NULL) {
        keytable_free(t);
        return NULL;
    }
    memset(t->index, 0xff, cells * sizeof *t->index);
    return t;
}

static void key_fini(struct keytable *t, struct keytable_entry *e)
{
    struct hb_key key = keytable_key(e);
    if (key.n <= KEYTABLE_INLINE)
        return;
    t->far_bytes -= key.n;
    free(e->key.far);
}

void keytable_free(struct keytable *t)
{
    if (t == NULL)
        return;
    for (uint32_t s = t->newest; s != KEYTABLE_NONE; s = t->links[s].older)
        key_fini(t, keytable_entry(t, s));
    for (uint32_t i = 0; t->chunks != NULL && i < t->n_chunks; i++) {
        free(t->chunks[i].entries);
        free(t->chunks[i].histories);
    }
    free(t->chunks);
    free(t->links);
    free(t->index);
    free(t);
}

struct keytable_entry *keytable_entry(const struct keytable *t, uint32_t slot)
{
    return &t->chunks[slot >> CHUNK_BITS].entries[slot & (CHUNK_SLOTS - 1)];
}

struct histogram *keytable_history(const struct keytable *t, uint32_t slot)
{
    char *at = t->chunks[slot >> CHUNK_BITS].histories;
    return (struct histogram *)(void *)(at + (slot & (CHUNK_SLOTS - 1)) * t->layout->bytes);
}

struct hb_key keytable_key(const struct keytable_entry *e)
{
    size_t n = (size_t)e->n_key_less_one + 1;
    return (struct hb_key){n <= KEYTABLE_INLINE ? e->key.near : e->key.far, n};
}

static bool entry_is(const struct keytable_entry *e, uint64_t hash, struct hb_key key)
{
    return e->hash == (uint32_t)hash && e->n_key_less_one == key.n - 1 &&
           memcmp(keytable_key(e).p, key.p, key.n) == 0;
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> TAG_SHIFT) << SLOT_BITS;
}

uint32_t keytable_find(const struct keytable *t, struct hb_key key)
{
    uint64_t hash = hash_bytes(&t->seed, key.p, key.n);
    for (uint32_t i = (uint32_t)hash & t->index_mask;; i = (i + 1) & t->index_mask) {
        cell_t c = t->index[i];
        if (c == CELL_FREE)
            return KEYTABLE_NONE;
        uint32_t slot = c & SLOT_MASK;
        if ((c & ~SLOT_MASK) == tag_of(hash) && entry_is(keytable_entry(t, slot), hash, key))
            return slot;
    }
}

static void index_add(struct keytable *t, uint64_t hash, uint32_t slot)
{
    uint32_t i = (uint32_t)hash & t->index_mask;
    while (t->index[i] != CELL_FREE)
        i = (i + 1) & t->index_mask;
    t->index[i] = tag_of(hash) | slot;
}

/* Closes the gap: each cell of the run that follows moves back if its home allows it. */
static void index_remove(struct keytable *t, uint32_t slot)
{
    uint32_t mask = t->index_mask, gap = keytable_entry(t, slot)->hash & mask;
    while (t->index[gap] == CELL_FREE || (t->index[gap] & SLOT_MASK) != slot)
        gap = (gap + 1) & mask;
    for (uint32_t i = (gap + 1) & mask; t->index[i] != CELL_FREE; i = (i + 1) & mask) {
        uint32_t home = keytable_entry(t, t->index[i] & SLOT_MASK)->hash & mask;
        if (((i - home) & mask) < ((i - gap) & mask))
            continue;
        t->index[gap] = t->index[i];
        gap = i;
    }
    t->index[gap] = CELL_FREE;
}

static void list_unlink(struct keytable *t, uint32_t slot)
{
    struct link l = t->links[slot];
    *(l.newer == KEYTABLE_NONE ? &t->newest : &t->links[l.newer].older) = l.older;
    *(l.older == KEYTABLE_NONE ? &t->oldest : &t->links[l.older].newer) = l.newer;
}

static void list_add_front(struct keytable *t, uint32_t slot)
{
    t->links[slot] = (struct link){KEYTABLE_NONE, t->newest};
    *(t->newest == KEYTABLE_NONE ? &t->oldest : &t->links[t->newest].newer) = slot;
    t->newest = slot;
}

static void list_add_back(struct keytable *t, uint32_t slot)
{
    t->links[slot] = (struct link){t->oldest, KEYTABLE_NONE};
    *(t->oldest == KEYTABLE_NONE ? &t->newest : &t->links[t->oldest].older) = slot;
    t->oldest = slot;
}

void keytable_move_to_front(struct keytable *t, uint32_t slot)
{
    if (t->newest == slot)
        return;
    list_unlink(t, slot);
    list_add_front(t, slot);
}

void keytable_move_to_back(struct keytable *t, uint32_t slot)
{
    list_unlink(t, slot);
    list_add_back(t, slot);
}

static bool chunk_add(struct keytable *t)
{
    struct chunk c = {
        .entries = aligned_alloc(LINE, CHUNK_SLOTS * sizeof *c.entries),
        .histories = aligned_alloc(LINE, CHUNK_SLOTS * t->layout->bytes),
    };
    if (c.entries == NULL || c.histories == NULL) {
        free(c.entries);
        free(c.histories);
        return false;
    }
    t->chunks[t->n_chunks++] = c;
    return true;
}

/* A slot that holds nothing, KEYTABLE_NONE when memory is short. */
static uint32_t slot_take(struct keytable *t)
{
    uint32_t slot = t->free;
    if (slot != KEYTABLE_NONE) {
        t->free = t->links[slot].older;
        return slot;
    }
    if (t->n_used >> CHUNK_BITS == t->n_chunks && !chunk_add(t))
        return KEYTABLE_NONE;
    return t->n_used++;
}

static void slot_give(struct keytable *t, uint32_t slot)
{
    t->links[slot].older = t->free;
    t->free = slot;
}

static bool key_init(struct keytable *t, struct keytable_entry *e, struct hb_key key)
{
    e->n_key_less_one = (uint8_t)(key.n - 1);
    if (key.n <= KEYTABLE_INLINE) {
        memcpy(e->key.near, key.p, key.n);
        return true;
    }
    e->key.far = malloc(key.n);
    if (e->key.far == NULL)
        return false;
    memcpy(e->key.far, key.p, key.n);
    t->far_bytes += key.n;
    return true;
}

uint32_t keytable_insert(struct keytable *t, struct hb_key key, mono_t now)
{
    assert(t->count < t->max && key.n > 0 && key.n <= HB_KEY_MAX);
    uint32_t slot = slot_take(t);
    if (slot == KEYTABLE_NONE)
        return KEYTABLE_NONE;
    uint64_t hash = hash_bytes(&t->seed, key.p, key.n);
    struct keytable_entry *e = keytable_entry(t, slot);
    *e = (struct keytable_entry){
        .hash = (uint32_t)hash,
        .last_active_at = now,
        .remembered_level = KEYTABLE_NO_LEVEL,
        .verdict = HB_COLD_KEY,
    };
    if (!key_init(t, e, key)) {
        slot_give(t, slot);
        return KEYTABLE_NONE;
    }
    histogram_init(t->layout, keytable_history(t, slot), now);
    index_add(t, hash, slot);
    list_add_front(t, slot);
    t->count++;
    return slot;
}

void keytable_remove(struct keytable *t, uint32_t slot)
{
    struct keytable_entry *e = keytable_entry(t, slot);
    index_remove(t, slot);
    list_unlink(t, slot);
    key_fini(t, e);
    slot_give(t, slot);
    t->count--;
}

uint32_t keytable_newest(const struct keytable *t)
{
    return t->newest;
}

uint32_t keytable_oldest(const struct keytable *t)
{
    return t->oldest;
}

uint32_t keytable_next_older(const struct keytable *t, uint32_t slot)
{
    return t->links[slot].older;
}

uint32_t keytable_count(const struct keytable *t)
{
    return t->count;
}

bool keytable_full(const struct keytable *t)
{
    return t->count == t->max;
}

uint64_t keytable_bytes(const struct keytable *t)
{
    uint64_t fixed = sizeof *t + ((uint64_t)t->index_mask + 1) * sizeof *t->index +
                     t->max * sizeof *t->links + chunks_for(t->max) * sizeof *t->chunks;
    uint64_t per_slot = sizeof(struct keytable_entry) + t->layout->bytes;
    return fixed + (uint64_t)t->n_chunks * CHUNK_SLOTS * per_slot + t->far_bytes;
}

static const char *check_list(const struct keytable *t)
{
    uint32_t n = 0, newer = KEYTABLE_NONE;
    for (uint32_t s = t->newest; s != KEYTABLE_NONE; newer = s, s = t->links[s].older) {
        if (++n > t->count)
            return "the activity list is longer than the number of keys";
        if (t->links[s].newer != newer)
            return "the activity list is not linked both ways";
        if (newer != KEYTABLE_NONE &&
            keytable_entry(t, newer)->last_active_at < keytable_entry(t, s)->last_active_at)
            return "the activity list is out of order";
    }
    if (n != t->count || t->oldest != newer)
        return "the activity list misses keys";
    return NULL;
}

static const char *check_index(const struct keytable *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= t->index_mask; i++)
        n += t->index[i] != CELL_FREE;
    if (n != t->count)
        return "the index holds another number of keys than the table";
    for (uint32_t s = t->newest; s != KEYTABLE_NONE; s = t->links[s].older)
        if (keytable_find(t, keytable_key(keytable_entry(t, s))) != s)
            return "a key is not found where it lies";
    return NULL;
}

const char *keytable_check(const struct keytable *t)
{
    if (t->count > t->max)
        return "more keys than the limit";
    const char *why = check_list(t);
    return why != NULL ? why : check_index(t);
}
