#include "lab/stats.h"

#include "base/err.h"
#include "lab/mt19937.h"

#include <math.h>
#include <stdlib.h>

void stats_bootstrap_init(struct stats_bootstrap *b)
{
    *b = (struct stats_bootstrap){.resamples = 10000, .seed = 2026, .confidence = 0.95, .block = 1};
}

/* ---- the bootstrap ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool usable(const double *values, size_t n, const struct stats_bootstrap *b)
{
    if (n < 2 || b->resamples < 1 || b->resamples > 1000000 || b->block < 1 || b->block > n ||
        !(b->confidence > 0 && b->confidence < 1))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

static double resample(struct mt19937 *random, const double *values, size_t n, size_t block)
{
    size_t n_starts = n - block + 1, drawn = 0;
    double sum = 0;
    while (drawn < n) {
        size_t start = (size_t)(mt19937_unit(random) * (double)n_starts);
        for (size_t i = 0; i < block && drawn < n; i++, drawn++)
            sum += values[start + i];
    }
    return sum / (double)n;
}

/* What was meant by a product such as 10000 x 0.975. */
static double cleaned(double x)
{
    double whole = round(x);
    return fabs(x - whole) < 1e-6 ? whole : x;
}

int stats_bootstrap_mean(const double *values, size_t n, const struct stats_bootstrap *b,
                         struct stats_interval *out)
{
    struct mt19937 random;
    if (!usable(values, n, b))
        return ERR_INVALID;
    double *means = malloc(b->resamples * sizeof *means), sum = 0;
    if (means == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    mt19937_seed(&random, b->seed);
    for (unsigned r = 0; r < b->resamples; r++)
        means[r] = resample(&random, values, n, b->block);
    qsort(means, b->resamples, sizeof *means, compare);
    double tail = (1 - b->confidence) / 2;
    size_t low = (size_t)floor(cleaned(b->resamples * tail));
    size_t high = (size_t)ceil(cleaned(b->resamples * (1 - tail))) - 1;
    *out = (struct stats_interval){sum / (double)n, means[low], means[high]};
    free(means);
    return 0;
}

/* ---- criteria ---- */

const char *stats_status_name(enum stats_status s)
{
    static const char *const names[] = {
#define STATS_STATUS_WORD(name, word) word,
        STATS_STATUS_MAP(STATS_STATUS_WORD)
#undef STATS_STATUS_WORD
    };
    return (unsigned)s < ARRAY_SIZE(names) ? names[s] : "unknown";
}

static bool passes(const struct stats_criterion *c, const struct stats_interval *i, double *margin)
{
    switch (c->rule) {
    case STATS_CHANGE:
        *margin = c->bar - (c->bar < 0 ? i->point : i->high);
        if (c->bar > 0)
            return i->high <= c->bar;
        return i->high < 0 && (c->bar == 0 || i->point <= c->bar);
    case STATS_MAX_RATIO: *margin = c->bar - i->high; return i->high <= c->bar;
    case STATS_MIN_RATIO: *margin = i->low - c->bar; return i->low >= c->bar;
    case STATS_BAND: break;
    }
    *margin = c->bar - fmax(i->high, -i->low);
    return -c->bar <= i->low && i->high <= c->bar;
}

int stats_judge(const struct stats_criterion *c, const double *arm, const double *base, size_t n,
                const struct stats_bootstrap *b, struct stats_verdict *out)
{
    bool is_ratio = c->rule == STATS_MAX_RATIO || c->rule == STATS_MIN_RATIO;
    *out = (struct stats_verdict){.status = STATS_INSUFFICIENT};
    if (n < 2)
        return 0;
    double *values = malloc(n * sizeof *values);
    if (values == NULL)
        return ERR_NOMEM;
    int r = 0;
    out->status = STATS_FAIL;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(arm[i]) || !isfinite(base[i]) || base[i] == 0)
            out->status = STATS_UNEVALUABLE;
        values[i] = is_ratio ? arm[i] / base[i] : (arm[i] - base[i]) / base[i];
        out->over_limit |= c->limit > 0 && arm[i] > c->limit;
    }
    if (out->status != STATS_UNEVALUABLE)
        r = stats_bootstrap_mean(values, n, b, &out->interval);
    if (r == 0 && out->status != STATS_UNEVALUABLE && passes(c, &out->interval, &out->margin) &&
        !out->over_limit)
        out->status = STATS_PASS;
    free(values);
    return r;
}
