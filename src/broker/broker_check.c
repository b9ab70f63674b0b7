#include "broker/broker_check.h"

#include "broker/broker_internal.h"

/* Each message that was taken in is somewhere, or left in a way that is counted. Withdrawn ones are
 * not, hence the inequality. */
static const char *check_counts(const struct hb_broker *b)
{
    const struct hb_broker_stats *c = &b->count;
    uint64_t living = policy_waiting(b->policy) + b->inflight.n, died = 0, failures = 0;
    for (int i = 0; i < HB_N_DEAD_REASONS; i++)
        died += c->died[i];
    failures = c->nacked + c->leases_expired;
    if (c->died[HB_DEAD_PROCESSING_ERROR] > c->rejected)
        return "more messages died by rejection than were rejected";
    uint64_t handed_back = c->rejected - c->died[HB_DEAD_PROCESSING_ERROR];
    if (living + c->acked + handed_back + died > c->submitted + c->redriven)
        return "more messages are here or ended than were taken in";
    if (c->retried + c->died[HB_DEAD_MAX_RETRIES] > failures)
        return "more messages failed than attempts";
    if (c->pulled != b->last_token || c->submitted != b->last_id)
        return "numbers are lost or used twice";
    if (living == 0 && (c->bytes != 0 || b->ttl.reserved != 0))
        return "messages that are gone have left claims behind";
    return NULL;
}

struct claims {
    size_t with_deadline;
    uint64_t bytes, last_token;
};

static void add_claims(const struct list *head, struct claims *c)
{
    for (const struct list *node = head->next; node != head; node = node->next) {
        const struct attempt *a = (const struct attempt *)node;
        c->with_deadline += a->m->expires_at != MONO_NEVER;
        c->bytes += record_bytes(a->m);
        if (a->token > c->last_token)
            c->last_token = a->token;
    }
}

static const char *check_claims(const struct hb_broker *b)
{
    struct claims c = {.with_deadline = b->ttl.n};
    add_claims(&b->inflight.by_deadline, &c);
    add_claims(&b->inflight.unleased, &c);
    if (c.last_token > b->last_token)
        return "a delivery has a token of the future";
    if (c.with_deadline != b->ttl.reserved)
        return "the room among the deadlines is miscounted";
    if (c.bytes > b->count.bytes)
        return "the bytes of messages are miscounted";
    return NULL;
}

const char *hb_broker_check(const struct hb_broker *b)
{
    const char *broken = policy_check(b->policy);
    if (broken == NULL)
        broken = ttl_check(&b->ttl);
    if (broken == NULL)
        broken = inflight_check(&b->inflight);
    if (broken == NULL)
        broken = history_check(&b->history);
    if (broken == NULL)
        broken = dead_check(b);
    if (broken == NULL)
        broken = check_claims(b);
    return broken != NULL ? broken : check_counts(b);
}
