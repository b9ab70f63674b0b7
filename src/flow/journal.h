/*
 * What a flow decided and what it was taught, as lines of text: enough to take all its decisions again
 * (sim/replay.h), and readable as they are. A line has six fields, a tab between two:
 *
 *   time_ns   event    key           level  ms    reason
 *   8123456   job      orders/mail   1      12.5  predicted      ms: the estimate, - for none
 *   9123456   learned  orders/mail   -      13.2  -              ms: the duration
 *   9223456   timeout  orders/mail   -      -     -
 *
 * Times are of a monotonic clock; the key is in printed form (key.h), empty where a message had none.
 */
#ifndef HARBINGER_FLOW_JOURNAL_H
#define HARBINGER_FLOW_JOURNAL_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/mono.h"
#include "base/text.h"
#include "flow/key.h"

#define JOURNAL_HEAD "time_ns\tevent\tkey\tlevel\tms\treason\n"

enum journal_event { JOURNAL_JOB, JOURNAL_LEARNED, JOURNAL_TIMEOUT };

struct journal_entry {
    mono_t at;
    enum journal_event event;
    struct key key;
    unsigned level;     /* of a job */
    double ms;          /* estimate or duration; negative: none */
    struct text reason; /* of a job */
};

/* Appends the line with its newline. 0 or ERR_NOMEM. */
int journal_print(const struct journal_entry *r, struct buf *out) MUST_CHECK;
/* Reads a line without its newline; `reason` is a view into it. 0 or ERR_INVALID. */
int journal_parse(struct text line, struct journal_entry *out) MUST_CHECK;

#endif
