#include "broker/broker_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_BYTES = 1024, DETAILS_BYTES = REASON_BYTES + 128 };

/* What a dead letter counts for: all that is kept of it. */
static uint64_t letter_bytes(const struct hb_message *m)
{
    return record_bytes(m) + m->n_details;
}

static struct hb_message *letter_of(struct list *link)
{
    return record_of(LIST_ENTRY(link, struct policy_msg, link));
}

bool dead_is_full(const struct hb_broker *b)
{
    const struct hb_broker_options *o = &b->options;
    return o->dead_overflow == HB_DEAD_REFUSE_SUBMITS &&
           (b->count.dead >= o->max_dead || b->count.dead_bytes >= o->max_dead_bytes);
}

/* ---- death ---- */

static void unlink_letter(struct hb_broker *b, struct hb_message *m)
{
    list_remove(&m->policy.link);
    b->count.dead--;
    b->count.dead_bytes -= letter_bytes(m);
}

static void drop(struct hb_broker *b, struct hb_message *m)
{
    unlink_letter(b, m);
    free(m);
    b->count.dropped_dead++;
}

/* One that is too large by itself does not take the others along. */
static void make_room(struct hb_broker *b, struct hb_message *newest)
{
    const struct hb_broker_options *o = &b->options;
    if (o->dead_overflow != HB_DEAD_DROP_OLDEST)
        return;
    if (letter_bytes(newest) > o->max_dead_bytes)
        drop(b, newest);
    while (b->count.dead > o->max_dead || b->count.dead_bytes > o->max_dead_bytes)
        drop(b, letter_of(list_first(&b->dead)));
}

static void keep(struct hb_broker *b, struct hb_message *m, enum hb_dead_reason reason,
                 const char *details)
{
    m = record_add_details(m, details);
    m->state = RECORD_DEAD;
    m->dead_reason = (uint8_t)reason;
    m->policy.placed_at = b->now;
    list_push_back(&b->dead, &m->policy.link);
    b->count.dead++;
    b->count.dead_bytes += letter_bytes(m);
    make_room(b, m);
}

static void hand_back(struct hb_broker *b, struct hb_message *m, struct hb_end end)
{
    end.id = m->id;
    end.failures = m->failures;
    if (b->events.ended != NULL)
        b->events.ended(b->events.ctx, record_owner(m), &end, b->now);
    free(m);
}

static void die(struct hb_broker *b, struct hb_message *m, enum hb_dead_reason reason,
                const char *details)
{
    b->count.died[reason]++;
    broker_unclaim(b, m);
    if (m->has_owner)
        hand_back(b, m,
                  (struct hb_end){.how = HB_ENDED_DEAD, .reason = reason, .details = details});
    else
        keep(b, m, reason, details);
}

/* As much of the text as fits, whole UTF-8 characters, up to the first NUL; control characters
 * become spaces. */
static size_t copy_reason(char out[REASON_BYTES + 1], const struct hb_bytes *why)
{
    const char *text = why->p;
    size_t n = why->n > 0 ? strnlen(text, why->n) : 0;
    if (n > REASON_BYTES) {
        n = REASON_BYTES;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i];
    out[n] = '\0';
    return n;
}

void dead_by_ttl(struct hb_broker *b, struct hb_message *m, enum checkpoint where,
                 const struct hb_bytes *why)
{
    static const char *const words[] = {
#define CHECKPOINT_WORDS(name, text) text,
        CHECKPOINT_MAP(CHECKPOINT_WORDS)
#undef CHECKPOINT_WORDS
    };
    char reason[REASON_BYTES + 1], details[DETAILS_BYTES];
    size_t n = why != NULL ? copy_reason(reason, why) : 0;
    snprintf(details, sizeof details, "%s%s%s", words[where], n > 0 ? ": " : "",
             n > 0 ? reason : "");
    die(b, m, HB_DEAD_TTL_EXPIRED, details);
}

void dead_by_failures(struct hb_broker *b, struct hb_message *m, const struct hb_bytes *why)
{
    char reason[REASON_BYTES + 1], details[DETAILS_BYTES];
    size_t n = copy_reason(reason, why);
    snprintf(details, sizeof details, "attempt %u of %u failed: %s", m->failures,
             b->options.max_attempts, n > 0 ? reason : "no reason was given");
    die(b, m, HB_DEAD_MAX_RETRIES, details);
}

