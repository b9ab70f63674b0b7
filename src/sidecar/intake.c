#include "sidecar/intake.h"

#include "base/num.h"
#include "sidecar/held.h"
#include "sidecar/loop.h"

#include <stdio.h>
#include <stdlib.h>

struct intake {
    struct intake_options options;
    struct consumer *consumer;
    struct list waiting; /* struct held: not yet taken by the backend, oldest first */
    struct intake_stats stats;
    bool draining;
    bool paused_for_bytes;
    uint32_t n_accepted; /* deliveries since the last refusal, or the last growth */
};

/* ---- one delivery ---- */

static void held_free(struct held *h)
{
    struct intake *i = h->intake;
    i->stats.held--;
    i->stats.held_bytes -= message_bytes(h->message);
    message_free(h->message);
    free(h);
}

static void resume_if_room(struct intake *i)
{
    if (i->paused_for_bytes && !i->draining && i->stats.held_bytes <= i->options.window_bytes / 2) {
        i->paused_for_bytes = false;
        consumer_resume(i->consumer);
    }
}

static void tell_if_idle(struct intake *i)
{
    if (!i->draining || i->stats.held > 0)
        return;
    consumer_flush(i->consumer);
    if (i->options.on_idle != NULL)
        i->options.on_idle(i->options.ctx);
}

/* Sends one settlement. Short of memory it cannot be sent: the delivery then stays with RabbitMQ as
 * unsettled until the channel goes, and is delivered again: a duplicate at worst. */
static void settle_tag(struct intake *i, struct consumer_tag tag, enum held_settlement how)
{
    int r = how == HELD_ACK ? consumer_ack(i->consumer, tag)
                            : consumer_nack(i->consumer, tag, how == HELD_REQUEUE);
    if (r != 0) {
        i->stats.stale++;
        return;
    }
    switch (how) {
    case HELD_ACK: i->stats.acked++; break;
    case HELD_DISCARD: i->stats.discarded++; break;
    case HELD_REQUEUE: i->stats.requeued++; break;
    }
}

void held_settle(struct held *h, enum held_settlement how)
{
    struct intake *i = h->intake;
    settle_tag(i, h->tag, how);
    held_free(h);
    resume_if_room(i);
    tell_if_idle(i);
}

bool held_is_stale(const struct held *h)
{
    return h->epoch != h->intake->stats.downs;
}

bool held_is_expired(const struct held *h, mono_t now)
{
    struct text expiration = props_text(&h->message->props, PROP_EXPIRATION);
    uint64_t ms;
    return expiration.n > 0 && num_parse_u64(expiration.p, expiration.n, &ms) == 0 &&
           (uint64_t)(now - h->received_at) / (uint64_t)MONO_MS >= ms;
}

/* ---- job ---- */

static struct text job_header(const void *message, const char *name,
                              char scratch[JOB_SCRATCH_BYTES])
{
    const struct message *m = message;
    struct header h;
    double number;
    if (!props_header(&m->props, text_of(name), &h))
        return (struct text){NULL, 0};
    if (h.type == 'S' || h.type == 'x')
        return h.value;
    if (!header_number(&h, &number))
        return (struct text){NULL, 0};
    return (struct text){scratch, (size_t)snprintf(scratch, JOB_SCRATCH_BYTES, "%.17g", number)};
}

static struct job job_of(const struct message *m)
{
    int64_t priority = props_number(&m->props, PROP_PRIORITY);
    return (struct job){
        .user_id = props_text(&m->props, PROP_USER_ID),
        .app_id = props_text(&m->props, PROP_APP_ID),
        .type = props_text(&m->props, PROP_TYPE),
        .has_priority = priority >= 0,
        .priority = priority >= 0 ? (uint8_t)priority : 0,
        .body_bytes = m->body.n,
        .message = m,
        .header = job_header,
    };
}

void intake_pump(struct intake *i)
{
    while (!list_empty(&i->waiting)) {
        struct held *h = LIST_ENTRY(list_first(&i->waiting), struct held, link);
        struct job job = job_of(h->message);
        mono_t now = loop_now();
        list_remove(&h->link);
        i->stats.waiting--;
        if (held_is_expired(h, now)) {
            i->stats.expired++;
            held_settle(h, HELD_DISCARD);
        } else if (flow_submit(i->options.flow, i->options.backend, h, &job, now) != 0) {
            list_push_front(&i->waiting, &h->link);
            i->stats.waiting++;
            return;
        }
    }
}

/* ---- the consumer's events ---- */

