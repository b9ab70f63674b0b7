#include "lib/sim_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS_MAX = 16 };

struct waiting {
    size_t row;
    int64_t arrived_at, placed_at;
    unsigned level, original_level;
    double estimate_ms;
    const char *reason;
};

struct busy {
    bool busy;
    int64_t ends_at, idle_since;
    size_t start, idle_order, row;
    unsigned level;
};

struct model {
    const struct model_run *run;
    const struct sim_options *o;
    struct hb_predictor *predictor;
    double compress;
    int64_t now, next_pass;
    struct waiting *queue; /* in the order of placement */
    size_t n_queued, n_arrived, n_started, n_idled;
    struct busy worker[WORKERS_MAX];
    uint64_t clock[HB_LEVELS_MAX], floor;
    double average[HB_LEVELS_MAX];
    struct sim_decision *out;
};

static const struct sim_job *evaluation(const struct model *m)
{
    return m->run->jobs + m->run->n_history;
}

static size_t n_evaluation(const struct model *m)
{
    return m->run->n - m->run->n_history;
}

static int64_t time_of(const struct model *m, const struct sim_job *job)
{
    return (int64_t)((double)(job->arrival_us - evaluation(m)->arrival_us) * 1000 / m->compress);
}

static struct hb_key key_of_job(const struct sim_job *job, char text[32])
{
    int n = snprintf(text, 32, "-\x1fk%u", job->key);
    return (struct hb_key){text, (size_t)n};
}

static void learn(struct model *m, const struct sim_job *job, int64_t at)
{
    char text[32];
    hb_predictor_observe(m->predictor, key_of_job(job, text), (struct hb_key){0},
                         (double)job->duration_us / 1000, at);
}

/* ---- the queue ---- */

static bool level_has(const struct model *m, unsigned level)
{
    for (size_t i = 0; i < m->n_queued; i++)
        if (m->queue[i].level == level)
            return true;
    return false;
}

static void append(struct model *m, struct waiting w)
{
    if (!level_has(m, w.level) && m->clock[w.level] < m->floor)
        m->clock[w.level] = m->floor;
    w.placed_at = m->now;
    m->queue[m->n_queued++] = w;
}

static struct waiting take(struct model *m, size_t i)
{
    struct waiting w = m->queue[i];
    memmove(&m->queue[i], &m->queue[i + 1], (--m->n_queued - i) * sizeof w);
    return w;
}

static size_t head(const struct model *m, unsigned level)
{
    size_t i = 0;
    while (m->queue[i].level != level)
        i++;
    return i;
}

/* ---- what is served ---- */

static unsigned choose_level(const struct model *m)
{
    int best = -1;
    for (unsigned l = 0; l < m->o->predictor.levels; l++)
        if (level_has(m, l) &&
            (best < 0 || (m->o->broker.weighted && m->clock[l] < m->clock[best])))
            best = (int)l;
    return (unsigned)best;
}

static void charge(struct model *m, const struct waiting *w)
{
    double cost = w->estimate_ms >= 0 ? w->estimate_ms : m->average[w->level];
    if (cost < 1)
        cost = 1;
    if (m->clock[w->level] > m->floor)
        m->floor = m->clock[w->level];
    m->clock[w->level] += (uint64_t)(cost * 1441440.0 / m->o->broker.weights[w->level]);
}

static unsigned longest_idle(const struct model *m)
{
    int best = -1;
    for (unsigned i = 0; i < m->o->workers; i++)
        if (!m->worker[i].busy &&
            (best < 0 || m->worker[i].idle_order < m->worker[best].idle_order))
            best = (int)i;
    return (unsigned)best;
}

static unsigned count_idle(const struct model *m)
{
    unsigned n = 0;
    for (unsigned i = 0; i < m->o->workers; i++)
        n += !m->worker[i].busy;
    return n;
}

static void start_one(struct model *m)
{
    struct waiting w;
    if (m->o->router == SIM_FIFO) {
        w = take(m, 0);
    } else {
        w = take(m, head(m, choose_level(m)));
        if (m->o->broker.weighted)
            charge(m, &w);
    }
    unsigned to = longest_idle(m);
    m->worker[to].busy = true;
    m->worker[to].ends_at = m->now + evaluation(m)[w.row].duration_us * 1000;
    m->worker[to].start = m->n_started;
    m->worker[to].row = w.row;
    m->worker[to].level = w.level;
    m->out[m->n_started++] = (struct sim_decision){
        .decided_at = w.arrived_at,
        .job = w.row,
        .level = w.original_level,
        .estimate_ms = w.estimate_ms,
        .reason = w.reason,
        .started_at = m->now,
        .served_level = w.level,
        .worker = to,
    };
}

/* ---- events ---- */

