/*
 * The journal (journal.path): every decision of the flow and every lesson, as lines of a file
 * (flow/journal.h). Lines are written once a second or by 64 KiB; what cannot be written is lost,
 * counted and said, and holds nothing up.
 */
#ifndef HARBINGER_SIDECAR_JOURNAL_H
#define HARBINGER_SIDECAR_JOURNAL_H

#include "base/compiler.h"
#include "base/err.h"
#include "base/log.h"
#include "flow/flow.h"

#include <event2/event.h>
#include <stdint.h>

struct journal;

/* Appends to the file, which is made if there is none. 0, or negative with `err` set. */
int journal_new(struct event_base *base, const char *path, const struct log_sink *log,
                struct journal **out, struct err *err) MUST_CHECK;
/* Writes what is left. NULL does nothing. */
void journal_free(struct journal *j);

/* For flow_options; the journal must outlive the flow. NULL: a witness that is told nothing. */
struct flow_witness journal_witness(struct journal *j);

/* Opens the file again: it was renamed to be kept. A failure is logged; the old one stays. */
void journal_reopen(struct journal *j);

/* Lines lost since the start; 0 for NULL. */
uint64_t journal_lost(const struct journal *j);

#endif
