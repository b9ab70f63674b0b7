#include "broker/inflight.h"

#include <stdlib.h>

enum { SLAB_ATTEMPTS = 64, FIRST_BUCKET_BITS = 6, BUCKET_BITS_MAX = 30 };

struct attempt_slab {
    struct attempt_slab *next;
    struct attempt attempts[SLAB_ATTEMPTS];
};

/* An odd multiplier that the seed has a part in: whoever chooses which deliveries to hold does not
 * know which of them meet in a bucket. */
static struct attempt **bucket(const struct inflight *f, uint64_t id)
{
    uint64_t hash = id * (UINT64_C(0x9e3779b97f4a7c15) ^ (f->seed << 1));
    return &f->buckets[hash >> (64 - f->bucket_bits)];
}

bool inflight_init(struct inflight *f, uint64_t seed)
{
    *f = (struct inflight){.bucket_bits = FIRST_BUCKET_BITS, .seed = seed};
    list_init(&f->by_deadline);
    list_init(&f->unleased);
    f->buckets = calloc((size_t)1 << f->bucket_bits, sizeof(struct attempt *));
    return f->buckets != NULL;
}

void inflight_fini(struct inflight *f)
{
    while (f->slabs != NULL) {
        struct attempt_slab *slab = f->slabs;
        f->slabs = slab->next;
        free(slab);
    }
    free(f->buckets);
    *f = (struct inflight){0};
}

bool inflight_reserve(struct inflight *f)
{
    if (f->unused != NULL)
        return true;
    struct attempt_slab *slab = malloc(sizeof *slab);
    if (slab == NULL)
        return false;
    slab->next = f->slabs;
    f->slabs = slab;
    for (int i = SLAB_ATTEMPTS - 1; i >= 0; i--) {
        slab->attempts[i].next = f->unused;
        f->unused = &slab->attempts[i];
    }
    return true;
}

/* Twice as many buckets; without memory the chains just stay longer. */
static void grow(struct inflight *f)
{
    struct inflight larger = *f;
    larger.bucket_bits++;
    larger.buckets = calloc((size_t)1 << larger.bucket_bits, sizeof(struct attempt *));
    if (larger.buckets == NULL)
        return;
    for (size_t i = 0; i < (size_t)1 << f->bucket_bits; i++) {
        while (f->buckets[i] != NULL) {
            struct attempt *a = f->buckets[i], **to = bucket(&larger, a->id);
            f->buckets[i] = a->next;
            a->next = *to;
            *to = a;
        }
    }
    free(f->buckets);
    f->buckets = larger.buckets;
    f->bucket_bits = larger.bucket_bits;
}

static void enlist(struct inflight *f, struct attempt *a, mono_t deadline)
{
    a->deadline = deadline;
    list_push_back(deadline != MONO_NEVER ? &f->by_deadline : &f->unleased, &a->link);
}

struct attempt *inflight_add(struct inflight *f, struct hb_message *m, mono_t deadline)
{
    if (f->n >= (size_t)1 << f->bucket_bits && f->bucket_bits < BUCKET_BITS_MAX)
        grow(f);
    struct attempt *a = f->unused, **b = bucket(f, m->id);
    f->unused = a->next;
    a->m = m;
    a->id = m->id;
    a->next = *b;
    *b = a;
    enlist(f, a, deadline);
    f->n++;
    return a;
}

struct attempt *inflight_find(const struct inflight *f, uint64_t id)
{
    struct attempt *a = *bucket(f, id);
    while (a != NULL && a->id != id)
        a = a->next;
    return a;
}

void inflight_remove(struct inflight *f, struct attempt *a)
{
    struct attempt **b = bucket(f, a->id);
    while (*b != a)
        b = &(*b)->next;
    *b = a->next;
    list_remove(&a->link);
    a->next = f->unused;
    f->unused = a;
    f->n--;
}

void inflight_renew(struct inflight *f, struct attempt *a, mono_t deadline)
{
    list_remove(&a->link);
    enlist(f, a, deadline);
}

struct attempt *inflight_any(struct inflight *f)
{
    struct list *first = list_first(&f->unleased);
    return first != NULL ? LIST_ENTRY(first, struct attempt, link) : inflight_first(f);
}

static const char *check_list(const struct inflight *f, const struct list *head, size_t *n)
{
    mono_t before = INT64_MIN;
    for (const struct list *node = head->next; node != head; node = node->next, (*n)++) {
        const struct attempt *a = (const struct attempt *)node;
        if (inflight_find(f, a->id) != a)
            return "a delivery is not found by its message's id";
        if (a->m->id != a->id || a->m->state != RECORD_IN_FLIGHT || a->m->ttl_slot != 0)
            return "a message in flight is taken for something else";
        if ((a->deadline == MONO_NEVER) != (head == &f->unleased))
            return "a lease is among those without, or the reverse";
        if (a->deadline < before)
            return "the leases are out of order";
        before = a->deadline;
    }
    return NULL;
}

const char *inflight_check(const struct inflight *f)
{
    size_t n = 0;
    const char *broken = check_list(f, &f->by_deadline, &n);
    if (broken == NULL)
        broken = check_list(f, &f->unleased, &n);
    if (broken == NULL && n != f->n)
        broken = "the deliveries are miscounted";
    return broken;
}
