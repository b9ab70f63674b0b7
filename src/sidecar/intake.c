#include "sidecar/intake.h"

#include "base/num.h"
#include "sidecar/intake_internal.h"
#include "sidecar/loop.h"

#include <assert.h>
#include <stdlib.h>

/* ---- one delivery ---- */

static void stop_waiting(struct held *h)
{
    if (!h->waiting)
        return;
    h->waiting = false;
    list_remove(&h->link);
    intake_of(h)->stats.waiting--;
}

void intake_forget(struct held *h)
{
    struct intake *i = intake_of(h);
    stop_waiting(h);
    if (h->unbacked)
        unbacked_remove(&i->unbacked, h);
    list_remove(&h->tagged);
    i->stats.unbacked = i->unbacked.n;
    if (h->message != NULL) {
        i->stats.held--;
        i->stats.held_bytes -= message_bytes(h->message);
        message_free(h->message);
    }
    free(h);
}

uint16_t intake_share(const struct intake *i, const struct intake_channel *c)
{
    uint32_t before = (uint32_t)(c - i->channels) * i->options.window;
    uint32_t left = i->stats.prefetch > before ? i->stats.prefetch - before : 0;
    return left < i->options.window ? (uint16_t)left : i->options.window;
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
        struct intake_channel *c = &i->channels[k];
        if (intake_share(i, c) == 0) {
            consumer_pause(c->consumer);
            continue;
        }
        consumer_set_prefetch(c->consumer, intake_share(i, c));
        consumer_resume(c->consumer);
    }
}

void intake_unpause(struct intake *i)
{
    if (!i->paused_for_bytes || i->draining)
        return;
    i->paused_for_bytes = false;
    resume_all(i);
}

void intake_make_room(struct intake *i)
{
    size_t window = intake_whole_window(&i->options);
    size_t wanted = i->stats.held + i->unbacked.n;
    if (wanted > i->stats.prefetch && !intake_sleeps(i))
        i->stats.prefetch = (uint32_t)(wanted < window ? wanted : window);
    i->paused_for_bytes = false;
    if (!i->draining)
        resume_all(i);
}

static void resume_if_room(struct intake *i)
{
    if (i->stats.held_bytes <= i->options.window_bytes / 2)
        intake_unpause(i);
}

void intake_tell_if_idle(struct intake *i)
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
void intake_settle_tag(struct intake_channel *c, struct consumer_tag tag, enum held_settlement how)
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
    if (h->unbacked) {
        intake_keep_settlement(h, how);
    } else {
        intake_settle_tag(h->channel, h->tag, how);
        intake_forget(h);
    }
    resume_if_room(i);
    intake_tell_if_idle(i);
}

bool held_is_stale(const struct held *h)
{
    return h->epoch != h->channel->downs;
}

mono_t held_lives_for(const struct held *h, mono_t now)
{
    struct text expiration = props_text(&h->message->props, PROP_EXPIRATION);
    uint64_t ms;
    if (expiration.n == 0 || num_parse_u64(expiration.p, expiration.n, &ms) < 0 ||
        ms > (uint64_t)(MONO_NEVER / MONO_MS))
        return MONO_NEVER;
    return (mono_t)ms * MONO_MS - (now - h->received_at);
}

bool held_is_expired(const struct held *h, mono_t now)
{
    return held_lives_for(h, now) <= 0;
}

/* ---- job ---- */

