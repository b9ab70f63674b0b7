/*
 * The paper's two illustrations of its aging and weights, as traces: a backlog in which every level
 * always has work (figure 6), and sustained overload (figure 7). All jobs take equally long; the
 * key says which level the job is for. The paper states neither workers nor service time of figure
 * 7; the defaults here are ours.
 *
 * Pure: everything follows from the arguments.
 */
#ifndef HARBINGER_TRACE_GEN_TOY_H
#define HARBINGER_TRACE_GEN_TOY_H

#include "trace/trace.h"

enum { TOY_SHORT, TOY_MEDIUM, TOY_LONG, TOY_N_CLASSES };

struct toy_options {
    uint64_t seed;      /* overload only: which job is of which class */
    size_t per_level;   /* backlog only: jobs of each class, all there at 0; up to 1e6 */
    double load;        /* overload only: arrivals over capacity; up to 100 */
    double seconds;     /* overload only: of arrivals, evenly spaced; up to a day */
    uint32_t workers;   /* overload only: makes the capacity; up to 1000 */
    int64_t service_us; /* 1000..1e9 */
};

/* 48 for each level, or 120 % of one worker's 100 jobs a second for 150 s. */
void toy_options_init(struct toy_options *o, uint64_t seed);

/* How many jobs that makes; 0 when the options are out of range. */
size_t toy_backlog_jobs(const struct toy_options *o);
size_t toy_overload_jobs(const struct toy_options *o);

/* Write so many jobs to `out`. Half of the overload is short, three tenths medium, two tenths
 * long. */
void toy_backlog(const struct toy_options *o, struct trace_job *out);
void toy_overload(const struct toy_options *o, struct trace_job *out);

const char *toy_key_name(uint32_t key); /* "short", "medium", "long" */

#endif
