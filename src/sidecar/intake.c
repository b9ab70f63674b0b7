#include "sidecar/intake.h"

#include "base/num.h"
#include "sidecar/held.h"
#include "sidecar/loop.h"

#include <stdio.h>
#include <stdlib.h>

struct intake_channel {
    struct intake *intake;
    struct consumer *consumer;
    uint64_t downs; /* times its consumer was lost */
};

struct intake {
    struct intake_options options;
    struct intake_channel *channels; /* options.channels of them */
    struct list waiting;             /* struct held: not yet taken by the backend, oldest first */
    struct intake_stats stats;
    bool draining;
    bool paused_for_bytes;
    uint32_t n_accepted; /* deliveries since the last refusal, or the last growth */
};

/* ---- one delivery ---- */

static struct intake *intake_of(const struct held *h)
{
    return h->channel->intake;
}

static void held_free(struct held *h)
{
    struct intake *i = intake_of(h);
    i->stats.held--;
    i->stats.held_bytes -= message_bytes(h->message);
    message_free(h->message);
    free(h);
}

/* A channel's part of the prefetch; with less than one for each, some have none. */
static uint16_t share(const struct intake *i, unsigned channel)
{
    uint32_t n = i->options.channels;
    return (uint16_t)(i->stats.prefetch / n + (channel < i->stats.prefetch % n));
}

static void pause_all(struct intake *i)
{
    for (unsigned k = 0; k < i->options.channels; k++)
        consumer_pause(i->channels[k].consumer);
}

/* Each with its part of the prefetch. */
static void resume_all(struct intake *i)
{
    for (unsigned k = 0; k < i->options.channels; k++) {
        if (share(i, k) == 0)
            continue;
        consumer_set_prefetch(i->channels[k].consumer, share(i, k));
        consumer_resume(i->channels[k].consumer);
    }
}

static void resume_if_room(struct intake *i)
{
    if (i->paused_for_bytes && !i->draining && i->stats.held_bytes <= i->options.window_bytes / 2) {
        i->paused_for_bytes = false;
        resume_all(i);
    }
}

static void tell_if_idle(struct intake *i)
{
    if (!i->draining || i->stats.held > 0)
        return;
    for (unsigned k = 0; k < i->options.channels; k++)
        consumer_flush(i->channels[k].consumer);
    if (i->options.on_idle != NULL)
        i->options.on_idle(i->options.ctx);
}

/* Sends one settlement. Short of memory it cannot be sent: the delivery then stays with RabbitMQ as
 * unsettled until the channel goes, and is delivered again: a duplicate at worst. */
static void settle_tag(struct intake_channel *c, struct consumer_tag tag, enum held_settlement how)
{
    struct intake *i = c->intake;
    int r = how == HELD_ACK ? consumer_ack(c->consumer, tag)
                            : consumer_nack(c->consumer, tag, how == HELD_REQUEUE);
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
    struct intake *i = intake_of(h);
    settle_tag(h->channel, h->tag, how);
    held_free(h);
    resume_if_room(i);
    tell_if_idle(i);
}

bool held_is_stale(const struct held *h)
{
    return h->epoch != h->channel->downs;
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
    i->stats.prefetch = prefetch > 1 ? (uint32_t)prefetch : 1;
    i->n_accepted = 0;
    i->paused_for_bytes = true;
    pause_all(i);
}

static uint32_t whole_window(const struct intake_options *o)
{
    return o->channels * (uint32_t)o->window;
}

static void grow_if_proven(struct intake *i)
{
    uint32_t window = whole_window(&i->options);
    if (i->stats.prefetch == window || ++i->n_accepted < 4 * i->stats.prefetch || i->draining)
        return;
    uint32_t doubled = 2 * i->stats.prefetch;
    i->stats.prefetch = doubled < window ? doubled : window;
    i->n_accepted = 0;
    pause_all(i);
    resume_all(i);
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
    struct intake_channel *c = ctx;
    struct intake *i = c->intake;
    i->stats.received++;
    i->stats.redelivered += redelivered;

    bool overflow = refuse_for_bytes(i, m);
    struct held *h = overflow || i->draining ? NULL : malloc(sizeof *h);
    if (h == NULL) {
        i->stats.overflow += overflow;
        settle_tag(c, tag, HELD_REQUEUE);
        message_free(m);
        return;
    }
    *h = (struct held){
        .channel = c, .message = m, .tag = tag, .epoch = c->downs, .received_at = loop_now()};
    i->stats.held++;
    i->stats.held_bytes += message_bytes(m);
    i->stats.waiting++;
    list_push_back(&i->waiting, &h->link);
    if (!i->paused_for_bytes)
        grow_if_proven(i);
    intake_pump(i);
}

