/*
 * The bounded table of keys: find by bytes, and a list in order of activity.
 *
 * A key lives in a numbered slot from insertion to removal; slots lie in chunks that are allocated
 * as they are needed and stay. What a prediction reads is in the entry, one cache line for keys of
 * up to KEYTABLE_INLINE bytes; the histograms lie apart. The list is kept beside the entries, so
 * that moving a key to its front touches no other key's entry.
 *
 * Invariants: at most `max` keys; every key is in the index exactly once and reachable from its
 * home without a gap; the list holds every key once, in order of falling last_active_at.
 */
#ifndef HARBINGER_PREDICT_KEYTABLE_H
#define HARBINGER_PREDICT_KEYTABLE_H

#include "base/hash.h"
#include "harbinger/predictor.h"
#include "predict/histogram.h"

#define KEYTABLE_NONE   UINT32_MAX
#define KEYTABLE_INLINE 40 /* bytes of a key that lie in its entry */

#define KEYTABLE_NO_LEVEL 255 /* HB_LEVELS_MAX levels end at 254 */

struct keytable_entry {
    mono_t last_active_at;
    double estimate_ms; /* with `verdict`: what the history says; current unless `changed` */
    uint32_t hash;      /* low half: where it lies in the index */
    uint8_t n_key_less_one;
    uint8_t remembered_level;
    uint8_t verdict; /* an enum hb_reason */
    bool changed;    /* the history has moved on since estimate and verdict were computed */
    union {
        char near[KEYTABLE_INLINE];
        char *far; /* a longer key, owned */
    } key;
};

_Static_assert(sizeof(struct keytable_entry) == 64, "an entry is one cache line");

struct keytable;

/* NULL when memory is short. Borrows the layout. */
struct keytable *keytable_new(uint32_t max, const struct hash_seed *seed,
                              const struct histogram_layout *layout);
void keytable_free(struct keytable *t);

/* The key's slot, or KEYTABLE_NONE. The key has 1..HB_KEY_MAX bytes here and below. */
uint32_t keytable_find(const struct keytable *t, struct hb_key key);

/* Adds a key that is not there, as the most recent one, with an empty history. The table is not
 * full. KEYTABLE_NONE when memory is short. */
uint32_t keytable_insert(struct keytable *t, struct hb_key key, mono_t now);

void keytable_remove(struct keytable *t, uint32_t slot);

/* Makes it the most recent, or the least recent, of all. */
void keytable_move_to_front(struct keytable *t, uint32_t slot);
void keytable_move_to_back(struct keytable *t, uint32_t slot);

/* Valid until the key is removed. */
struct keytable_entry *keytable_entry(const struct keytable *t, uint32_t slot);
struct histogram *keytable_history(const struct keytable *t, uint32_t slot);
struct hb_key keytable_key(const struct keytable_entry *e);

/* The most and the least recently active, and the next less recent; KEYTABLE_NONE at the end. */
uint32_t keytable_newest(const struct keytable *t);
uint32_t keytable_oldest(const struct keytable *t);
uint32_t keytable_next_older(const struct keytable *t, uint32_t slot);

uint32_t keytable_count(const struct keytable *t);
bool keytable_full(const struct keytable *t);
uint64_t keytable_bytes(const struct keytable *t);

/* NULL, or words for the first broken invariant. */
const char *keytable_check(const struct keytable *t);

#endif