void dead_by_rejection(struct hb_broker *b, struct hb_message *m, const struct hb_bytes *why)
{
    char reason[REASON_BYTES + 1], details[DETAILS_BYTES];
    size_t n = copy_reason(reason, why);
    snprintf(details, sizeof details, "attempt %u was rejected: %s", m->deliveries,
             n > 0 ? reason : "no reason was given");
    if (!m->has_owner) {
        die(b, m, HB_DEAD_PROCESSING_ERROR, details);
        return;
    }
    broker_unclaim(b, m);
    hand_back(b, m, (struct hb_end){.how = HB_ENDED_REJECTED, .details = details});
}

/* ---- the letters ---- */

size_t hb_broker_dead(const struct hb_broker *b, size_t offset, size_t limit, int64_t now,
                      void (*each)(void *ctx, const struct hb_dead *dead), void *ctx)
{
    size_t n = 0;
    now = now > b->now ? now : b->now;
    for (struct list *link = b->dead.next; link != &b->dead && n < limit; link = link->next) {
        if (offset > 0) {
            offset--;
            continue;
        }
        const struct hb_message *m = letter_of(link);
        const struct hb_dead dead = {
            .id = m->id,
            .payload = record_payload(m),
            .headers = record_headers(m),
            .reason = (enum hb_dead_reason)m->dead_reason,
            .details = record_details(m),
            .failures = m->failures,
            .age_ns = now - m->policy.placed_at,
        };
        each(ctx, &dead);
        n++;
    }
    return n;
}

static struct hb_message *find_letter(struct hb_broker *b, uint64_t id)
{
    for (struct list *link = b->dead.next; link != &b->dead; link = link->next)
        if (letter_of(link)->id == id)
            return letter_of(link);
    return NULL;
}

/* Its own time to live starts anew; one that was for ever stays so. */
static mono_t new_expiry(const struct hb_broker *b, const struct hb_message *m)
{
    if (m->expires_at == MONO_NEVER)
        return MONO_NEVER;
    return mono_add(b->now, m->expires_at - m->policy.arrived_at);
}

static int revive(struct hb_broker *b, struct hb_message *m)
{
    mono_t expires_at = new_expiry(b, m);
    int r = broker_claim(b, record_bytes(m), expires_at != MONO_NEVER);
    if (r != HB_BROKER_OK)
        return r;
    unlink_letter(b, m);
    b->count.redriven++;
    m->n_details = 0;
    m->failures = m->deliveries = 0;
    m->expires_at = expires_at;
    m->policy.arrived_at = b->now;
    broker_place(b, m);
    return HB_BROKER_OK;
}

int hb_broker_redrive(struct hb_broker *b, uint64_t id, int64_t now)
{
    broker_see(b, now);
    struct hb_message *m = find_letter(b, id);
    int r = m != NULL ? revive(b, m) : HB_BROKER_UNKNOWN;
    broker_leave(b);
    return r;
}

size_t hb_broker_redrive_oldest(struct hb_broker *b, size_t limit, int64_t now)
{
    size_t n = 0;
    broker_see(b, now);
    while (n < limit && !list_empty(&b->dead) &&
           revive(b, letter_of(list_first(&b->dead))) == HB_BROKER_OK)
        n++;
    broker_leave(b);
    return n;
}

int hb_broker_purge(struct hb_broker *b, uint64_t id)
{
    struct hb_message *m = find_letter(b, id);
    if (m == NULL)
        return HB_BROKER_UNKNOWN;
    unlink_letter(b, m);
    free(m);
    b->count.purged++;
    return HB_BROKER_OK;
}

size_t hb_broker_purge_all(struct hb_broker *b)
{
    size_t n = b->count.dead;
    dead_free(b);
    b->count.purged += n;
    return n;
}

void dead_free(struct hb_broker *b)
{
    while (!list_empty(&b->dead)) {
        struct hb_message *m = letter_of(list_first(&b->dead));
        unlink_letter(b, m);
        free(m);
    }
}

const char *dead_check(const struct hb_broker *b)
{
    const struct hb_broker_options *o = &b->options;
    size_t n = 0;
    uint64_t bytes = 0;
    mono_t before = INT64_MIN;
    for (struct list *link = b->dead.next; link != &b->dead; link = link->next, n++) {
        const struct hb_message *m = letter_of(link);
        if (m->state != RECORD_DEAD || m->has_owner || m->ttl_slot != 0)
            return "a dead letter is taken for something else";
        if (m->policy.placed_at < before)
            return "the dead letters are out of order";
        before = m->policy.placed_at;
        bytes += letter_bytes(m);
    }
    if (n != b->count.dead || bytes != b->count.dead_bytes)
        return "the dead letters are miscounted";
    if (o->dead_overflow == HB_DEAD_DROP_OLDEST && (n > o->max_dead || bytes > o->max_dead_bytes))
        return "more dead letters are kept than may be";
    return NULL;
}