static void drop_waiting(struct held *h)
{
    struct intake *i = intake_of(h);
    list_remove(&h->link);
    i->stats.waiting--;
    held_free(h);
}

/* All tags of the channel are dead: what waits is dropped and awaited again; what the backend owns
 * finishes there. */
static void on_down(void *ctx, const struct loss *why)
{
    struct intake_channel *c = ctx;
    struct intake *i = c->intake;
    i->stats.downs++;
    c->downs++;
    for (struct list *node = i->waiting.next, *next; node != &i->waiting; node = next) {
        struct held *h = LIST_ENTRY(node, struct held, link);
        next = node->next;
        if (h->channel != c)
            continue;
        i->stats.stale++;
        drop_waiting(h);
    }
    resume_if_room(i);
    if (i->options.on_lost != NULL)
        i->options.on_lost(i->options.ctx);
    tell_if_idle(i);
}

/* ---- life ---- */

static int open_channels(struct intake *i, struct link *l)
{
    for (unsigned k = 0; k < i->options.channels; k++) {
        struct intake_channel *c = &i->channels[k];
        struct consumer_options consumer = {
            .queue = i->options.queue,
            .prefetch = i->options.window,
            .on_delivery = on_delivery,
            .on_down = on_down,
            .ctx = c,
        };
        c->intake = i;
        int r = consumer_new(l, &consumer, &c->consumer);
        if (r < 0)
            return r;
    }
    return 0;
}

int intake_new(struct link *l, const struct intake_options *o, struct intake **out)
{
    struct intake *i = calloc(1, sizeof *i);
    if (i == NULL)
        return ERR_NOMEM;
    i->options = *o;
    i->stats.prefetch = whole_window(o);
    list_init(&i->waiting);
    i->channels = calloc(o->channels, sizeof *i->channels);
    int r = i->channels != NULL ? open_channels(i, l) : ERR_NOMEM;
    if (r < 0) {
        intake_free(i);
        return r;
    }
    *out = i;
    return 0;
}

void intake_free(struct intake *i)
{
    if (i == NULL)
        return;
    for (unsigned k = 0; i->channels != NULL && k < i->options.channels; k++)
        consumer_free(i->channels[k].consumer);
    while (!list_empty(&i->waiting))
        drop_waiting(LIST_ENTRY(list_first(&i->waiting), struct held, link));
    free(i->channels);
    free(i);
}

void intake_drain(struct intake *i)
{
    i->draining = true;
    pause_all(i);
    while (!list_empty(&i->waiting)) {
        struct held *h = LIST_ENTRY(list_first(&i->waiting), struct held, link);
        settle_tag(h->channel, h->tag, HELD_REQUEUE);
        drop_waiting(h);
    }
    tell_if_idle(i);
}

/* NULL when all consume that should. */
static const struct consumer *odd_one(const struct intake *i, bool paused_is_fine)
{
    for (unsigned k = 0; k < i->options.channels; k++) {
        const struct consumer *c = i->channels[k].consumer;
        if (share(i, k) > 0 && !consumer_is_up(c) && !(paused_is_fine && consumer_is_paused(c)))
            return c;
    }
    return NULL;
}

bool intake_is_up(const struct intake *i)
{
    return odd_one(i, true) == NULL;
}

const char *intake_state_name(const struct intake *i)
{
    const struct consumer *odd = odd_one(i, false);
    if (i->draining)
        return "draining";
    return consumer_state_name(odd != NULL ? odd : i->channels[0].consumer);
}

const struct intake_stats *intake_stats(const struct intake *i)
{
    return &i->stats;
}
