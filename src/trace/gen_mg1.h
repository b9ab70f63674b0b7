/*
 * Two classes of jobs at one server: Poisson arrivals, a share of short jobs, all jobs of a class
 * of one size. For this case the mean waits under FIFO and under non-preemptive priority are known
 * in closed form (Cobham, 1954; the paper's equations 6 and 7), so a simulator can be held against
 * them.
 *
 * Pure: everything follows from the arguments.
 */
#ifndef HARBINGER_TRACE_GEN_MG1_H
#define HARBINGER_TRACE_GEN_MG1_H

#include "trace/trace.h"

enum { MG1_SHORT, MG1_LONG, MG1_N_CLASSES };

struct mg1_options {
    uint64_t seed;
    size_t jobs;
    double short_share; /* of the jobs, in (0, 1) */
    double ratio;       /* of a long job's size to a short one's, 1..1e6 */
    double load;        /* in (0, 1) */
    int64_t short_us;   /* the short size, 1..1e9 */
};

/* 1,000,000 jobs, 90 % of them short, of 10 ms; ratio 10, load 0.8. */
void mg1_options_init(struct mg1_options *o, uint64_t seed);

/* Writes o->jobs jobs to `out`; keys are MG1_SHORT and MG1_LONG. 0, or ERR_INVALID. */
int mg1_generate(const struct mg1_options *o, struct trace_job *out) MUST_CHECK;

const char *mg1_key_name(uint32_t key); /* "short", "long" */

struct mg1_waits {
    double fifo_us;  /* mean wait under FIFO */
    double short_us; /* under priority for the short class */
    double long_us;
    double all_us;
    double short_work; /* the short class's share of the work */
};

/* The closed forms. 0, or ERR_INVALID. */
int mg1_waits(const struct mg1_options *o, struct mg1_waits *out) MUST_CHECK;

#endif
