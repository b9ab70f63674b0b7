/* How deliveries end. */
#include "proxy/chan.h"

#include "base/err.h"
#include "proxy/frames.h"

#define NOT_KNOWN (-1.0)

/* A worker that stops in order may return what it has not begun by a requeue of each, which says the
 * same as a failure, right before it cancels its consumer or closes (pika does), or for what was on
 * its way, after. So what becomes of a requeue is decided a moment later. */
#define RETURN_WAIT (50 * MONO_MS)
#define LEAVE_LASTS MONO_S

/*
 * The time from delivery to ack is the job's duration only where nothing else was at the worker that
 * it could have waited for: a window of one, or one that the operator's clamp has brought down to
 * what a worker does at once. An ack right after the delivery came before the work. A worker that sends
 * events tells it better.
 */
static double duration_of(const struct chan *ch, const struct tag *tag)
{
    struct world *w = ch->session->world;
    mono_t took = w->now - tag->at;
    if (tag->evented && w->now < w->runtimes.believed_until) {
        w->stats.evented_acks++;
        return NOT_KNOWN;
    }
    uint32_t clamp = w->options.max_window > 0 ? w->options.max_window : 1;
    if (tag->consumer == NULL ||
        (chan_consumer_window(tag->consumer) > clamp && chan_window(ch) > clamp)) {
        w->stats.wide_acks++;
        return NOT_KNOWN;
    }
    if (took < w->options.early_ack) {
        w->stats.early_acks++;
        return NOT_KNOWN;
    }
    w->stats.timed++;
    return mono_to_ms(took);
}

/* The worker's place is free again. */
static void make_way(struct chan *ch, struct proxy_consumer *c)
{
    if (c == NULL)
        return;
    ch->counted--;
    c->unsettled--;
    if (c->over)
        chan_consumer_release(c);
    else
        chan_consumer_wake(c);
    chan_wake(ch);
}

static void settle_now(struct chan *ch, const struct barrier_held *h)
{
    struct world *w = ch->session->world;
    w->used = true;
    w->stats.settled[h->settlement.outcome]++;
    if (w->station.settle(w->station.ctx, &h->settlement) != HB_BROKER_OK)
        w->stats.stale++;
    w->stats.in_flight--;
    ch->session->in_flight--;
    make_way(ch, h->consumer);
}

static struct barrier_held held_of(const struct chan *ch, const struct tag *tag,
                                   enum proxy_outcome outcome)
{
    return (struct barrier_held){
        .settlement = {.consumer = tag->consumer != NULL ? tag->consumer->number : ch->get_number,
                       .id = tag->id,
                       .token = tag->token,
                       .outcome = outcome,
                       .duration_ms = outcome == PROXY_ACK ? duration_of(ch, tag) : NOT_KNOWN},
        .consumer = tag->consumer,
    };
}

static void settle_tag(struct chan *ch, struct tag *tag, enum proxy_outcome outcome)
{
    struct barrier_held h = held_of(ch, tag, outcome);
    tags_remove(&ch->tags, tag);
    settle_now(ch, &h);
}

/* RabbitMQ's own: it knows, or will be told. */
static void forget_tag(struct chan *ch, struct tag *tag)
{
    struct proxy_consumer *c = tag->consumer;
    tags_remove(&ch->tags, tag);
    make_way(ch, c);
}

/* What the job has published counts only for those that are done. */
static bool must_wait(const struct chan *ch, enum proxy_outcome outcome)
{
    return (outcome == PROXY_ACK || outcome == PROXY_DISCARD) && barrier_holds(&ch->barrier) &&
           !ch->session->world->options.no_barrier;
}

/* It stays in its worker's window until it is decided: another one would only be returned too. */
static void return_it(struct chan *ch, struct tag *tag)
{
    struct world *w = ch->session->world;
    tag->kind = TAG_RETURNED;
    tag->at = w->now;
    if (!list_empty(&ch->returning))
        return;
    ch->returns_end = w->now + RETURN_WAIT;
    list_push_back(&w->returning, &ch->returning);
}

