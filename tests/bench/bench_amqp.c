/*
 * What the AMQP layer costs: a backlog goes through consume, edit, publish, confirm and ack, and
 * the CPU time of this process is divided by the messages. Run it as: tests/lib/with-rabbit
 * build/tests/bench/bench_amqp [MESSAGES [BODY]]
 */
#include "amqp/consumer.h"
#include "amqp/link.h"
#include "amqp/publisher.h"
#include "amqp/topology.h"
#include "base/err.h"

#include <event2/event.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { WINDOW = 500 };

struct item {
    struct message *m;
    struct consumer_tag tag;
};

struct bench {
    struct event_base *base;
    struct link *in, *out;
    struct consumer *consumer;
    struct publisher *publisher;
    struct topology *topology;
    int n_up;
    bool filling;
    int n_messages, n_sent, n_confirmed;
    struct buf scratch;
    struct text fill_props, fill_body;
};

static double cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double wall_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_amqp: %s\n", what);
    exit(1);
}

static void log_line(void *ctx, enum log_level level, const char *event, const char *fields)
{
    (void)ctx;
    fprintf(stderr, "%s %s %s\n", log_level_name(level), event, fields);
}

static const struct log_sink sink = {.write = log_line, .level = LOG_WARN};

static int transform(struct bench *b, const struct message *m)
{
    static const char id[] = "3f2a91c0-0000000000001234-1-0000000041c80000";
    struct header add[] = {
        header_text("x-harbinger-id", (struct text){id, sizeof id - 1}),
        header_text("x-harbinger-key", text_of("app/job")),
        header_text("x-harbinger-level", text_of("1")),
        header_text("x-harbinger-reason", text_of("predicted")),
        header_text("x-harbinger-exchange", m->exchange),
        header_text("x-harbinger-routing-key", m->routing_key),
    };
    static const struct text strip[] = {{"CC", 2}, {"BCC", 3}};
    struct props_edit edit = {.priority = 1,
                              .drop_user_id = true,
                              .strip_prefix = {"x-harbinger-", 12},
                              .strip = strip,
                              .n_strip = 2,
                              .add = add,
                              .n_add = 6};
    buf_reset(&b->scratch);
    return props_edit(&m->props, &edit, &b->scratch);
}

static void on_delivery(void *ctx, struct consumer_tag tag, bool redelivered, struct message *m)
{
    struct bench *b = ctx;
    struct item *item = malloc(sizeof *item);
    (void)redelivered;
    if (item == NULL || transform(b, m) < 0)
        fail("no memory");
    *item = (struct item){m, tag};
    struct publish p = {.exchange = text_of(""),
                        .routing_key = text_of("bench.out"),
                        .props = {b->scratch.p, b->scratch.n},
                        .body = m->body,
                        .token = text_of("3f2a91c0-0000000000001234-1-0000000041c80000"),
                        .cookie = item};
    if (publisher_publish(b->publisher, &p) != 0)
        fail("publish");
}

static void fill(struct bench *b)
{
    while (b->n_sent < b->n_messages) {
        struct publish p = {.exchange = text_of(""),
                            .routing_key = text_of("bench.in"),
                            .props = b->fill_props,
                            .body = b->fill_body,
                            .token = text_of("-")};
        if (publisher_publish(b->publisher, &p) != 0)
            return;
        b->n_sent++;
    }
}

static void on_confirmed(void *ctx, void *cookie)
{
    struct bench *b = ctx;
    struct item *item = cookie;
    if (item != NULL) {
        if (consumer_ack(b->consumer, item->tag) != 0)
            fail("ack");
        message_free(item->m);
        free(item);
    }
    if (++b->n_confirmed == b->n_messages)
        event_base_loopbreak(b->base);
}

static void on_room(void *ctx)
{
    struct bench *b = ctx;
    if (b->filling)
        fill(b);
}

static void on_returned(void *ctx, void *cookie, uint16_t code, struct text why)
{
    fail("returned");
}

static void on_nacked(void *ctx, void *cookie)
{
    fail("nacked");
}

static void on_lost(void *ctx, void *cookie, const struct loss *why)
{
    fail("lost");
}

static void on_up(void *ctx)
{
    struct bench *b = ctx;
    b->n_up++;
    event_base_loopbreak(b->base);
}

static void on_report(void *ctx, const struct topology_report *report)
{
    struct bench *b = ctx;
    if (report->result != TOPOLOGY_OK)
        fail(report->problems);
    event_base_loopbreak(b->base);
}

