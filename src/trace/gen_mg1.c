#include "trace/gen_mg1.h"

#include "base/rng.h"

#include <math.h>

void mg1_options_init(struct mg1_options *o, uint64_t seed)
{
    *o = (struct mg1_options){.seed = seed,
                              .jobs = 1000000,
                              .short_share = 0.9,
                              .ratio = 10,
                              .load = 0.8,
                              .short_us = 10000};
}

static bool valid(const struct mg1_options *o)
{
    return o->short_share > 0 && o->short_share < 1 && o->ratio >= 1 && o->ratio <= 1e6 &&
           o->load > 0 && o->load < 1 && o->short_us >= 1 && o->short_us <= 1000000000;
}

/* The sizes as they are written: whole microseconds. */
static double size_us(const struct mg1_options *o, int class)
{
    return class == MG1_SHORT ? (double)o->short_us : round((double)o->short_us * o->ratio);
}

static double mean_us(const struct mg1_options *o)
{
    return o->short_share * size_us(o, MG1_SHORT) + (1 - o->short_share) * size_us(o, MG1_LONG);
}

int mg1_generate(const struct mg1_options *o, struct trace_job *out)
{
    if (!valid(o))
        return ERR_INVALID;
    struct rng rng = {o->seed};
    double at = 0, gap = mean_us(o) / o->load;
    for (size_t i = 0; i < o->jobs; i++) {
        at += -log(1 - rng_unit(&rng)) * gap;
        int class = rng_unit(&rng) < o->short_share ? MG1_SHORT : MG1_LONG;
        if (at > (double)TRACE_MAX_US)
            return ERR_INVALID;
        out[i] = (struct trace_job){.arrival_us = (int64_t)at,
                                    .duration_us = (int64_t)size_us(o, class),
                                    .size = TRACE_NO_SIZE,
                                    .key = (uint32_t) class,
                                    .producer = TRACE_NO_PRODUCER};
    }
    return 0;
}

const char *mg1_key_name(uint32_t key)
{
    return key == MG1_SHORT ? "short" : "long";
}

int mg1_waits(const struct mg1_options *o, struct mg1_waits *out)
{
    if (!valid(o))
        return ERR_INVALID;
    double p = o->short_share, s = size_us(o, MG1_SHORT), l = size_us(o, MG1_LONG);
    double rate = o->load / mean_us(o), rho_short = rate * p * s;
    /* What an arrival finds being served, on average, in remaining work. */
    double remaining = rate * (p * s * s + (1 - p) * l * l) / 2;
    out->fifo_us = remaining / (1 - o->load);
    out->short_us = remaining / (1 - rho_short);
    out->long_us = remaining / ((1 - rho_short) * (1 - o->load));
    out->all_us = p * out->short_us + (1 - p) * out->long_us;
    out->short_work = p * s / mean_us(o);
    return 0;
}