static void arrive(struct model *m)
{
    const struct sim_job *job = &evaluation(m)[m->n_arrived];
    struct waiting w = {.row = m->n_arrived++, .arrived_at = m->now, .estimate_ms = -1};
    if (m->run->predicts) {
        char text[32];
        struct hb_prediction p;
        hb_predictor_predict(m->predictor, key_of_job(job, text), (struct hb_key){0}, m->now, &p);
        w.level = p.level;
        w.reason = hb_reason_name(p.reason);
        if (p.has_estimate)
            w.estimate_ms = p.estimate_ms;
    } else {
        w.level = m->run->level_of(job, m->o->predictor.levels, m->o->predictor.default_level);
        w.reason = m->run->reason;
    }
    w.original_level = w.level;
    append(m, w);
}

static int first_done(const struct model *m)
{
    int best = -1;
    for (unsigned i = 0; i < m->o->workers; i++) {
        const struct busy *w = &m->worker[i], *b = best < 0 ? NULL : &m->worker[best];
        if (w->busy && (b == NULL || w->ends_at < b->ends_at ||
                        (w->ends_at == b->ends_at && w->start < b->start)))
            best = (int)i;
    }
    return best;
}

static void complete(struct model *m, struct busy *w)
{
    const struct sim_job *job = &evaluation(m)[w->row];
    double ms = (double)job->duration_us / 1000, *average = &m->average[w->level];
    *average = *average > 0 ? *average + 0.05 * (ms - *average) : ms;
    if (m->run->predicts)
        learn(m, job, m->now);
    w->busy = false;
    w->idle_order = ++m->n_idled;
}

static void promote(struct model *m, size_t i)
{
    struct waiting w = take(m, i);
    w.level--;
    append(m, w);
}

static bool due(const struct model *m, const struct waiting *w)
{
    return m->now - w->placed_at >= m->o->broker.aging_threshold_ns;
}

static void plain_pass(struct model *m)
{
    for (unsigned level = m->o->predictor.levels - 1; level > 0; level--)
        while (level_has(m, level) && due(m, &m->queue[head(m, level)]))
            promote(m, head(m, level));
}

static bool is_behind(const struct model *m, unsigned level)
{
    bool promoted = false;
    for (size_t i = 0; i < m->n_queued; i++)
        promoted |= m->queue[i].level == level && m->queue[i].original_level > level;
    return promoted &&
           m->now - m->queue[head(m, level)].arrived_at >= m->o->broker.aging_threshold_ns;
}

static void pausing_pass(struct model *m)
{
    for (unsigned level = m->o->predictor.levels - 1; level > 0; level--)
        if (level_has(m, level) && due(m, &m->queue[head(m, level)]) && !is_behind(m, level - 1))
            promote(m, head(m, level));
}

static void pass(struct model *m)
{
    const struct hb_broker_options *b = &m->o->broker;
    if (b->pause == HB_PAUSE_ALWAYS || (b->pause == HB_PAUSE_WITH_WEIGHTS && b->weighted))
        pausing_pass(m);
    else
        plain_pass(m);
    m->next_pass = m->now + b->aging_interval_ns;
}

/* False when nothing is left to do. */
static bool step(struct model *m)
{
    int done = first_done(m);
    bool ages = m->n_queued > 0 && m->o->broker.aging_threshold_ns > 0 && m->o->router != SIM_FIFO;
    int64_t completion = done < 0 ? INT64_MAX : m->worker[done].ends_at;
    int64_t arrival =
        m->n_arrived < n_evaluation(m) ? time_of(m, &evaluation(m)[m->n_arrived]) : INT64_MAX;
    int64_t aging = ages ? m->next_pass : INT64_MAX;
    if (completion == INT64_MAX && arrival == INT64_MAX)
        return false;
    if (completion <= arrival && completion <= aging) {
        m->now = completion;
        complete(m, &m->worker[done]);
    } else if (arrival <= aging) {
        m->now = arrival;
        arrive(m);
    } else {
        m->now = aging;
        pass(m);
    }
    while (m->n_queued > 0 && count_idle(m) > 0)
        start_one(m);
    if (m->n_queued == 0)
        m->next_pass = m->now + m->o->broker.aging_interval_ns;
    return true;
}

static void set_compress(struct model *m)
{
    const struct sim_job *jobs = evaluation(m);
    size_t n = n_evaluation(m);
    double work = 0;
    for (size_t i = 0; i < n; i++)
        work += (double)jobs[i].duration_us;
    m->compress = 1;
    if (m->o->load > 0)
        m->compress = m->o->load * m->o->workers *
                      (double)(jobs[n - 1].arrival_us - jobs[0].arrival_us) / work;
}

struct sim_decision *model_decisions(const struct model_run *run)
{
    struct model m = {.run = run, .o = run->options};
    size_t n = n_evaluation(&m);
    m.predictor = hb_predictor_new(&run->options->predictor);
    m.queue = calloc(n, sizeof m.queue[0]);
    m.out = calloc(n, sizeof m.out[0]);
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        m.worker[i].idle_order = m.n_idled++;
    m.next_pass = run->options->broker.aging_interval_ns;
    set_compress(&m);
    if (run->predicts && run->options->warm)
        for (size_t i = 0; i < run->n_history; i++)
            learn(&m, &run->jobs[i], time_of(&m, &run->jobs[i]));
    while (step(&m))
        ;
    hb_predictor_free(m.predictor);
    free(m.queue);
    return m.out;
}
