/*
 * The side queue: ack reports from workers, handed to the flow and acknowledged whatever they hold.
 * Its prefetch is what bounds the work per turn, so a flood of reports shares the connection with
 * the intake and never starves it.
 */
#ifndef HARBINGER_SIDECAR_REPORTS_H
#define HARBINGER_SIDECAR_REPORTS_H

#include "amqp/link.h"
#include "base/compiler.h"
#include "base/log.h"
#include "flow/flow.h"

#include <stdbool.h>
#include <stdint.h>

struct reports;

/* 0, ERR_INVALID or ERR_NOMEM. Everything is borrowed. */
int reports_new(struct link *l, const struct log_sink *log, const char *queue, struct flow *flow,
                struct reports **out) MUST_CHECK;
void reports_free(struct reports *r);

bool reports_is_up(const struct reports *r);
/* Messages taken from the side queue; one may hold a list of reports. */
uint64_t reports_received(const struct reports *r);

#endif
