/* harbinger simulate: many runs at once, and how far they are. */
#include "cli/cli.h"
#include "cli/simulate.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A simulation that uses less memory than one per core is still a simulation: so threads, as many
 * as cores, each with a reader and a core of its own. They share the plan, which nobody changes. */
struct crew {
    struct simulate *s;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned next, n_ended; /* under the lock */
    atomic_bool stop;
};

struct member {
    struct crew *crew;
    struct simulate_run *run;
};

/* ---- one run ---- */

static int map(void *ctx, struct text key)
{
    const struct member *m = ctx;
    const struct simulate_keys *k = m->run->all->keys;
    uint32_t i = names_find(&k->mapped, key);
    return i != UINT32_MAX ? k->levels[i] : -1;
}

static unsigned group(void *ctx, struct text key)
{
    const struct member *m = ctx;
    const struct simulate_keys *k = m->run->all->keys;
    uint32_t i = names_find(&k->grouped, key);
    return i != UINT32_MAX ? k->groups[i] : 0;
}

static void decided(void *ctx, const struct sim_decision *d)
{
    const struct member *m = ctx;
    simulate_log(m->run->all->log, d);
}

static bool progress(void *ctx, uint64_t n_done)
{
    struct member *m = ctx;
    atomic_store_explicit(&m->run->n_done, n_done, memory_order_relaxed);
    return !atomic_load_explicit(&m->crew->stop, memory_order_relaxed);
}

static void make_run(struct member *m)
{
    struct simulate_run *r = m->run;
    struct simulate_source source;
    r->o.ctx = m;
    r->o.progress = progress;
    r->o.map = r->all->keys->mapped.n > 0 ? map : NULL;
    r->o.group = r->all->keys->n_groups > 0 ? group : NULL;
    r->o.decided = r->all->log != NULL ? decided : NULL;
    r->code = simulate_source_open(&source, &r->all->input, &r->err);
    if (r->code < 0)
        return;
    r->code = sim_run(r->all->plan, &source.source, &r->o, &r->result, &r->err);
    simulate_source_close(&source);
    if (r->code == 0)
        atomic_store(&r->n_done, r->all->info.n_evaluation);
}

/* ---- all of them ---- */

static void *work(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    pthread_mutex_lock(&c->lock);
    while (c->next < c->s->n_runs && !c->stop) {
        m->run = &c->s->runs[c->next++];
        pthread_mutex_unlock(&c->lock);
        make_run(m);
        pthread_mutex_lock(&c->lock);
        c->n_ended++;
        if (m->run->code != 0)
            c->stop = true;
        pthread_cond_signal(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void show_progress(const struct crew *c, double since)
{
    uint64_t done = 0, all = c->s->n_runs * c->s->info.n_evaluation;
    for (unsigned i = 0; i < c->s->n_runs; i++)
        done += atomic_load_explicit(&c->s->runs[i].n_done, memory_order_relaxed);
    double share = (double)done / (double)all, spent = now_s() - since;
    fprintf(stderr, "\rharbinger: %u of %u runs, %.0f %%", c->n_ended, c->s->n_runs, share * 100);
    if (share > 0.01)
        fprintf(stderr, ", %.0f s left", spent / share - spent);
    fputs("\033[K", stderr);
}

/* Until all that have begun are done. The lock is held. */
static void wait_for_all(struct crew *c)
{
    double since = now_s();
    bool shows = isatty(STDERR_FILENO) == 1;
    while (c->stop ? c->n_ended < c->next : c->n_ended < c->s->n_runs) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 250000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&c->changed, &c->lock, &until);
        if (shows)
            show_progress(c, since);
    }
    if (shows)
        fputs("\r\033[K", stderr);
}

static int judge(const struct simulate *s)
{
    for (unsigned i = 0; i < s->n_runs; i++) {
        struct simulate_run *r = &s->runs[i];
        if (r->code >= 0)
            continue;
        if (s->n_runs > 1)
            err_prefix(&r->err, "arm %s", r->arm);
        return local_failed(&r->err);
    }
    return CLI_OK;
}

int simulate_run_all(struct simulate *s)
{
    struct crew c = {
        .s = s, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    unsigned n = s->n_threads < s->n_runs ? s->n_threads : s->n_runs, n_begun = 0;
    struct member *members = calloc(n, sizeof *members);
    pthread_t *threads = calloc(n, sizeof *threads);
    if (members != NULL && threads != NULL)
        for (; n_begun < n; n_begun++) {
            members[n_begun].crew = &c;
            if (pthread_create(&threads[n_begun], NULL, work, &members[n_begun]) != 0)
                break;
        }
    if (n_begun > 0) {
        pthread_mutex_lock(&c.lock);
        wait_for_all(&c);
        pthread_mutex_unlock(&c.lock);
    }
    for (unsigned i = 0; i < n_begun; i++)
        pthread_join(threads[i], NULL);
    free(members);
    free(threads);
    if (n_begun > 0)
        return judge(s);
    fputs("harbinger: no thread could be started\n", stderr);
    return CLI_FAILED;
}

/* ---- against fifo ---- */

const struct simulate_run *simulate_base(const struct simulate *s, const struct simulate_run *r)
{
    for (unsigned i = 0; i < s->n_runs; i++)
        if (s->runs[i].o.load == r->o.load && strcmp(s->runs[i].arm, "fifo") == 0)
            return &s->runs[i];
    return NULL;
}

double simulate_change(const struct simulate *s, const struct simulate_run *r)
{
    const struct simulate_run *base = simulate_base(s, r);
    if (base == NULL || base == r || base->result.all.mean_ms == 0)
        return (double)NAN;
    return r->result.all.mean_ms / base->result.all.mean_ms - 1;
}

double simulate_window_change(const struct simulate *s, const struct simulate_run *r)
{
    const struct simulate_run *base = simulate_base(s, r);
    double sum = 0;
    unsigned n = 0;
    if (base == NULL || base == r)
        return (double)NAN;
    for (unsigned w = 0; w < s->split.windows; w++) {
        double before = base->result.windows[w].all.mean_ms;
        if (before == 0)
            continue;
        sum += r->result.windows[w].all.mean_ms / before - 1;
        n++;
    }
    return n > 0 ? sum / n : (double)NAN;
}
