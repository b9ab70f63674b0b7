#include "trace/gen_toy.h"

#include "base/rng.h"

void toy_options_init(struct toy_options *o, uint64_t seed)
{
    *o = (struct toy_options){.seed = seed,
                              .per_level = 48,
                              .load = 1.2,
                              .seconds = 150,
                              .workers = 1,
                              .service_us = 10000};
}

static bool service_valid(const struct toy_options *o)
{
    return o->service_us >= 1000 && o->service_us <= 1000000000;
}

size_t toy_backlog_jobs(const struct toy_options *o)
{
    return service_valid(o) && o->per_level <= 1000000 ? TOY_N_CLASSES * o->per_level : 0;
}

size_t toy_overload_jobs(const struct toy_options *o)
{
    if (!service_valid(o) || !(o->load > 0 && o->load <= 100) || o->workers < 1 ||
        o->workers > 1000 || !(o->seconds > 0 && o->seconds <= 86400))
        return 0;
    return (size_t)(o->seconds * 1e6 * o->load * o->workers / (double)o->service_us + 1e-6);
}

static struct trace_job job(const struct toy_options *o, int64_t arrival_us, int class)
{
    return (struct trace_job){.arrival_us = arrival_us,
                              .duration_us = o->service_us,
                              .size = TRACE_NO_SIZE,
                              .key = (uint32_t) class,
                              .producer = TRACE_NO_PRODUCER};
}

void toy_backlog(const struct toy_options *o, struct trace_job *out)
{
    for (size_t i = 0; i < TOY_N_CLASSES * o->per_level; i++)
        out[i] = job(o, 0, (int)(i % TOY_N_CLASSES));
}

void toy_overload(const struct toy_options *o, struct trace_job *out)
{
    struct rng rng = {o->seed};
    size_t n = toy_overload_jobs(o);
    double gap_us = (double)o->service_us / (o->load * o->workers);
    for (size_t i = 0; i < n; i++) {
        double u = rng_unit(&rng);
        int class = u < 0.5 ? TOY_SHORT : u < 0.8 ? TOY_MEDIUM : TOY_LONG;
        out[i] = job(o, (int64_t)((double)i * gap_us), class);
    }
}

const char *toy_key_name(uint32_t key)
{
    static const char *const names[] = {"short", "medium", "long"};
    return names[key];
}
