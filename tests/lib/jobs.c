#include "lib/jobs.h"

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
    struct jobs *j = ctx;
    char digits[10];
    size_t n = 0, at = 0;
    do
        digits[n++] = (char)('0' + i % 10);
    while ((i /= 10) > 0);
    j->name[at++] = 'k';
    while (n > 0)
        j->name[at++] = digits[--n];
    return (struct text){j->name, at};
}

struct sim_source jobs_source(struct jobs *j)
{
    return (struct sim_source){j, next, rewind_jobs, key, NULL};
}
