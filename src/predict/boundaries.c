#include "predict/boundaries.h"

#include <math.h>
#include <string.h>

void boundaries_init(struct boundaries *b, unsigned levels, double hysteresis)
{
    *b = (struct boundaries){.levels = levels, .hysteresis = hysteresis};
    b->seq = levels == 1;
}

bool boundaries_rise(const double *at, unsigned n)
{
    double last = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!isfinite(at[i]) || at[i] <= last)
            return false;
        last = at[i];
    }
    return true;
}

/* Keeps each published value that the fresh one hardly moves, if the mix still rises. */
static void resist(const struct boundaries *b, double *fresh)
{
    double mix[HB_LEVELS_MAX - 1];
    for (unsigned i = 0; i < b->n; i++) {
        bool near = fabs(fresh[i] - b->at[i]) <= b->hysteresis * b->at[i];
        mix[i] = near ? b->at[i] : fresh[i];
    }
    if (boundaries_rise(mix, b->n))
        memcpy(fresh, mix, b->n * sizeof *fresh);
}

enum boundaries_result boundaries_refresh(struct boundaries *b, const struct histogram_layout *l,
                                          const struct histogram *pooled)
{
    double fresh[HB_LEVELS_MAX - 1] = {0};
    unsigned n = b->levels - 1;
    for (unsigned i = 0; i < n; i++)
        fresh[i] = histogram_quantile(l, pooled, (double)(i + 1) / b->levels);
    if (!boundaries_rise(fresh, n))
        return BOUNDARIES_DEGENERATE;
    if (boundaries_ready(b)) {
        resist(b, fresh);
        if (memcmp(fresh, b->at, n * sizeof *fresh) == 0)
            return BOUNDARIES_SAME;
    }
    memcpy(b->at, fresh, n * sizeof *fresh);
    b->n = n;
    b->seq++;
    return BOUNDARIES_PUBLISHED;
}

unsigned boundaries_level(const struct boundaries *b, double ms)
{
    unsigned low = 0, high = b->n;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (b->at[middle] <= ms)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

unsigned boundaries_sticky_level(const struct boundaries *b, double ms, unsigned remembered)
{
    unsigned level = boundaries_level(b, ms);
    if (remembered == level || remembered >= b->levels)
        return level;
    double low = remembered > 0 ? b->at[remembered - 1] * (1 - b->hysteresis) : 0;
    double high = remembered < b->n ? b->at[remembered] * (1 + b->hysteresis) : HUGE_VAL;
    return ms >= low && ms < high ? remembered : level;
}
