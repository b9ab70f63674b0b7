#include "sidecar/unbacked.h"

#include "base/err.h"

#include <stdlib.h>

enum { BUCKETS = 4096 };

/* ---- digest ---- */

/* Two hashes of 64 bits: one alone might confuse two messages of a large window in a lifetime. Each
 * piece is hashed under a seed that the pieces before it have changed, so that borders count. */
struct digesting {
    struct hash_seed seed[2];
};

static void add(struct digesting *d, uint64_t kind, const void *p, size_t n)
{
    for (int i = 0; i < 2; i++) {
        d->seed[i].k1 ^= kind;
        d->seed[i].k0 ^= hash_bytes(&d->seed[i], p, n);
    }
}

/* What RabbitMQ adds or changes when it delivers again. */
static bool counts_deliveries(struct text name)
{
    return text_equal(name, text_of("x-delivery-count")) ||
           text_equal(name, text_of("x-acquired-count"));
}

static void add_props(struct digesting *d, const struct props *props)
{
    struct header h;
    size_t at = 0;
    if (props->opaque)
        add(d, PROP_COUNT, props->raw.p, props->raw.n);
    for (unsigned which = 0; which < PROP_COUNT; which++) {
        struct text field = props_field(props, which);
        if (which != PROP_HEADERS && field.p != NULL)
            add(d, which, field.p, field.n);
    }
    while (props_header_next(props, &at, &h)) {
        if (counts_deliveries(h.name))
            continue;
        add(d, PROP_COUNT + 1u, h.name.p, h.name.n);
        add(d, (uint64_t)(unsigned char)h.type << 8, h.value.p, h.value.n);
    }
}

static void digest_of(const struct unbacked *u, const struct message *m, uint64_t out[2])
{
    struct digesting d = {{u->seed, {~u->seed.k0, u->seed.k1}}};
    add(&d, PROP_COUNT + 2u, m->exchange.p, m->exchange.n);
    add(&d, PROP_COUNT + 3u, m->routing_key.p, m->routing_key.n);
    add_props(&d, &m->props);
    add(&d, PROP_COUNT + 4u, m->body.p, m->body.n);
    out[0] = d.seed[0].k0;
    out[1] = d.seed[1].k0;
}

/* ---- the table ---- */

int unbacked_init(struct unbacked *u, const struct hash_seed *seed)
{
    struct list *buckets = malloc(BUCKETS * sizeof *buckets);
    if (buckets == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < BUCKETS; i++)
        list_init(&buckets[i]);
    *u = (struct unbacked){.seed = *seed, .buckets = buckets};
    list_init(&u->order);
    return 0;
}

void unbacked_fini(struct unbacked *u)
{
    free(u->buckets);
    *u = (struct unbacked){.n = 0};
}

static struct list *bucket_of(struct unbacked *u, const uint64_t digest[2])
{
    return &u->buckets[digest[0] % BUCKETS];
}

void unbacked_add(struct unbacked *u, struct held *h, mono_t now)
{
    digest_of(u, h->message, h->digest);
    h->unbacked = true;
    h->since = now;
    list_push_back(bucket_of(u, h->digest), &h->bucket);
    list_push_back(&u->order, &h->tagged);
    u->n++;
}

void unbacked_remove(struct unbacked *u, struct held *h)
{
    list_remove(&h->bucket);
    list_remove(&h->tagged);
    h->unbacked = false;
    u->n--;
}

void unbacked_touch(struct unbacked *u, struct held *h, mono_t now)
{
    h->since = now;
    list_remove(&h->tagged);
    list_push_back(&u->order, &h->tagged);
}

struct held *unbacked_take(struct unbacked *u, const struct message *m, bool redelivered,
                           bool (*is_untouched)(const struct held *h))
{
    uint64_t digest[2];
    if (u->n == 0)
        return NULL;
    digest_of(u, m, digest);
    struct list *bucket = bucket_of(u, digest);
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct held *h = LIST_ENTRY(node, struct held, bucket);
        if (h->digest[0] != digest[0] || h->digest[1] != digest[1])
            continue;
        if (!redelivered && !is_untouched(h))
            continue;
        unbacked_remove(u, h);
        return h;
    }
    return NULL;
}

struct held *unbacked_oldest(struct unbacked *u)
{
    struct list *first = list_first(&u->order);
    return first != NULL ? LIST_ENTRY(first, struct held, tagged) : NULL;
}
