/* From the configuration to what the flow takes. */
#ifndef HARBINGER_SIDECAR_RULES_H
#define HARBINGER_SIDECAR_RULES_H

#include "base/buf.h"
#include "base/compiler.h"
#include "conf/conf.h"
#include "flow/flow.h"

/* Borrows texts of `c`, which must outlive the rules. */
void rules_of(const struct conf *c, struct flow_rules *out);

/* The same for all options; instance and seeds are drawn at random. */
void rules_flow_options(const struct conf *c, struct flow_options *out);

/* What a snapshot must agree on to be of use: the key's sources. 0 or ERR_NOMEM. */
int rules_snapshot_context(const struct conf *c, struct buf *out) MUST_CHECK;

#endif
