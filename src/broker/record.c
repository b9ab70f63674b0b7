#include "broker/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool within_32_bits(const struct hb_bytes *b)
{
    return b->n <= UINT32_MAX;
}

static unsigned char *put(unsigned char *at, const void *data, size_t n)
{
    if (n > 0)
        memcpy(at, data, n);
    return at + n;
}

static size_t front_size(const struct hb_message *m)
{
    return (m->has_owner ? sizeof(void *) : 0) + (m->has_predicted_ms ? sizeof(double) : 0);
}

static void fill(struct hb_message *m, const struct hb_submission *s)
{
    unsigned char *at = m->bytes;
    if (m->has_owner)
        at = put(at, &s->owner, sizeof s->owner);
    if (m->has_predicted_ms)
        at = put(at, &s->predicted_ms, sizeof s->predicted_ms);
    at = put(at, s->key.p, m->n_key);
    at = put(at, s->headers.p, s->headers.n);
    put(at, s->payload.p, s->payload.n);
}

struct hb_message *record_new(const struct hb_submission *s)
{
    bool has_key = s->key.n <= HB_KEY_MAX;
    double estimate_ms = isfinite(s->estimate_ms) ? s->estimate_ms : -1;
    struct hb_message head = {
        .policy.estimate_ms = estimate_ms,
        .policy.original_level = (uint8_t)s->level,
        .n_payload = (uint32_t)s->payload.n,
        .n_headers = (uint32_t)s->headers.n,
        .n_key = has_key ? (uint16_t)s->key.n : 0,
        .n_parent = has_key && s->n_parent <= s->key.n ? (uint16_t)s->n_parent : 0,
        .predicted_level = (uint8_t)s->predicted_level,
        .state = RECORD_WAITING,
        .has_owner = s->owner != NULL,
        .predicted = s->predicted,
        .has_predicted_ms = s->predicted && s->predicted_ms != estimate_ms,
    };
    if (!within_32_bits(&s->payload) || !within_32_bits(&s->headers))
        return NULL;
    size_t size = offsetof(struct hb_message, bytes) + front_size(&head) + head.n_key +
                  s->headers.n + s->payload.n;
    struct hb_message *m = malloc(size > sizeof *m ? size : sizeof *m);
    if (m == NULL)
        return NULL;
    *m = head;
    fill(m, s);
    return m;
}

static const unsigned char *key_at(const struct hb_message *m)
{
    return m->bytes + front_size(m);
}

static const unsigned char *details_at(const struct hb_message *m)
{
    return key_at(m) + m->n_key + m->n_headers + m->n_payload;
}

struct hb_message *record_add_details(struct hb_message *m, const char *text)
{
    size_t before = (size_t)(details_at(m) - (const unsigned char *)m), n = strlen(text) + 1;
    if (n > UINT16_MAX)
        return m;
    struct hb_message *larger = realloc(m, before + n);
    if (larger == NULL)
        return m;
    memcpy((unsigned char *)larger + before, text, n);
    larger->n_details = (uint16_t)n;
    return larger;
}

void *record_owner(const struct hb_message *m)
{
    void *owner = NULL;
    if (m->has_owner)
        memcpy(&owner, m->bytes, sizeof owner);
    return owner;
}

double record_predicted_ms(const struct hb_message *m)
{
    double ms = m->policy.estimate_ms;
    if (m->has_predicted_ms)
        memcpy(&ms, key_at(m) - sizeof ms, sizeof ms);
    return ms;
}

struct hb_key record_key(const struct hb_message *m)
{
    return (struct hb_key){m->n_key > 0 ? (const char *)key_at(m) : NULL, m->n_key};
}

struct hb_key record_parent(const struct hb_message *m)
{
    return (struct hb_key){m->n_parent > 0 ? (const char *)key_at(m) : NULL, m->n_parent};
}

struct hb_bytes record_headers(const struct hb_message *m)
{
    return (struct hb_bytes){key_at(m) + m->n_key, m->n_headers};
}

struct hb_bytes record_payload(const struct hb_message *m)
{
    return (struct hb_bytes){key_at(m) + m->n_key + m->n_headers, m->n_payload};
}

const char *record_details(const struct hb_message *m)
{
    return m->n_details > 0 ? (const char *)details_at(m) : "no memory for the details";
}

struct hb_lesson record_lesson(const struct hb_message *m)
{
    return (struct hb_lesson){
        .key = record_key(m),
        .parent = record_parent(m),
        .predicted = m->predicted,
        .level = m->predicted_level,
        .estimate_ms = record_predicted_ms(m),
    };
}
