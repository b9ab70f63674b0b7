#include "sidecar/lesson.h"

#include <stdint.h>
#include <string.h>

/* The key follows. */
struct head {
    double estimate_ms;
    uint16_t n_parent;
    uint8_t level;
    bool predicted;
};

_Static_assert(sizeof(struct head) + HB_KEY_MAX <= LESSON_BYTES,
               "a lesson of the longest key fits");

size_t lesson_pack(const struct hb_lesson *l, char out[LESSON_BYTES])
{
    struct head head = {l->estimate_ms, (uint16_t)l->parent.n, (uint8_t)l->level, l->predicted};
    if (l->key.n == 0 || l->key.n > HB_KEY_MAX)
        return 0;
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, l->key.p, l->key.n);
    return sizeof head + l->key.n;
}

bool lesson_unpack(struct text packed, struct hb_lesson *out)
{
    struct head head;
    if (packed.n <= sizeof head || packed.n > LESSON_BYTES)
        return false;
    memcpy(&head, packed.p, sizeof head);
    struct hb_key key = {packed.p + sizeof head, packed.n - sizeof head};
    if (head.n_parent > key.n)
        return false;
    *out = (struct hb_lesson){
        .key = key,
        .parent = {head.n_parent > 0 ? key.p : NULL, head.n_parent},
        .predicted = head.predicted,
        .level = head.level,
        .estimate_ms = head.estimate_ms,
    };
    return true;
}