static struct text job_header(const void *message, const char *name,
                              char scratch[JOB_SCRATCH_BYTES])
{
    const struct message *m = message;
    struct header h;
    static_assert(JOB_SCRATCH_BYTES >= HEADER_SCRATCH_BYTES, "a number fits");
    if (!props_header(&m->props, text_of(name), &h))
        return (struct text){NULL, 0};
    return header_value(&h, scratch);
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

static void wait_for_sink(struct held *h, bool first)
{
    struct intake *i = intake_of(h);
    h->waiting = true;
    i->stats.waiting++;
    if (first)
        list_push_front(&i->waiting, &h->link);
    else
        list_push_back(&i->waiting, &h->link);
}

void intake_pump(struct intake *i)
{
    const struct intake_sink *sink = &i->options.sink;
    while (!list_empty(&i->waiting)) {
        struct held *h = LIST_ENTRY(list_first(&i->waiting), struct held, link);
        struct job job = job_of(h->message);
        mono_t now = loop_now();
        stop_waiting(h);
        if (held_is_expired(h, now)) {
            i->stats.expired++;
            held_settle(h, HELD_DISCARD);
        } else if (sink->submit(sink->ctx, h, &job, now) != 0) {
            wait_for_sink(h, true);
            return;
        } else if (h->renewing) {
            sink->hold(sink->ctx, h);
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

static void grow_if_proven(struct intake *i)
{
    if (i->stats.prefetch >= i->limit || ++i->n_accepted < 4 * i->stats.prefetch || i->draining)
        return;
    uint32_t doubled = 2 * i->stats.prefetch;
    i->stats.prefetch = doubled < i->limit ? doubled : i->limit;
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

    if (intake_recognise(c, tag, redelivered, m))
        return;
    bool overflow = refuse_for_bytes(i, m);
    bool refused = overflow || i->draining || intake_sleeps(i);
    struct held *h = refused ? NULL : malloc(sizeof *h);
    if (h == NULL) {
        i->stats.overflow += overflow;
        intake_settle_tag(c, tag, HELD_REQUEUE);
        message_free(m);
        return;
    }
    mono_t now = loop_now();
    *h = (struct held){.channel = c,
                       .message = m,
                       .tag = tag,
                       .epoch = c->downs,
                       .redelivered = redelivered,
                       .received_at = now,
                       .since = now};
    list_init(&h->bucket);
    list_push_back(&c->tagged, &h->tagged);
    i->stats.held++;
    i->stats.held_bytes += message_bytes(m);
    wait_for_sink(h, false);
    if (!i->paused_for_bytes)
        grow_if_proven(i);
    intake_pump(i);
}

static void on_up(void *ctx)
{
    struct intake_channel *c = ctx;
    if (c->lost)
        c->up_at = loop_now();
    c->lost = false;
}

/* What waits is dropped and awaited again; what the sink owns finishes there. */
static void drop_stale(struct intake_channel *c)
{
    struct intake *i = c->intake;
    for (struct list *node = i->waiting.next, *next; node != &i->waiting; node = next) {
        struct held *h = LIST_ENTRY(node, struct held, link);
        next = node->next;
        if (h->channel != c)
            continue;
        i->stats.stale++;
        intake_forget(h);
    }
    while (!list_empty(&c->tagged))
        list_remove(c->tagged.next);
}

/* All tags of the channel are void. */
static void on_down(void *ctx, const struct loss *why)
{
    struct intake_channel *c = ctx;
    struct intake *i = c->intake;
    i->stats.downs++;
    c->downs++;
    c->lost = true;
    if (intake_keeps(i)) {
        intake_keep_all(c);
    } else {
        drop_stale(c);
        resume_if_room(i);
        if (i->options.on_lost != NULL)
            i->options.on_lost(i->options.ctx);
    }
    intake_tell_if_idle(i);
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
            .on_up = on_up,
            .on_down = on_down,
            .ctx = c,
        };
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
    i->stats.prefetch = i->limit = intake_whole_window(o);
    list_init(&i->waiting);
    i->channels = calloc(o->channels, sizeof *i->channels);
    for (unsigned k = 0; i->channels != NULL && k < o->channels; k++) {
        i->channels[k].intake = i;
        list_init(&i->channels[k].tagged);
    }
    int r = i->channels != NULL ? open_channels(i, l) : ERR_NOMEM;
    if (r == 0 && intake_keeps(i))
        r = intake_keep_init(i, l);
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
        intake_forget(LIST_ENTRY(list_first(&i->waiting), struct held, link));
    intake_keep_fini(i);
    free(i->channels);
    free(i);
}

static void give_back_what_waits(struct intake *i)
{
    while (!list_empty(&i->waiting)) {
        struct held *h = LIST_ENTRY(list_first(&i->waiting), struct held, link);
        stop_waiting(h);
        held_settle(h, HELD_REQUEUE);
    }
}

void intake_drain(struct intake *i)
{
    i->draining = true;
    pause_all(i);
    give_back_what_waits(i);
    intake_tell_if_idle(i);
}

static uint32_t in_whole_channels(const struct intake *i, uint32_t messages)
{
    uint32_t whole = intake_whole_window(&i->options), window = i->options.window;
    return messages >= whole ? whole : (messages + window - 1) / window * window;
}

void intake_limit(struct intake *i, uint32_t messages)
{
    uint32_t before = i->limit;
    i->limit = in_whole_channels(i, messages);
    bool by_bytes = i->stats.prefetch < before;
    bool too_many = i->stats.prefetch > i->limit && (i->unbacked.n == 0 || intake_sleeps(i));
    if (too_many || (i->limit != before && !by_bytes && i->stats.prefetch < i->limit))
        i->stats.prefetch = i->limit;
    else if (i->limit == before)
        return;
    i->n_accepted = 0;
    if (!i->paused_for_bytes && !i->draining)
        resume_all(i);
    if (intake_sleeps(i))
        give_back_what_waits(i);
}

uint32_t intake_limit_now(const struct intake *i)
{
    return i->limit;
}

/* NULL when all consume that should. */
static const struct consumer *odd_one(const struct intake *i, bool paused_is_fine)
{
    for (unsigned k = 0; k < i->options.channels; k++) {
        const struct consumer *c = i->channels[k].consumer;
        if (intake_share(i, &i->channels[k]) > 0 && !consumer_is_up(c) &&
            !(paused_is_fine && consumer_is_paused(c)))
            return c;
    }
    return NULL;
}

bool intake_is_up(const struct intake *i)
{
    return odd_one(i, true) == NULL;
}

unsigned intake_channels_up(const struct intake *i)
{
    unsigned n = 0;
    for (unsigned k = 0; k < i->options.channels; k++)
        n += consumer_is_up(i->channels[k].consumer);
    return n;
}

const char *intake_state_name(const struct intake *i)
{
    const struct consumer *odd = odd_one(i, false);
    if (i->draining)
        return "draining";
    if (intake_sleeps(i))
        return "sleeping";
    return consumer_state_name(odd != NULL ? odd : i->channels[0].consumer);
}

const struct intake_stats *intake_stats(const struct intake *i)
{
    return &i->stats;
}
