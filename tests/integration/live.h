/* What tests in C against a live RabbitMQ share: a loop, a link that publishes, waiting with a limit.
 * HARBINGER_TEST_AMQP is the address, HARBINGER_TEST_NODE_DIR the node's folder; tests/lib/with-rabbit
 * sets both. LIVE_LIB is tests/lib. */
#ifndef HARBINGER_TESTS_LIVE_H
#define HARBINGER_TESTS_LIVE_H

#include "amqp/publisher.h"
#include "amqp/topology.h"
#include "lib/testmain.h"

#include <event2/event.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIVE_WINDOW = 2000 };

struct live {
    struct event_base *base;
    struct link *link;
    struct publisher *publisher;
    struct topology *topology;
    enum topology_queue_type type; /* of the queue asked about last */
    int n_confirmed, n_reports;
};

static inline void live_log(void *ctx, enum log_level level, const char *event, const char *fields)
{
    fprintf(stderr, "# %s %s %s\n", log_level_name(level), event, fields);
}

static const struct log_sink live_sink = {.write = live_log, .level = LOG_WARN};

static inline bool live_turn(struct live *l)
{
    struct timeval tv = {0, 20000};
    event_base_loopexit(l->base, &tv);
    event_base_dispatch(l->base);
    return true;
}

static inline void live_run_for(struct live *l, int ms)
{
    for (; ms > 0; ms -= 20)
        live_turn(l);
}

/* The loop runs until `what` holds, at most 30 s. */
#define LIVE_UNTIL(l, what)                                 \
    do {                                                    \
        int left_ = 1500;                                   \
        while (!(what) && left_-- > 0 && live_turn(l))      \
            ;                                               \
        ck_assert_msg((what), "waited in vain for " #what); \
    } while (0)

/* rabbitmqctl; the loop stands still meanwhile. */
static inline void live_ctl(const char *args)
{
    char command[600];
    const char *dir = getenv("HARBINGER_TEST_NODE_DIR");
    ck_assert_ptr_nonnull(dir);
    snprintf(command, sizeof command, "'%s/rabbit-node' ctl '%s' %s > /dev/null 2>&1", LIVE_LIB,
             dir, args);
    int status = system(command);
    ck_assert_msg(status == 0, "%s: %d", command, status);
}

static inline struct link *live_link(struct live *l, const char *name)
{
    const char *uri = getenv("HARBINGER_TEST_AMQP");
    struct link_options o = {.name = name, .instance = "t", .uris = &uri, .n_uris = 1};
    struct link *made;
    struct err e;
    ck_assert_ptr_nonnull(uri);
    ck_assert_int_eq(link_new(l->base, &live_sink, &o, &made, &e), 0);
    link_start(made);
    LIVE_UNTIL(l, link_is_up(made));
    return made;
}

static inline void live_on_report(void *ctx, const struct topology_report *report)
{
    struct live *l = ctx;
    ck_assert_int_eq(report->result, TOPOLOGY_OK);
    l->n_reports++;
}

/* Asks about the object, and makes it where it is missing. */
static inline void live_ask(struct live *l, const struct topology_object *o)
{
    struct topology_job job = {
        .objects = o, .n_objects = 1, .types = &l->type, .done = live_on_report, .ctx = l};
    int before = l->n_reports;
    ck_assert_int_eq(topology_run(l->link, &job, &l->topology), 0);
    LIVE_UNTIL(l, l->n_reports > before);
    topology_free(l->topology);
    l->topology = NULL;
}

static inline void live_queue(struct live *l, const char *name)
{
    struct topology_object o = {.kind = TOPOLOGY_QUEUE, .name = name};
    live_ask(l, &o);
}

static inline void live_on_confirmed(void *ctx, void *cookie)
{
    struct live *l = ctx;
    l->n_confirmed++;
}

static inline void live_on_failed(void *ctx, void *cookie)
{
    ck_abort_msg("a publish failed");
}

static inline void live_on_returned(void *ctx, void *cookie, uint16_t code, struct text why)
{
    ck_abort_msg("a publish was returned");
}

static inline void live_on_lost(void *ctx, void *cookie, const struct loss *why)
{
    ck_abort_msg("a publish was lost");
}

static inline void live_init(struct live *l)
{
    struct publisher_options p = {
        .name = "t",
        .window_messages = LIVE_WINDOW,
        .window_bytes = 1 << 20,
        .on_confirmed = live_on_confirmed,
        .on_returned = live_on_returned,
        .on_nacked = live_on_failed,
        .on_lost = live_on_lost,
        .ctx = l,
    };
    *l = (struct live){.base = event_base_new()};
    l->link = live_link(l, "publish");
    ck_assert_int_eq(publisher_new(l->link, &p, &l->publisher), 0);
    LIVE_UNTIL(l, publisher_is_up(l->publisher));
}

static inline void live_fini(struct live *l)
{
    publisher_free(l->publisher);
    link_free(l->link);
    event_base_free(l->base);
}

/* With these raw properties ({NULL, 0}: none); all with one body, or the numbers from 0 on. */
static inline void live_publish(struct live *l, const char *queue, int count, bool same,
                                struct text props)
{
    static const char none[2];
    int before = l->n_confirmed;
    for (int i = 0; i < count; i++) {
        char body[24];
        struct publish what = {
            .routing_key = text_of(queue),
            .props = props.n > 0 ? props : (struct text){none, 2},
            .body = {body, (size_t)snprintf(body, sizeof body, "%06d", same ? 0 : i)},
        };
        ck_assert_int_eq(publisher_publish(l->publisher, &what), 0);
    }
    LIVE_UNTIL(l, l->n_confirmed == before + count);
}

#endif
