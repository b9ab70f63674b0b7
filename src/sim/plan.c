#include "sim/plan.h"

#include "lab/quantile.h"

#include <stdlib.h>
#include <string.h>

/* A reference duration with its key, in one word that sorts by key and then duration. Durations of
 * 12 days and more are all the same here. */
enum { DURATION_BITS = 40, KEYS_MAX = 1 << 24 };
#define DURATION_MASK ((UINT64_C(1) << DURATION_BITS) - 1)

/* ---- reading ---- */

int plan_read(struct plan_reader *r, struct sim_job *out, struct err *e)
{
    int got = r->source->next(r->source->ctx, out, e);
    if (got <= 0)
        return got;
    unsigned long long row = r->row++;
    if (out->arrival_us < 0 || out->arrival_us > SIM_MAX_US || out->duration_us < 0 ||
        out->duration_us > SIM_MAX_US)
        return err_set(e, ERR_INVALID, "job %llu: a time is negative or above 100 years", row);
    if (out->arrival_us < r->before)
        return err_set(e, ERR_INVALID, "job %llu arrives before the one in front of it", row);
    if (out->key >= KEYS_MAX)
        return err_set(e, ERR_INVALID, "job %llu has the key %lu: at most %d keys", row,
                       (unsigned long)out->key, KEYS_MAX);
    r->before = out->arrival_us;
    return 1;
}

struct extent {
    uint64_t n;
    int64_t first_us, last_us;
    uint32_t n_keys;
};

static int measure_extent(const struct sim_source *s, struct extent *x, struct err *e)
{
    struct plan_reader reader = {.source = s};
    struct sim_job job;
    int r;
    *x = (struct extent){0};
    while ((r = plan_read(&reader, &job, e)) > 0) {
        if (x->n++ == 0)
            x->first_us = job.arrival_us;
        x->last_us = job.arrival_us;
        if (job.key >= x->n_keys)
            x->n_keys = job.key + 1;
    }
    return r;
}

/* ---- the parts ---- */

/* The rows of the history under a split by rows; for one by time, the time at which it ends. */
struct border {
    uint64_t rows;
    int64_t before_us;
};

static struct border border_of(const struct sim_split *split, const struct extent *x)
{
    struct border b = {.rows = UINT64_MAX, .before_us = INT64_MAX};
    if (split->by == SIM_BY_ROWS)
        b.rows = (uint64_t)(split->history * (double)x->n);
    else
        b.before_us = x->first_us + (int64_t)(split->history * (double)(x->last_us - x->first_us));
    return b;
}

struct survey {
    struct sim_plan *plan;
    uint64_t *references;
    uint64_t n_references, room;
};

static void take_history(struct survey *s, const struct sim_job *job)
{
    uint64_t duration = (uint64_t)job->duration_us;
    s->plan->info.n_history++;
    s->references[s->n_references++] =
        (uint64_t)job->key << DURATION_BITS | (duration < DURATION_MASK ? duration : DURATION_MASK);
}

static void take_evaluation(struct survey *s, const struct sim_job *job)
{
    struct sim_plan *p = s->plan;
    if (p->info.n_evaluation++ == 0)
        p->first_us = job->arrival_us;
    p->last_us = job->arrival_us;
    p->info.work_us += (double)job->duration_us;
}

static int survey_parts(struct survey *s, const struct sim_source *source,
                        const struct border *border, struct err *e)
{
    struct plan_reader reader = {.source = source};
    struct sim_job job;
    bool all = s->plan->split.history == 0; /* without a history all are references */
    int r;
    for (uint64_t row = 0; (r = plan_read(&reader, &job, e)) > 0; row++) {
        if (row == s->room || job.key >= s->plan->info.n_keys)
            return err_set(e, ERR_INVALID, "the trace has changed while it was read");
        bool history = !all && row < border->rows && job.arrival_us < border->before_us;
        if (history || all)
            take_history(s, &job);
        if (!history)
            take_evaluation(s, &job);
    }
    if (all)
        s->plan->info.n_history = 0;
    return r;
}

/* ---- quantiles ---- */

/* The triangle's row of L levels begins here: L - 1 boundaries each. */
static size_t triangle(unsigned levels)
{
    return (size_t)(levels - 1) * (levels - 2) / 2;
}

static void find_medians(struct sim_plan *p, const uint64_t *sorted, uint64_t n)
{
    for (uint32_t k = 0; k < p->info.n_keys; k++)
        p->median_us[k] = -1;
    for (uint64_t from = 0, to; from < n; from = to) {
        uint64_t key = sorted[from] >> DURATION_BITS;
        for (to = from + 1; to < n && sorted[to] >> DURATION_BITS == key; to++)
            ;
        uint64_t median = sorted[from + quantile_index(to - from, 0.5)];
        p->median_us[key] = (int64_t)(median & DURATION_MASK);
    }
}

