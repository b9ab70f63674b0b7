/* One run: the virtual clock, the workers, and the order of events. */
#include "sim/completions.h"
#include "sim/measure.h"
#include "sim/router.h"

#include <math.h>
#include <stdlib.h>

enum { SLAB_JOBS = 256, PROGRESS_EVERY = 1 << 14 };

/* 73 years, as the predictor has it. */
#define LAST_MOMENT (INT64_C(1) << 61)

struct slab {
    struct slab *next;
    struct routed_job jobs[SLAB_JOBS];
};

/* A worker, and what it is at. */
struct worker {
    struct routed_job *job;
    uint64_t id, token;
};

struct run {
    const struct sim_plan *plan;
    struct sim_options o;
    double compress;
    struct plan_reader reader;
    struct router router;
    struct hb_broker *broker;
    mono_t now;

    struct sim_job next; /* to arrive */
    mono_t next_at;      /* MONO_NEVER: none */
    uint64_t n_arrived;

    struct completions running;
    struct worker *workers;
    uint32_t *idle; /* a ring of the idle ones, the first is idle for longest */
    uint32_t first_idle, n_idle;
    uint64_t n_started, n_done, n_waiting, max_waiting;

    struct slab *slabs;
    struct routed_job *unused;
    struct measure measure;
};

/* ---- memory of the jobs that are here ---- */

static struct routed_job *job_new(struct run *r)
{
    if (r->unused == NULL) {
        struct slab *slab = malloc(sizeof *slab);
        if (slab == NULL)
            return NULL;
        slab->next = r->slabs;
        r->slabs = slab;
        for (int i = SLAB_JOBS - 1; i >= 0; i--) {
            slab->jobs[i].next = r->unused;
            r->unused = &slab->jobs[i];
        }
    }
    struct routed_job *job = r->unused;
    r->unused = job->next;
    return job;
}

static void job_free(struct run *r, struct routed_job *job)
{
    job->next = r->unused;
    r->unused = job;
}

/* ---- arrivals ---- */

static mono_t time_of(const struct run *r, int64_t arrival_us)
{
    return (mono_t)((double)(arrival_us - r->plan->first_us) * (double)MONO_US / r->compress);
}

/* Reads on to the next job that arrives. */
static int look_ahead(struct run *r, struct err *e)
{
    int got = plan_read(&r->reader, &r->next, e);
    r->next_at = MONO_NEVER;
    if (got <= 0)
        return got;
    if (r->n_arrived == r->plan->info.n_evaluation || r->next.key >= r->plan->info.n_keys)
        return err_set(e, ERR_INVALID, "the trace has changed since it was planned");
    r->next_at = time_of(r, r->next.arrival_us);
    return 0;
}

static int refused(const struct run *r, int outcome, struct err *e)
{
    if (outcome == HB_BROKER_FULL)
        return err_set(e, ERR_INVALID,
                       "more than %llu jobs wait after %g s: the workers are overloaded",
                       (unsigned long long)r->o.broker.max_messages, (double)r->now / 1e9);
    return err_set(e, ERR_NOMEM, "no memory for another waiting job");
}

static int arrive(struct run *r, struct err *e)
{
    struct routed_job *job = job_new(r);
    if (job == NULL)
        return refused(r, HB_BROKER_NOMEM, e);
    uint64_t row = r->n_arrived++;
    job->arrived_at = r->now;
    job->duration = r->next.duration_us * MONO_US;
    job->row = row;
    job->window = (uint16_t)plan_window(r->plan, row, r->next.arrival_us);
    int outcome = router_submit(&r->router, &r->next, job);
    if (outcome != HB_BROKER_OK)
        return refused(r, outcome, e);
    if (++r->n_waiting > r->max_waiting)
        r->max_waiting = r->n_waiting;
    return look_ahead(r, e);
}

/* ---- workers ---- */

static void tell(const struct run *r, const struct routed_job *job, uint32_t worker,
                 unsigned served_level)
{
    if (r->o.decided == NULL)
        return;
    r->o.decided(r->o.ctx, &(struct sim_decision){
                               .decided_at = job->arrived_at,
                               .job = job->row,
                               .level = job->level,
                               .estimate_ms = job->estimate_ms,
                               .reason = job->reason,
                               .started_at = job->started_at,
                               .served_level = served_level,
                               .worker = worker,
                           });
}

