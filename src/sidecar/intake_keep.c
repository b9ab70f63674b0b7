/* Deliveries that outlive their tags: kept over the loss of a channel, and renewed before RabbitMQ's
 * delivery timeout. */
#include "sidecar/intake_internal.h"
#include "sidecar/loop.h"

/* What RabbitMQ gives back comes at once. What has not come so long after all channels consume again
 * is with another consumer. */
#define COMES_WITHIN (10 * MONO_S)

/* A renewal is a redelivery for RabbitMQ and a lookup for us: so many are under way at a time. */
enum { RENEWALS = 256 };

#define LOOK_EVERY     (1 * MONO_S)
#define LOOK_AT_LEAST  (50 * MONO_MS)
#define LOOKS_PER_TIME 20 /* in renew_after, where that is short */

static bool nobody_has_begun(const struct held *h)
{
    const struct intake_sink *sink = &intake_of(h)->options.sink;
    return h->message != NULL && (h->waiting || sink->waits(sink->ctx, h));
}

/* ---- what is awaited ---- */

static void count(struct intake *i)
{
    i->stats.unbacked = i->unbacked.n;
}

/* It does not come again. What somebody has begun with stays until that is over. */
static void give_up(struct intake *i, struct held *h, mono_t now)
{
    const struct intake_sink *sink = &i->options.sink;
    if (h->message != NULL && !h->waiting && !sink->withdraw(sink->ctx, h)) {
        unbacked_touch(&i->unbacked, h, now);
        return;
    }
    i->stats.withdrawn += h->message != NULL;
    intake_forget(h);
}

static void await(struct held *h, mono_t now)
{
    struct intake *i = intake_of(h);
    list_remove(&h->tagged);
    unbacked_add(&i->unbacked, h, now);
    if (i->unbacked.n > 2 * (size_t)intake_whole_window(&i->options))
        give_up(i, unbacked_oldest(&i->unbacked), now);
    count(i);
}

void intake_keep_settlement(struct held *h, enum held_settlement how)
{
    struct intake *i = intake_of(h);
    if (how == HELD_REQUEUE) {
        intake_forget(h);
        return;
    }
    i->stats.held--;
    i->stats.held_bytes -= message_bytes(h->message);
    message_free(h->message);
    h->message = NULL;
    h->settled = how;
    unbacked_touch(&i->unbacked, h, loop_now());
}

static void begin_renewal(struct held *h)
{
    const struct intake_sink *sink = &intake_of(h)->options.sink;
    h->renewing = true;
    if (!h->waiting)
        sink->hold(sink->ctx, h);
}

static void end_renewal(struct held *h)
{
    const struct intake_sink *sink = &intake_of(h)->options.sink;
    bool held = h->renewing && !h->waiting && h->message != NULL;
    h->renewing = false;
    if (held)
        sink->release(sink->ctx, h);
}

bool intake_recognise(struct intake_channel *c, struct consumer_tag tag, bool redelivered,
                      struct message *m)
{
    struct intake *i = c->intake;
    struct held *h = unbacked_take(&i->unbacked, m, redelivered, nobody_has_begun);
    if (h == NULL)
        return false;
    struct header ignored;
    if (props_header(&m->props, text_of("x-delivery-count"), &ignored))
        i->counts_deliveries = true;
    message_free(m);
    i->stats.recognised++;
    count(i);
    h->channel = c;
    h->tag = tag;
    h->epoch = c->downs;
    h->since = loop_now();
    end_renewal(h);
    if (h->message == NULL) {
        intake_settle_tag(c, tag, h->settled);
        intake_forget(h);
    } else {
        list_push_back(&c->tagged, &h->tagged);
    }
    return true;
}

/* ---- looking after them ---- */

/* Since when all that is awaited could have come; MONO_NEVER while a channel is down. */
static mono_t complete_since(const struct intake *i)
{
    mono_t since = 0;
    for (unsigned k = 0; k < i->options.channels; k++) {
        const struct intake_channel *c = &i->channels[k];
        if (intake_share(i, c) > 0 && c->lost)
            return MONO_NEVER;
        since = c->up_at > since ? c->up_at : since;
    }
    return since;
}

/* Nothing is consumed, so that nothing comes again. */
static bool takes_nothing(const struct intake *i)
{
    return i->draining || intake_sleeps(i);
}

