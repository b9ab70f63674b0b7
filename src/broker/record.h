/*
 * One message as the broker holds it: a single piece of memory with everything that it brought
 * along. What only a delivery needs is in struct attempt, so that a waiting message is small.
 */
#ifndef HARBINGER_BROKER_RECORD_H
#define HARBINGER_BROKER_RECORD_H

#include "base/compiler.h"
#include "harbinger/broker.h"
#include "policy/policy.h"

enum record_state { RECORD_WAITING, RECORD_IN_FLIGHT, RECORD_DEAD };

/* The policy's part comes first, so that the place in the order and what follows it share a cache
 * line. While the message is dead, `policy.link` is in the list of dead letters and
 * `policy.placed_at` the time of its death. */
struct hb_message {
    struct policy_msg policy;
    uint64_t id;
    mono_t expires_at; /* MONO_NEVER: it lives for ever */
    uint32_t n_payload, n_headers;
    uint32_t ttl_slot; /* place in the heap of deadlines + 1; 0: not in it */
    uint32_t failures, deliveries;
    uint16_t n_key, n_parent, n_details;
    uint8_t predicted_level;
    uint8_t state;       /* enum record_state */
    uint8_t dead_reason; /* enum hb_dead_reason */
    bool has_owner : 1;
    bool was_pulled : 1;
    bool predicted : 1;
    bool has_predicted_ms : 1; /* it differs from policy.estimate_ms */

    /* owner, predicted_ms (each if there is one, not aligned), key, headers, payload, details */
    unsigned char bytes[];
};

/* The bytes that the bounds count: payload and headers. */
static inline uint64_t record_bytes(const struct hb_message *m)
{
    return (uint64_t)m->n_payload + m->n_headers;
}

static inline bool record_expired(const struct hb_message *m, mono_t now)
{
    return m->expires_at <= now;
}

static inline struct hb_message *record_of(struct policy_msg *p)
{
    return CONTAINER_OF(p, struct hb_message, policy);
}

/* NULL when memory is short. Copies the submission; id and all that has to do with time are left to
 * the caller. A key that no predictor would take counts as none. Free with free. */
struct hb_message *record_new(const struct hb_submission *s);

/* Appends the text to a message that nothing points at. Returns its new address; when memory is
 * short, the old one, without the text. */
struct hb_message *record_add_details(struct hb_message *m, const char *text);

/* Views into the record. */
void *record_owner(const struct hb_message *m);
struct hb_key record_key(const struct hb_message *m);
struct hb_key record_parent(const struct hb_message *m);
struct hb_bytes record_headers(const struct hb_message *m);
struct hb_bytes record_payload(const struct hb_message *m);
const char *record_details(const struct hb_message *m); /* never NULL */
double record_predicted_ms(const struct hb_message *m);
/* Without a duration. */
struct hb_lesson record_lesson(const struct hb_message *m);

#endif
