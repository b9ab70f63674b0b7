/*
 * A stand-in for the Azure Functions 2021 trace, which its publisher hosts: as many jobs and keys,
 * and the published statistics of their durations, of the spread within a key, of what a first half
 * teaches about the second, and of the load by the hour, with one hour that holds most of the
 * second half's work. Nothing of the trace itself is in it.
 *
 * Pure: everything follows from the arguments.
 */
#ifndef HARBINGER_TRACE_GEN_SERVERLESS_H
#define HARBINGER_TRACE_GEN_SERVERLESS_H

#include "trace/trace.h"

enum {
    SERVERLESS_JOBS = 1980951,
    SERVERLESS_JOBS_MIN = 100000, /* with fewer, the rare keys would not be rare */
    SERVERLESS_JOBS_MAX = 100000000,
    SERVERLESS_KEYS = 424
};

struct serverless_options {
    uint64_t seed;
    size_t jobs;
};

void serverless_options_init(struct serverless_options *o, uint64_t seed);

/* Writes o->jobs jobs to `out`, over 14 days; keys are 0..SERVERLESS_KEYS - 1, all of them occur.
 * 0, or ERR_INVALID. */
int serverless_generate(const struct serverless_options *o, struct trace_job *out) MUST_CHECK;

/* "app-07/function-123". */
void serverless_key_name(uint32_t key, char out[32]);

#endif
