#include "sidecar/parking.h"

#include "amqp/publisher.h"
#include "sidecar/loop.h"
#include "sidecar/outgoing.h"

#include <event2/event.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY       (30 * MONO_S)
#define RETRY_SHORT (1 * MONO_S) /* out of memory */

/* An error that ends the whole connection may be RabbitMQ's own: failed is who was under way so
 * often. */
#define MAX_BLAMES 3

#define NO_ROOM "its headers do not fit into a frame of amqp.frame_max"

struct parking {
    const struct log_sink *log;
    struct parking_options options;
    struct publisher *publisher;
    struct event *retry;
    struct list waiting, stuck; /* struct parking_job */
    struct buf props;
    uint64_t n_parked, n_failed, n_without_headers;
};

static const char *why_of(const struct parking_job *job)
{
    return job->why != NULL ? job->why : "out of memory for the reason";
}

static struct parking_job *job_of(struct list *lane)
{
    return LIST_ENTRY(lane, struct parking_job, lane);
}

static void put(struct list *lane, struct parking_job *job)
{
    list_remove(&job->lane);
    list_push_back(lane, &job->lane);
}

static void arm(struct parking *p, mono_t for_ns)
{
    struct timeval tv = loop_timeval(for_ns);
    if (!evtimer_pending(p->retry, NULL))
        evtimer_add(p->retry, &tv);
}

static void failed(struct parking *p, struct parking_job *job, const char *why)
{
    p->n_failed++;
    log_event(p->log, LOG_ERROR, "parking.failed",
              "queue=" LOG_Q " id=%.*s reason=" LOG_Q " parked_for=" LOG_Q,
              p->options.conf->parked.queue, (int)job->id.n, job->id.n > 0 ? job->id.p : "", why,
              why_of(job));
    arm(p, RETRY);
    put(&p->stuck, job);
    (void)p->options.useless(p->options.ctx, job);
}

static int publish(struct parking *p, struct parking_job *job)
{
    enum outgoing_form form;
    struct outgoing o = {
        .message = job->held->message,
        .id = job->id,
        .key = job->key,
        .reason = job->level_reason,
        .level = job->level,
        .priority = -1,
        /* Parked may be just what RabbitMQ refuses to take under that name. */
        .impersonate = false,
        .add_address = true,
        .parked_reason = why_of(job),
    };
    struct outgoing_target to = {
        .exchange = text_of(""),
        .routing_key = text_of(p->options.conf->parked.queue),
        .cookie = job,
    };
    int r = outgoing_publish(p->publisher, &o, &to, &p->props, &form);
    if (r == 0) {
        list_remove(&job->lane);
        p->n_without_headers += form > OUTGOING_WHOLE;
    }
    return r;
}

/* False: stop, nothing more can be done now. */
static bool publish_head(struct parking *p)
{
    struct list *first = list_first(&p->waiting);
    if (first == NULL)
        return false;
    struct parking_job *job = job_of(first);
    if (p->options.useless(p->options.ctx, job))
        return true;
    int r = publish(p, job);
    if (r == ERR_NOMEM)
        arm(p, RETRY_SHORT);
    if (r == PUBLISHER_FULL || r == PUBLISHER_DOWN || r == ERR_NOMEM)
        return false;
    if (r != 0)
        failed(p, job, NO_ROOM);
    return true;
}

static void pump(void *ctx)
{
    struct parking *p = ctx;
    while (publish_head(p))
        continue;
}

/* ---- the publisher's events ---- */

static void on_confirmed(void *ctx, void *cookie)
{
    struct parking *p = ctx;
    struct parking_job *job = cookie;
    p->n_parked++;
    log_event(p->log, LOG_WARN, "parked", "queue=" LOG_Q " id=%.*s key=%.*s reason=" LOG_Q,
              p->options.conf->parked.queue, (int)job->id.n, job->id.n > 0 ? job->id.p : "",
              (int)job->key.n, job->key.n > 0 ? job->key.p : "", why_of(job));
    p->options.done(p->options.ctx, job);
}

