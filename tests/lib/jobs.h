/* A trace in memory, for tests and benchmarks of the simulator. Keys are called k0, k1, ... */
#ifndef HARBINGER_TESTS_JOBS_H
#define HARBINGER_TESTS_JOBS_H

#include "sim/sim.h"

enum { JOBS_KEYS = 500 };

struct jobs {
    struct sim_job *at; /* the caller's */
    size_t n, next;
    char names[JOBS_KEYS][8]; /* k0, k1, ... */
};

/* The source borrows the jobs, whose keys are below JOBS_KEYS. */
struct sim_source jobs_source(struct jobs *j);

#endif
