#include "sidecar/topology_of.h"

#define REPORTS_MAX_LENGTH 100000
#define REPORTS_TTL_MS     600000

static void add(struct topology_of *t, struct topology_object object)
{
    t->objects[t->n++] = object;
}

static unsigned highest_priority(const struct conf *c)
{
    unsigned highest = 0;
    for (unsigned level = 0; level < c->levels; level++)
        if (conf_priority(c, level) > highest)
            highest = conf_priority(c, level);
    return highest;
}

/* The work queue is ours to describe only when we publish to it by name; behind a named exchange
 * there may be any. */
static void add_destination(const struct conf *c, struct topology_of *t)
{
    if (c->work.exchange[0] != '\0') {
        add(t, (struct topology_object){
                   .kind = TOPOLOGY_EXCHANGE, .name = c->work.exchange, .must_exist = true});
        return;
    }
    unsigned highest = highest_priority(c);
    t->work_args[0] = (struct topology_arg){.name = "x-max-priority", .number = highest};
    add(t, (struct topology_object){.kind = TOPOLOGY_QUEUE,
                                    .name = c->work.queue,
                                    .args = t->work_args,
                                    .n_args = highest > 0 ? 1 : 0});
}

static void add_reports(const struct conf *c, struct topology_of *t)
{
    t->report_args[0] = (struct topology_arg){.name = "x-max-length", .number = REPORTS_MAX_LENGTH};
    t->report_args[1] = (struct topology_arg){.name = "x-message-ttl", .number = REPORTS_TTL_MS};
    t->report_args[2] = (struct topology_arg){.name = "x-overflow", .text = "drop-head"};
    add(t, (struct topology_object){
               .kind = TOPOLOGY_EXCHANGE, .name = c->reports.exchange, .type = "fanout"});
    add(t, (struct topology_object){.kind = TOPOLOGY_QUEUE,
                                    .name = c->reports.queue,
                                    .args = t->report_args,
                                    .n_args = ARRAY_SIZE(t->report_args)});
    add(t, (struct topology_object){
               .kind = TOPOLOGY_BINDING, .name = c->reports.queue, .type = c->reports.exchange});
}

void topology_of(const struct conf *c, struct topology_of *out)
{
    *out = (struct topology_of){.n = 0};
    add(out, (struct topology_object){
                 .kind = TOPOLOGY_QUEUE, .name = c->intake.queue, .any_arguments = true});
    add(out, (struct topology_object){
                 .kind = TOPOLOGY_QUEUE, .name = c->parked.queue, .any_arguments = true});
    if (c->backend == CONF_BACKEND_RABBITMQ)
        add_destination(c, out);
    else if (c->proxy.listen[0] != '\0') /* what consumers stand on; normally empty */
        add(out, (struct topology_object){
                     .kind = TOPOLOGY_QUEUE, .name = c->work.queue, .any_arguments = true});
    add_reports(c, out);
}