static void on_returned(void *ctx, void *cookie, uint16_t code, struct text why)
{
    char text[200];
    snprintf(text, sizeof text, "returned (%u): %.*s", code, (int)why.n, why.p);
    failed(ctx, cookie, text);
}

static void on_nacked(void *ctx, void *cookie)
{
    failed(ctx, cookie, "nacked: the queue is full or failed");
}

static void on_lost(void *ctx, void *cookie, const struct loss *why)
{
    struct parking *p = ctx;
    struct parking_job *job = cookie;
    char text[320];
    loss_format(why, text, sizeof text);
    bool by_connection = why->kind == LOSS_CONNECTION && why->code >= 501 && why->code != 530;
    if (why->kind == LOSS_CHANNEL || (by_connection && ++job->n_blamed >= MAX_BLAMES))
        failed(p, job, text);
    else
        put(&p->waiting, job);
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
    struct parking *p = ctx;
    while (!list_empty(&p->stuck))
        put(&p->waiting, job_of(list_first(&p->stuck)));
    pump(p);
}

/* ---- for the owner ---- */

int parking_new(struct link *l, const struct log_sink *log, const struct parking_options *o,
                struct parking **out)
{
    struct parking *p = calloc(1, sizeof *p);
    if (p == NULL)
        return ERR_NOMEM;
    p->log = log;
    p->options = *o;
    list_init(&p->waiting);
    list_init(&p->stuck);
    p->retry = evtimer_new(link_base(l), on_retry, p);
    struct publisher_options options = {
        .name = "parking",
        .window_messages = 1,
        .window_bytes = o->conf->intake.window_bytes,
        .confirm_timeout_for = o->conf->amqp.confirm_timeout,
        .seed = loop_random(),
        .on_confirmed = on_confirmed,
        .on_returned = on_returned,
        .on_nacked = on_nacked,
        .on_lost = on_lost,
        .on_up = pump,
        .on_room = pump,
        .ctx = p,
    };
    int r = p->retry != NULL ? publisher_new(l, &options, &p->publisher) : ERR_NOMEM;
    if (r < 0) {
        parking_free(p);
        return r;
    }
    *out = p;
    return 0;
}

void parking_free(struct parking *p)
{
    if (p == NULL)
        return;
    publisher_free(p->publisher);
    if (p->retry != NULL)
        event_free(p->retry);
    while (!list_empty(&p->waiting))
        list_remove(p->waiting.next);
    while (!list_empty(&p->stuck))
        list_remove(p->stuck.next);
    buf_fini(&p->props);
    free(p);
}

void parking_put(struct parking *p, struct parking_job *job, const char *why)
{
    free(job->why);
    job->why = strdup(why);
    put(&p->waiting, job);
    pump(p);
}

void parking_forget(struct parking_job *job)
{
    list_remove(&job->lane);
    free(job->why);
    job->why = NULL;
}

static void drop_useless(struct parking *p, struct list *lane)
{
    for (struct list *node = lane->next, *next; node != lane; node = next) {
        next = node->next;
        (void)p->options.useless(p->options.ctx, job_of(node));
    }
}

void parking_drop_useless(struct parking *p)
{
    drop_useless(p, &p->waiting);
    drop_useless(p, &p->stuck);
}

static size_t count(const struct list *lane)
{
    size_t n = 0;
    for (const struct list *node = lane->next; node != lane; node = node->next)
        n++;
    return n;
}

void parking_stats(const struct parking *p, struct parking_stats *out)
{
    *out = (struct parking_stats){
        .parked = p->n_parked,
        .failed = p->n_failed,
        .without_headers = p->n_without_headers,
        .n_waiting = count(&p->waiting) + publisher_pending(p->publisher),
        .n_stuck = count(&p->stuck),
    };
}
