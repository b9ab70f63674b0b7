/*
 * The decisions that a daemon has written into its journal (flow/journal.h), taken again by the same
 * flow: with the daemon's options they are the same, with others one sees how many are not.
 */
#ifndef HARBINGER_SIM_REPLAY_H
#define HARBINGER_SIM_REPLAY_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/err.h"
#include "base/text.h"

#include <harbinger/predictor.h>

#include <stdint.h>

struct sim_replay;

struct sim_replay_counts {
    uint64_t lines; /* the header, too */
    uint64_t jobs, learned, timeouts;
    uint64_t without_key; /* jobs of which nothing can be known, now as then */
    uint64_t other_level, other_estimate;
    uint64_t
        first_other; /* the line of the first job that is decided otherwise; 0: there is none */
};

/* NULL with `e` set: a bad option, or no memory. Free with sim_replay_free. */
struct sim_replay *sim_replay_new(const struct hb_predictor_options *o, struct err *e) MUST_CHECK;
void sim_replay_free(struct sim_replay *r);

/* Takes the next line, without its newline; the first one is the header. `out` gets the line as it is
 * now; NULL: nobody asks. 0, or negative with `e` set, without the line's number. */
int sim_replay_line(struct sim_replay *r, struct text line, struct buf *out,
                    struct err *e) MUST_CHECK;

void sim_replay_counts(const struct sim_replay *r, struct sim_replay_counts *out);

#endif