int chan_settle(struct chan *ch, struct tag *tag, enum proxy_outcome outcome)
{
    if (outcome == PROXY_FAIL && tag->kind == TAG_OURS && tag->consumer != NULL) {
        return_it(ch, tag);
        return 0;
    }
    if (tag->kind == TAG_UPSTREAM) {
        forget_tag(ch, tag);
        return 0;
    }
    if (!must_wait(ch, outcome)) {
        settle_tag(ch, tag, outcome);
        return 0;
    }
    struct barrier_held h = held_of(ch, tag, outcome);
    int r = barrier_hold(&ch->barrier, &h);
    if (r < 0)
        return r;
    ch->session->world->stats.barriers++;
    tags_remove(&ch->tags, tag);
    return chan_barrier_step(ch);
}

/* Put-backs newest first, so that each finds its old place; else oldest first, so that they keep
 * their order. */
void chan_settle_all(struct chan *ch, enum proxy_outcome outcome)
{
    struct tag *tag;
    while ((tag = outcome == PROXY_PUT_BACK ? tags_newest(&ch->tags) : tags_oldest(&ch->tags)) !=
           NULL) {
        if (tag->kind == TAG_UPSTREAM)
            forget_tag(ch, tag);
        else
            settle_tag(ch, tag, outcome);
    }
}

static bool was_not_begun(const struct tag *tag)
{
    mono_t left_at = tag->consumer->left_at;
    return left_at > 0 && tag->at - left_at < LEAVE_LASTS;
}

/* In chan_settle_all's orders. */
void chan_end_returns(struct chan *ch, mono_t until)
{
    struct tag *tag;
    list_remove(&ch->returning);
    for (uint64_t from = 0; (tag = tags_returned_from(&ch->tags, from)) != NULL;) {
        from = tag->client + 1;
        if (tag->at <= until && !was_not_begun(tag))
            settle_tag(ch, tag, PROXY_FAIL);
    }
    for (uint64_t to = UINT64_MAX; (tag = tags_newest_of(&ch->tags, TAG_RETURNED, to)) != NULL;) {
        to = tag->client - 1;
        if (tag->at <= until)
            settle_tag(ch, tag, PROXY_PUT_BACK);
        else if (list_empty(&ch->returning))
            list_push_back(&ch->session->world->returning, &ch->returning);
    }
}

/* All channels wait equally long, so that the list is in the order of their times. */
mono_t world_end_returns(struct world *w)
{
    struct list *node;
    while ((node = list_first(&w->returning)) != NULL) {
        struct chan *ch = LIST_ENTRY(node, struct chan, returning);
        if (ch->returns_end > w->now)
            return ch->returns_end;
        ch->returns_end = w->now + RETURN_WAIT;
        chan_end_returns(ch, w->now - RETURN_WAIT);
    }
    return MONO_NEVER;
}

void chan_forget_upstream(struct chan *ch)
{
    struct tag *tag;
    while ((tag = tags_newest_of(&ch->tags, TAG_UPSTREAM, UINT64_MAX)) != NULL)
        forget_tag(ch, tag);
}

int chan_barrier_step(struct chan *ch)
{
    struct session *s = ch->session;
    struct barrier_held h;
    while (barrier_next(&ch->barrier, &h))
        settle_now(ch, &h);
    if (ch->state != CHAN_OPEN || session_state(s) != SESSION_OPEN ||
        !barrier_wants_flow(&ch->barrier) || content_is_under_way(&ch->content[SIDE_CLIENT]))
        return 0;
    session_touch(s);
    int r = frames_put_flow(&s->out[SIDE_UPSTREAM].bytes, ch->number);
    if (r == 0)
        barrier_flow_sent(&ch->barrier);
    return r;
}

void chan_barrier_end(struct chan *ch, bool arrived)
{
    struct barrier_held h;
    barrier_open(&ch->barrier);
    while (barrier_next(&ch->barrier, &h)) {
        if (!arrived) {
            h.settlement.outcome = PROXY_FAIL;
            h.settlement.duration_ms = NOT_KNOWN;
        }
        settle_now(ch, &h);
    }
}