static int start(struct run *r, const struct hb_delivery *d, struct err *e)
{
    struct routed_job *job = d->owner;
    uint32_t worker = r->idle[r->first_idle];
    mono_t ends_at = mono_add(r->now, job->duration);
    if (ends_at > LAST_MOMENT)
        return err_set(e, ERR_INVALID, "the simulated time passes 73 years");
    r->first_idle = r->first_idle + 1 == r->o.workers ? 0 : r->first_idle + 1;
    r->n_idle--;
    r->n_waiting--;
    job->started_at = r->now;
    r->workers[worker] = (struct worker){job, d->id, d->token};
    completions_push(&r->running, (struct completion){ends_at, r->n_started++, worker});
    tell(r, job, worker, d->level);
    return 0;
}

/* Hands out until no worker is idle or nothing waits. */
static int dispatch(struct run *r, struct err *e)
{
    struct hb_delivery d;
    while (r->n_idle > 0 && r->n_waiting > 0) {
        int outcome = hb_broker_pull_unleased(r->broker, r->idle[r->first_idle], r->now, &d);
        if (outcome != HB_BROKER_OK)
            return refused(r, outcome, e);
        if (start(r, &d, e) < 0)
            return e->code;
    }
    return 0;
}

static int complete(struct run *r, struct err *e)
{
    struct completion c = completions_pop(&r->running);
    struct worker *w = &r->workers[c.worker];
    struct routed_job *job = w->job;
    measure_add(&r->measure, &(struct measured_job){
                                 .row = job->row,
                                 .window = job->window,
                                 .group = job->group,
                                 .class = job->class,
                                 .wait = job->started_at - job->arrived_at,
                                 .duration = job->duration,
                             });
    struct hb_settlement s = {c.worker, w->id, w->token, mono_to_ms(job->duration), {NULL, 0}};
    if (hb_broker_ack(r->broker, &s, r->now) != HB_BROKER_OK)
        return err_set(e, ERR_PROTOCOL, "the core does not know job %llu",
                       (unsigned long long)job->row);
    job_free(r, job);
    uint32_t last = r->first_idle + r->n_idle++;
    r->idle[last < r->o.workers ? last : last - r->o.workers] = c.worker;
    return ++r->n_done % PROGRESS_EVERY == 0 && r->o.progress != NULL &&
                   !r->o.progress(r->o.ctx, r->n_done)
               ? SIM_STOPPED
               : 0;
}

/* ---- the clock ---- */

/* Makes the aging passes that are due before t, the next event. They find no idle worker. */
static void age_until(struct run *r, mono_t t)
{
    if (r->n_waiting == 0 || r->o.broker.aging_threshold_ns == 0)
        return;
    while (r->now < t) {
        mono_t due_at = hb_broker_tick(r->broker, r->now);
        if (due_at >= t)
            return;
        if (due_at > r->now)
            r->now = due_at;
    }
}

static int step(struct run *r, struct err *e)
{
    mono_t completes_at = completions_next_at(&r->running);
    mono_t t = mono_min(completes_at, r->next_at);
    if (t > LAST_MOMENT)
        return err_set(e, ERR_INVALID, "the simulated time passes 73 years");
    age_until(r, t);
    r->now = t;
    int done = completes_at <= r->next_at ? complete(r, e) : arrive(r, e);
    return done != 0 ? done : dispatch(r, e);
}

static int serve(struct run *r, struct err *e)
{
    int done = 0;
    while (done == 0 && (r->next_at != MONO_NEVER || r->running.n > 0))
        done = step(r, e);
    return done;
}

/* The history, up to the first job of the evaluation. */
static int teach(struct run *r, struct err *e)
{
    struct sim_job job;
    for (uint64_t i = 0; i < r->plan->info.n_history; i++) {
        int got = plan_read(&r->reader, &job, e);
        if (got < 0)
            return got;
        if (got == 0 || job.key >= r->plan->info.n_keys)
            return err_set(e, ERR_INVALID, "the trace has changed since it was planned");
        router_teach(&r->router, &job, time_of(r, job.arrival_us));
    }
    return look_ahead(r, e);
}

/* ---- options, results ---- */

void sim_options_init(struct sim_options *o)
{
    static const uint16_t weights[] = {8, 3, 1}; /* paper 3.7 */
    *o = (struct sim_options){.workers = 64, .router = SIM_FLOW, .warm = true};
    hb_predictor_options_init(&o->predictor);
    hb_broker_options_init(&o->broker);
    o->broker.aging_threshold_ns = 5 * MONO_S;
    o->broker.max_messages = 5000000;
    /* Nothing fails, no settlement is repeated. */
    o->broker.history_entries = 1;
    o->broker.history_ns = 0;
    o->broker.max_dead = 0;
    o->broker.batch = 1 << 20;
    for (unsigned i = 0; i < HB_LEVELS_MAX; i++)
        o->broker.weights[i] = i < ARRAY_SIZE(weights) ? weights[i] : 1;
}

