/* A trace in memory, for tests and benchmarks of the simulator. Keys are called k0, k1, ... */
#ifndef HARBINGER_TESTS_JOBS_H
#define HARBINGER_TESTS_JOBS_H

#include "sim/sim.h"

struct jobs {
    struct sim_job *at; /* the caller's */
    size_t n, next;
    char name[16]; /* of the latest key that was asked for */
};

/* The source borrows the jobs. */
struct sim_source jobs_source(struct jobs *j);

#endif