static void find_boundaries(struct sim_plan *p, const uint64_t *sorted, uint64_t n)
{
    for (unsigned levels = 2; levels <= HB_LEVELS_MAX; levels++)
        for (unsigned i = 1; i < levels; i++)
            p->quantile_us[triangle(levels) + i - 1] =
                (int64_t)sorted[quantile_index(n, (double)i / levels)];
}

static void find_quantiles(struct survey *s)
{
    struct sim_plan *p = s->plan;
    quantile_sort(s->references, s->n_references);
    find_medians(p, s->references, s->n_references);
    for (uint64_t i = 0; i < s->n_references; i++)
        s->references[i] &= DURATION_MASK;
    quantile_sort(s->references, s->n_references);
    find_boundaries(p, s->references, s->n_references);
    for (unsigned i = 1; i < SIM_CLASSES; i++)
        p->info.class_us[i - 1] = plan_boundary(p, SIM_CLASSES, i);
}

int64_t plan_boundary(const struct sim_plan *p, unsigned levels, unsigned i)
{
    return p->quantile_us[triangle(levels) + i - 1];
}

unsigned plan_level(const struct sim_plan *p, unsigned levels, int64_t duration_us)
{
    unsigned level = 0;
    while (level + 1 < levels && plan_boundary(p, levels, level + 1) <= duration_us)
        level++;
    return level;
}

/* ---- windows ---- */

unsigned plan_window(const struct sim_plan *p, uint64_t row, int64_t arrival_us)
{
    if (p->split.windows_by == SIM_BY_ROWS || p->last_us == p->first_us)
        return (unsigned)(row * p->split.windows / p->info.n_evaluation);
    uint64_t at = (uint64_t)(arrival_us - p->first_us), span = (uint64_t)(p->last_us - p->first_us);
    unsigned w = (unsigned)(at * p->split.windows / span);
    return w < p->split.windows ? w : p->split.windows - 1;
}

/* ---- life ---- */

static int check_split(const struct sim_split *s, struct err *e)
{
    if (!(s->history >= 0 && s->history <= 0.9))
        return err_set(e, ERR_INVALID, "history must be a share of 0..0.9 of the trace");
    if (s->windows < 1 || s->windows > SIM_WINDOWS_MAX)
        return err_set(e, ERR_INVALID, "windows must be 1..%d", SIM_WINDOWS_MAX);
    return 0;
}

static int fill(struct sim_plan *p, struct survey *s, const struct sim_source *source,
                struct err *e)
{
    struct extent x;
    int r = measure_extent(source, &x, e);
    if (r < 0)
        return r;
    if (x.n == 0)
        return err_set(e, ERR_INVALID, "the trace has no jobs");
    p->info.n_keys = x.n_keys;
    s->room = x.n;
    s->references = malloc(x.n * sizeof s->references[0]);
    p->median_us = malloc(x.n_keys * sizeof p->median_us[0]);
    p->quantile_us = malloc(triangle(HB_LEVELS_MAX + 1) * sizeof p->quantile_us[0]);
    if (s->references == NULL || p->median_us == NULL || p->quantile_us == NULL)
        return err_set(e, ERR_NOMEM, "no memory for the durations of %llu jobs",
                       (unsigned long long)x.n);
    struct border border = border_of(&p->split, &x);
    if ((r = source->rewind(source->ctx, e)) < 0 || (r = survey_parts(s, source, &border, e)) < 0)
        return r;
    if (p->info.n_evaluation == 0 || s->n_references == 0)
        return err_set(e, ERR_INVALID, "a trace of %llu jobs is too short to be split",
                       (unsigned long long)x.n);
    find_quantiles(s);
    p->info.span_us = p->last_us - p->first_us;
    return 0;
}

struct sim_plan *sim_plan_new(const struct sim_source *source, const struct sim_split *split,
                              struct err *e)
{
    if (check_split(split, e) < 0)
        return NULL;
    struct sim_plan *p = calloc(1, sizeof *p);
    if (p == NULL) {
        err_set(e, ERR_NOMEM, "no memory for the plan");
        return NULL;
    }
    p->split = *split;
    struct survey s = {.plan = p};
    int r = fill(p, &s, source, e);
    free(s.references);
    if (r == 0)
        return p;
    sim_plan_free(p);
    return NULL;
}

void sim_plan_free(struct sim_plan *p)
{
    if (p == NULL)
        return;
    free(p->median_us);
    free(p->quantile_us);
    free(p);
}

void sim_plan_info(const struct sim_plan *p, struct sim_plan_info *out)
{
    *out = p->info;
}
