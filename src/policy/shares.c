#include "policy/shares.h"

#include <math.h>

#define UNITS_PER_MS 1441440.0 /* 2 x lcm(1..16) */

/* 11 days. A clock then overflows only after 400 years of work of one level. */
#define COST_MAX_MS  1e9
#define AVERAGE_GAIN 0.05 /* the reference's */

void shares_init(struct shares *s, const uint16_t *weights, unsigned n)
{
    *s = (struct shares){0};
    for (unsigned i = 0; i < n; i++)
        s->share[i].weight = weights[i];
}

int shares_least(const struct shares *s, const struct levels *l)
{
    int least = -1;
    for (unsigned w = 0; w < ARRAY_SIZE(l->servable); w++)
        for (uint64_t rest = l->servable[w]; rest != 0; rest &= rest - 1) {
            int i = (int)(w * LEVELS_WORD_BITS + (unsigned)__builtin_ctzll(rest));
            if (least < 0 || s->share[i].clock < s->share[least].clock)
                least = i;
        }
    return least;
}

static double cost_ms(const struct share *share, const struct policy_msg *m)
{
    double cost = m->estimate_ms >= 0 ? m->estimate_ms : share->average_ms;
    if (!isfinite(cost) || cost < 1)
        return 1;
    return cost < COST_MAX_MS ? cost : COST_MAX_MS;
}

void shares_charge(struct shares *s, unsigned i, struct policy_msg *m)
{
    struct share *share = &s->share[i];
    uint64_t charge = (uint64_t)(cost_ms(share, m) * UNITS_PER_MS / share->weight);
    if (charge > UINT64_MAX - share->clock)
        charge = UINT64_MAX - share->clock;
    if (s->floor < share->clock)
        s->floor = share->clock;
    m->charge = charge;
    share->clock += charge;
    share->charged += charge;
}

void shares_refund(struct shares *s, unsigned i, struct policy_msg *m)
{
    s->share[i].clock -= m->charge;
    s->share[i].charged -= m->charge;
    m->charge = 0;
}

void shares_wake(struct shares *s, unsigned i)
{
    if (s->share[i].clock < s->floor)
        s->share[i].clock = s->floor;
}

void shares_learn(struct shares *s, unsigned i, double duration_ms)
{
    double *average = &s->share[i].average_ms;
    if (*average > 0)
        *average += AVERAGE_GAIN * (duration_ms - *average);
    else
        *average = duration_ms;
}

double shares_clock_ms(const struct shares *s, unsigned i)
{
    return (double)s->share[i].clock / UNITS_PER_MS;
}

double shares_charged_ms(const struct shares *s, unsigned i)
{
    return (double)s->share[i].charged / UNITS_PER_MS * s->share[i].weight;
}