/* RabbitMQ's prefetch counts messages, and each refusal is a redelivery that a quorum queue counts
 * against its delivery limit: so the prefetch shrinks to what fits, at least by half each time, and
 * grows again step by step. */
static void shrink(struct intake *i)
{
    size_t fits = i->stats.held / 2;
    size_t half = i->stats.prefetch / 2u;
    size_t prefetch = fits < half ? fits : half;
    i->stats.prefetch = prefetch > 1 ? (uint16_t)prefetch : 1;
    i->n_accepted = 0;
    i->paused_for_bytes = true;
    consumer_set_prefetch(i->consumer, i->stats.prefetch);
    consumer_pause(i->consumer);
}

static void grow_if_proven(struct intake *i)
{
    if (i->stats.prefetch == i->options.window || ++i->n_accepted < 4u * i->stats.prefetch ||
        i->draining)
        return;
    unsigned doubled = 2u * i->stats.prefetch;
    i->stats.prefetch = doubled < i->options.window ? (uint16_t)doubled : i->options.window;
    i->n_accepted = 0;
    consumer_set_prefetch(i->consumer, i->stats.prefetch);
    consumer_pause(i->consumer);
    consumer_resume(i->consumer);
}

static bool refuse_for_bytes(struct intake *i, const struct message *m)
{
    if (i->stats.held == 0 || i->stats.held_bytes + message_bytes(m) <= i->options.window_bytes)
        return false;
    if (!i->paused_for_bytes)
        shrink(i);
    return true;
}

static void on_delivery(void *ctx, struct consumer_tag tag, bool redelivered, struct message *m)
{
    struct intake *i = ctx;
    i->stats.received++;
    i->stats.redelivered += redelivered;

    bool overflow = refuse_for_bytes(i, m);
    struct held *h = overflow || i->draining ? NULL : malloc(sizeof *h);
    if (h == NULL) {
        i->stats.overflow += overflow;
        settle_tag(i, tag, HELD_REQUEUE);
        message_free(m);
        return;
    }
    *h = (struct held){
        .intake = i, .message = m, .tag = tag, .epoch = i->stats.downs, .received_at = loop_now()};
    i->stats.held++;
    i->stats.held_bytes += message_bytes(m);
    i->stats.waiting++;
    list_push_back(&i->waiting, &h->link);
    if (!i->paused_for_bytes)
        grow_if_proven(i);
    intake_pump(i);
}

static void drop_waiting(struct intake *i, bool requeue)
{
    while (!list_empty(&i->waiting)) {
        struct held *h = LIST_ENTRY(list_first(&i->waiting), struct held, link);
        list_remove(&h->link);
        i->stats.waiting--;
        if (requeue)
            settle_tag(i, h->tag, HELD_REQUEUE);
        held_free(h);
    }
}

/* All tags are dead: what waits is dropped and awaited again; what the backend owns finishes there.
 */
static void on_down(void *ctx, const struct loss *why)
{
    struct intake *i = ctx;
    i->stats.downs++;
    i->stats.stale += i->stats.waiting;
    drop_waiting(i, false);
    resume_if_room(i);
    if (i->options.on_lost != NULL)
        i->options.on_lost(i->options.ctx);
    tell_if_idle(i);
}

/* ---- life ---- */

int intake_new(struct link *l, const struct intake_options *o, struct intake **out)
{
    struct intake *i = calloc(1, sizeof *i);
    if (i == NULL)
        return ERR_NOMEM;
    i->options = *o;
    i->stats.prefetch = o->window;
    list_init(&i->waiting);
    struct consumer_options consumer = {
        .queue = o->queue,
        .prefetch = o->window,
        .on_delivery = on_delivery,
        .on_down = on_down,
        .ctx = i,
    };
    int r = consumer_new(l, &consumer, &i->consumer);
    if (r < 0) {
        free(i);
        return r;
    }
    *out = i;
    return 0;
}

void intake_free(struct intake *i)
{
    if (i == NULL)
        return;
    consumer_free(i->consumer);
    drop_waiting(i, false);
    free(i);
}

void intake_drain(struct intake *i)
{
    i->draining = true;
    consumer_pause(i->consumer);
    drop_waiting(i, true);
    tell_if_idle(i);
}

bool intake_is_up(const struct intake *i)
{
    return consumer_is_up(i->consumer);
}

const char *intake_state_name(const struct intake *i)
{
    return i->draining ? "draining" : consumer_state_name(i->consumer);
}

const struct intake_stats *intake_stats(const struct intake *i)
{
    return &i->stats;
}
