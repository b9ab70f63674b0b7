/* What must exist at RabbitMQ for a configuration (docs/amqp.md, "Queues"). */
#ifndef HARBINGER_SIDECAR_TOPOLOGY_OF_H
#define HARBINGER_SIDECAR_TOPOLOGY_OF_H

#include "amqp/topology.h"
#include "conf/conf.h"

#include <stddef.h>

#define TOPOLOGY_OF_MAX 7

struct topology_of {
    struct topology_object objects[TOPOLOGY_OF_MAX]; /* the intake first */
    enum topology_queue_type types[TOPOLOGY_OF_MAX]; /* found out by whoever asks */
    size_t n;
    struct topology_arg work_args[1], report_args[3];
};

/* Borrows texts of `c`. The result points into itself: it must not be moved. */
void topology_of(const struct conf *c, struct topology_of *out);

#endif