static void give_up_the_overdue(struct intake *i, mono_t now)
{
    mono_t since = takes_nothing(i) ? 0 : complete_since(i);
    mono_t patience = takes_nothing(i) ? 0 : COMES_WITHIN;
    for (size_t left = i->unbacked.n; left > 0; left--) {
        struct held *h = unbacked_oldest(&i->unbacked);
        mono_t from = h->since > since ? h->since : since;
        if (mono_add(from, patience) > now)
            return;
        give_up(i, h, now);
    }
}

void intake_keep_all(struct intake_channel *c)
{
    struct intake *i = c->intake;
    mono_t now = loop_now();
    while (!list_empty(&c->tagged))
        await(LIST_ENTRY(list_first(&c->tagged), struct held, tagged), now);
    if (takes_nothing(i))
        give_up_the_overdue(i, now);
    count(i);
    intake_make_room(i);
}

/* For good: it would not be taken again. */
static void give_back(struct intake *i, struct held *h)
{
    const struct intake_sink *sink = &i->options.sink;
    if (sink->withdraw(sink->ctx, h))
        held_settle(h, HELD_REQUEUE);
}

static void renew(struct held *h, mono_t now)
{
    struct intake *i = intake_of(h);
    if (consumer_nack(h->channel->consumer, h->tag, true) == 0)
        i->stats.renewed++;
    begin_renewal(h);
    await(h, now);
}

static void renew_channel(struct intake_channel *c, mono_t now)
{
    struct intake *i = c->intake;
    for (struct list *node = c->tagged.next, *next; node != &c->tagged; node = next) {
        struct held *h = LIST_ENTRY(node, struct held, tagged);
        next = node->next;
        if (mono_add(h->since, i->renew_after) > now || i->unbacked.n >= RENEWALS)
            return;
        if (!nobody_has_begun(h))
            continue;
        if (takes_nothing(i))
            give_back(i, h);
        else
            renew(h, now);
    }
}

static bool any_due(const struct intake *i, mono_t now)
{
    for (unsigned k = 0; k < i->options.channels; k++) {
        struct list *first = list_first(&i->channels[k].tagged);
        if (first != NULL &&
            mono_add(LIST_ENTRY(first, struct held, tagged)->since, i->renew_after) <= now)
            return true;
    }
    return false;
}

/* Its tags are good; and where it does not consume, that is meant: what it gives back comes to one that
 * does, or is not to come again. */
static bool may_give_back(const struct intake *i, const struct intake_channel *c)
{
    bool unused = takes_nothing(i) || intake_share(i, c) == 0;
    return consumer_is_up(c->consumer) || (unused && consumer_is_paused(c->consumer));
}

static void renew_the_due(struct intake *i, mono_t now)
{
    if (i->renew_after == 0 || i->counts_deliveries || !any_due(i, now))
        return;
    intake_unpause(i);
    for (unsigned k = 0; k < i->options.channels; k++)
        if (may_give_back(i, &i->channels[k]))
            renew_channel(&i->channels[k], now);
}

static void arm(struct intake *i)
{
    mono_t for_ns = i->renew_after / LOOKS_PER_TIME;
    if (for_ns == 0 || for_ns > LOOK_EVERY)
        for_ns = LOOK_EVERY;
    struct timeval tv = loop_timeval(for_ns > LOOK_AT_LEAST ? for_ns : LOOK_AT_LEAST);
    evtimer_add(i->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct intake *i = ctx;
    mono_t now = loop_now();
    give_up_the_overdue(i, now);
    /* New messages came first, RabbitMQ not having noticed the loss yet, and did not fit. */
    if (i->unbacked.n > 0 && i->paused_for_bytes)
        intake_make_room(i);
    renew_the_due(i, now);
    count(i);
    arm(i);
}

void intake_renew_after(struct intake *i, mono_t age)
{
    i->renew_after = age;
    if (i->timer != NULL)
        arm(i);
}

int intake_keep_init(struct intake *i, struct link *l)
{
    struct hash_seed seed = {loop_random(), loop_random()};
    i->timer = evtimer_new(link_base(l), on_timer, i);
    if (i->timer == NULL || unbacked_init(&i->unbacked, &seed) < 0)
        return ERR_NOMEM;
    arm(i);
    return 0;
}

void intake_keep_fini(struct intake *i)
{
    while (i->unbacked.n > 0)
        intake_forget(unbacked_oldest(&i->unbacked));
    unbacked_fini(&i->unbacked);
    if (i->timer != NULL)
        event_free(i->timer);
}