static struct link *new_link(struct bench *b, const char *name)
{
    const char *uri = getenv("HARBINGER_TEST_AMQP");
    struct link_options options = {
        .name = name, .uris = &uri, .n_uris = 1, .on_up = on_up, .ctx = b};
    struct link *l = NULL;
    struct err e;
    if (uri == NULL || link_new(b->base, &sink, &options, &l, &e) < 0)
        fail("no link: is HARBINGER_TEST_AMQP set?");
    int before = b->n_up;
    link_start(l);
    while (b->n_up == before)
        event_base_dispatch(b->base);
    return l;
}

static void declare(struct bench *b)
{
    const struct topology_arg levels = {.name = "x-max-priority", .number = 2};
    const struct topology_object o[] = {
        {.kind = TOPOLOGY_QUEUE, .name = "bench.in"},
        {.kind = TOPOLOGY_QUEUE, .name = "bench.out", .args = &levels, .n_args = 1}};
    struct topology_job job = {.objects = o, .n_objects = 2, .done = on_report, .ctx = b};
    if (topology_run(b->in, &job, &b->topology) < 0)
        fail("no memory");
    event_base_dispatch(b->base);
}

static void start_publisher(struct bench *b)
{
    struct publisher_options options = {
        .name = "bench",
        .window_messages = WINDOW,
        .window_bytes = 16 << 20,
        .on_confirmed = on_confirmed,
        .on_returned = on_returned,
        .on_nacked = on_nacked,
        .on_lost = on_lost,
        .on_up = on_up,
        .on_room = on_room,
        .ctx = b,
    };
    if (publisher_new(b->out, &options, &b->publisher) < 0)
        fail("no publisher");
    event_base_dispatch(b->base);
}

static void make_content(struct bench *b, size_t body_bytes, struct buf *props, struct buf *body)
{
    const struct header add[] = {
        header_text("job_type", text_of("invoice.render")),
        header_text("traceparent",
                    text_of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
        header_text("lang", text_of("py")),
        header_text("root_id", text_of("5e8c2b74-7a1a-4b5c-9c3e-1f2d3c4b5a69")),
        {text_of("retries"), 'I', {"\0\0\0\0", 4}},
        {text_of("eta"), 'V', {"", 0}},
    };
    struct props none;
    props_parse(&none, (struct text){"\x90\x08\x10"
                                     "application/json"
                                     "\2\3app",
                                     2 + 17 + 1 + 4});
    struct props_edit edit = {.priority = -1, .add = add, .n_add = 6};
    bool bad = none.opaque || props_edit(&none, &edit, props) < 0;
    for (size_t i = 0; i < body_bytes && !bad; i++)
        bad = buf_append(body, "b", 1) < 0;
    if (bad)
        fail("no content");
    b->fill_props = (struct text){props->p, props->n};
    b->fill_body = (struct text){body->p, body->n};
}

static void bench_transform(struct bench *b)
{
    enum { N = 200000 };
    struct message *m = message_new(text_of("ex"), text_of("bench.in"), b->fill_props, 0);
    double start = cpu_us();
    for (int i = 0; i < N; i++) {
        props_parse(&m->props, m->props.raw);
        if (transform(b, m) < 0)
            fail("transform");
    }
    printf("parse and edit: %.3f us per message\n", (cpu_us() - start) / N);
    message_free(m);
}

int main(int argc, char **argv)
{
    struct bench b = {.base = event_base_new(), .n_messages = argc > 1 ? atoi(argv[1]) : 50000};
    struct buf props = {0}, body = {0};
    make_content(&b, argc > 2 ? (size_t)atoi(argv[2]) : 256, &props, &body);
    bench_transform(&b);
    b.in = new_link(&b, "in");
    b.out = new_link(&b, "out");
    declare(&b);
    start_publisher(&b);
    b.filling = true;
    double cpu = cpu_us(), wall = wall_us();
    fill(&b);
    event_base_dispatch(b.base);
    printf("publish, confirm: %.2f us of CPU per message, %.0f msg/s\n",
           (cpu_us() - cpu) / b.n_messages, b.n_messages / (wall_us() - wall) * 1e6);

    struct consumer_options options = {
        .queue = "bench.in", .prefetch = WINDOW, .on_delivery = on_delivery, .ctx = &b};
    b.filling = false;
    b.n_confirmed = 0;
    cpu = cpu_us();
    wall = wall_us();
    if (consumer_new(b.in, &options, &b.consumer) < 0)
        fail("no consumer");
    event_base_dispatch(b.base);
    printf("consume, edit, publish, confirm, ack: %.2f us of CPU per message, %.0f msg/s\n",
           (cpu_us() - cpu) / b.n_messages, b.n_messages / (wall_us() - wall) * 1e6);

    topology_free(b.topology);
    consumer_free(b.consumer);
    publisher_free(b.publisher);
    link_free(b.in);
    link_free(b.out);
    event_base_free(b.base);
    buf_fini(&props);
    buf_fini(&body);
    buf_fini(&b.scratch);
    return 0;
}
