#include "lib/jobs.h"

#include <stdio.h>

static int next(void *ctx, struct sim_job *out, struct err *e)
{
    struct jobs *j = ctx;
    if (j->next == j->n)
        return 0;
    *out = j->at[j->next++];
    return 1;
}

static int rewind_jobs(void *ctx, struct err *e)
{
    struct jobs *j = ctx;
    j->next = 0;
    return 0;
}

static struct text key(void *ctx, uint32_t i)
{
    return text_of(((struct jobs *)ctx)->names[i]);
}

struct sim_source jobs_source(struct jobs *j)
{
    for (unsigned i = 0; i < JOBS_KEYS; i++)
        snprintf(j->names[i], sizeof j->names[i], "k%u", i);
    return (struct sim_source){j, next, rewind_jobs, key, NULL};
}
