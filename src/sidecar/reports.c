#include "sidecar/reports.h"

#include "amqp/consumer.h"
#include "sidecar/loop.h"

#include <stdio.h>
#include <stdlib.h>

#define PREFETCH 100
/* A list of some 100,000 reports. A larger body is counted as malformed without being kept. */
#define MAX_REPORT_BYTES (8 << 20)

struct reports {
    const struct log_sink *log;
    const char *queue;
    struct flow *flow;
    struct consumer *consumer;
    uint64_t received;
};

static struct text field(const struct message *m, const char *name)
{
    return props_header_text(&m->props, text_of(name));
}

/* A report without a body has its fields as headers; the duration may be any number type, or text.
 */
static void take_headers(struct reports *r, const struct message *m)
{
    struct header h;
    double number;
    char text[32];
    struct text duration = field(m, "duration_ms");
    if (props_header(&m->props, text_of("duration_ms"), &h) && header_number(&h, &number))
        duration = (struct text){text, (size_t)snprintf(text, sizeof text, "%.17g", number)};
    struct report report;
    bool usable =
        report_from_fields(field(m, "id"), field(m, "key"), duration, field(m, "outcome"), &report);
    flow_report(r->flow, usable ? &report : NULL, loop_now());
}

static void on_delivery(void *ctx, struct consumer_tag tag, bool redelivered, struct message *m)
{
    struct reports *r = ctx;
    r->received++;
    if (m->body_cut)
        flow_report(r->flow, NULL, loop_now());
    else if (m->body.n > 0)
        flow_report_body(r->flow, m->body.p, m->body.n, loop_now());
    else
        take_headers(r, m);
    message_free(m);
    /* Stale or not: a report that comes again is told by its id. */
    if (consumer_ack(r->consumer, tag) < 0)
        log_event(r->log, LOG_WARN, "reports.ack", "queue=" LOG_Q " reason=" LOG_Q, r->queue,
                  "out of memory");
}

int reports_new(struct link *l, const struct log_sink *log, const char *queue, struct flow *flow,
                struct reports **out)
{
    struct reports *r = calloc(1, sizeof *r);
    if (r == NULL)
        return ERR_NOMEM;
    *r = (struct reports){.log = log, .queue = queue, .flow = flow};
    struct consumer_options o = {
        .queue = queue,
        .prefetch = PREFETCH,
        .max_message_bytes = MAX_REPORT_BYTES,
        .cut_larger = true,
        .on_delivery = on_delivery,
        .ctx = r,
    };
    int e = consumer_new(l, &o, &r->consumer);
    if (e < 0) {
        free(r);
        return e;
    }
    *out = r;
    return 0;
}

void reports_free(struct reports *r)
{
    if (r == NULL)
        return;
    consumer_free(r->consumer);
    free(r);
}

bool reports_is_up(const struct reports *r)
{
    return consumer_is_up(r->consumer);
}

uint64_t reports_received(const struct reports *r)
{
    return r->received;
}