static int find_compress(struct run *r, struct err *e)
{
    const struct sim_plan_info *info = &r->plan->info;
    double load = r->o.load;
    r->compress = 1;
    if (load == 0)
        return 0;
    if (!(load > 0 && load <= 10))
        return err_set(e, ERR_INVALID, "load must be above 0 and at most 10");
    if (info->span_us == 0 || info->work_us == 0)
        return err_set(e, ERR_INVALID, "no load can be set: the jobs %s",
                       info->span_us == 0 ? "all arrive at once" : "take no time");
    r->compress = load * r->o.workers * (double)info->span_us / info->work_us;
    return 0;
}

static int check_options(struct run *r, struct err *e)
{
    if (r->o.workers < 1 || r->o.workers > 1000000)
        return err_set(e, ERR_INVALID, "workers must be 1..1000000");
    if (find_compress(r, e) < 0 || router_adjust(r->plan, &r->o, e) < 0)
        return e->code;
    return 0;
}

static bool get_memory(struct run *r)
{
    uint32_t n = r->o.workers;
    r->workers = malloc(n * sizeof r->workers[0]);
    r->idle = malloc(n * sizeof r->idle[0]);
    if (r->workers == NULL || r->idle == NULL || !completions_init(&r->running, n) ||
        !measure_init(&r->measure, r->plan->info.n_evaluation, r->plan->split.windows))
        return false;
    for (r->n_idle = 0; r->n_idle < n; r->n_idle++)
        r->idle[r->n_idle] = r->n_idle;
    return true;
}

static int set_up(struct run *r, const struct sim_source *s, struct err *e)
{
    int done = check_options(r, e);
    if (done == 0)
        done = router_init(&r->router, r->plan, s, &r->o, e);
    if (done < 0)
        return done;
    if (!get_memory(r))
        return err_set(e, ERR_NOMEM, "no memory for %llu jobs and %lu workers",
                       (unsigned long long)r->plan->info.n_evaluation, (unsigned long)r->o.workers);
    r->broker = station_broker(r->router.station);
    r->reader = (struct plan_reader){.source = s};
    return s->rewind(s->ctx, e);
}

static void tear_down(struct run *r)
{
    router_fini(&r->router);
    completions_fini(&r->running);
    measure_fini(&r->measure);
    free(r->workers);
    free(r->idle);
    while (r->slabs != NULL) {
        struct slab *slab = r->slabs;
        r->slabs = slab->next;
        free(slab);
    }
}

static uint64_t count_promotions(const struct run *r)
{
    struct hb_level_stats s;
    uint64_t n = 0;
    for (unsigned i = 0; i < r->o.broker.levels; i++) {
        hb_broker_level_stats(r->broker, i, r->now, &s);
        n += s.promotions;
    }
    return n;
}

static int report(struct run *r, struct sim_result *out, struct err *e)
{
    if (r->n_done != r->plan->info.n_evaluation)
        return err_set(e, ERR_INVALID, "the trace has changed since it was planned");
    out->n_windows = r->plan->split.windows;
    out->windows = calloc(out->n_windows, sizeof out->windows[0]);
    if (out->windows == NULL)
        return err_set(e, ERR_NOMEM, "no memory for the windows");
    measure_finish(&r->measure, out);
    out->compress = r->compress;
    out->ended_at = r->now;
    if (r->now > 0)
        out->utilisation =
            r->plan->info.work_us * (double)MONO_US / ((double)r->now * r->o.workers);
    out->max_waiting = r->max_waiting;
    out->promotions = count_promotions(r);
    out->learns = r->o.router == SIM_FLOW || r->o.router == SIM_SHADOW;
    hb_predictor_stats(flow_predictor(r->router.flow), &out->predictor);
    return 0;
}

int sim_run(const struct sim_plan *plan, const struct sim_source *s, const struct sim_options *o,
            struct sim_result *out, struct err *e)
{
    struct run r = {.plan = plan, .o = *o, .next_at = MONO_NEVER};
    struct err ignored = {0};
    e = e != NULL ? e : &ignored;
    *out = (struct sim_result){0};
    int done = set_up(&r, s, e);
    if (done == 0)
        done = teach(&r, e);
    if (done == 0)
        done = serve(&r, e);
    if (done == 0)
        done = report(&r, out, e);
    tear_down(&r);
    return done;
}

void sim_result_fini(struct sim_result *r)
{
    free(r->windows);
    *r = (struct sim_result){0};
}
