#ifndef HARBINGER_BROKER_BROKER_CHECK_H
#define HARBINGER_BROKER_BROKER_CHECK_H

struct hb_broker;

/* Walks every structure. NULL when all is well, else words for the first broken invariant. For
 * tests and simulators. */
const char *hb_broker_check(const struct hb_broker *b);

#endif
