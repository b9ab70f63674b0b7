#include "sim/replay.h"

#include "base/num.h"
#include "flow/flow.h"
#include "flow/journal.h"
#include "port/backend_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sim_replay {
    struct backend backend; /* gets the decisions */
    struct flow *flow;
    struct sim_replay_counts counts;
    mono_t last; /* time of the line before */

    /* During a line. */
    const struct journal_entry *entry;
    struct buf *out;
};

/* ---- a job that has the recorded key ---- */

static struct flow_rules rules_for(bool has_bin)
{
    return (struct flow_rules){
        .mode = FLOW_PREDICTIVE,
        .key = {.producer = {{KEY_APP_ID, NULL}},
                .n_producer = 1,
                .label = {{KEY_TYPE, NULL}},
                .n_label = 1,
                .size = {has_bin ? KEY_BODY : KEY_NONE, NULL}},
        .max_duration_ms = (double)INFINITY,
    };
}

/* The next part of a key; absent when there is none. */
static struct text cut_part(struct text *key)
{
    if (key->p == NULL)
        return *key;
    const char *end = key->n > 0 ? memchr(key->p, KEY_SEPARATOR, key->n) : NULL;
    struct text part = {key->p, end != NULL ? (size_t)(end - key->p) : key->n};
    *key = end != NULL ? (struct text){end + 1, key->n - part.n - 1} : (struct text){NULL, 0};
    return part;
}

/* The third part is "s" and the logarithm of the size. */
static bool size_of(struct text bin, uint64_t *out)
{
    uint64_t log2;
    if (bin.n < 2 || num_parse_u64(bin.p + 1, bin.n - 1, &log2) < 0 || log2 > 63)
        return false;
    *out = UINT64_C(1) << log2;
    return true;
}

static int submit_again(struct sim_replay *r, const struct journal_entry *e)
{
    struct text left = {e->key.raw, e->key.n};
    struct job job = {.app_id = cut_part(&left)};
    job.type = cut_part(&left);
    struct flow_rules rules = rules_for(size_of(cut_part(&left), &job.body_bytes));
    flow_set_rules(r->flow, &rules);
    return flow_submit(r->flow, &r->backend, NULL, &job, e->at);
}

/* ---- what is decided about it ---- */

static int print(const struct sim_replay *r, const struct journal_entry *e)
{
    return r->out != NULL ? journal_print(e, r->out) : 0;
}

static bool same_estimate(double a, double b)
{
    return (a < 0 && b < 0) || !(a < b || a > b);
}

static int submit(struct backend *b, void *message, const struct ticket *t)
{
    struct sim_replay *r = CONTAINER_OF(b, struct sim_replay, backend);
    struct journal_entry now = *r->entry;
    now.level = t->level;
    now.ms = t->estimate_ms;
    now.reason = text_of(t->reason);
    bool other_level = now.level != r->entry->level;
    bool other_estimate = !same_estimate(now.ms, r->entry->ms);
    r->counts.other_level += other_level;
    r->counts.other_estimate += other_estimate;
    if ((other_level || other_estimate) && r->counts.first_other == 0)
        r->counts.first_other = r->counts.lines;
    return print(r, &now);
}

static const struct backend_ops ops = {.name = "replay", .submit = submit, .unprinted = true};

static int take_job(struct sim_replay *r, const struct journal_entry *e)
{
    r->counts.jobs++;
    if (e->key.n > 0)
        return submit_again(r, e);
    r->counts.without_key++;
    return print(r, e);
}

static int take(struct sim_replay *r, const struct journal_entry *e)
{
    struct text parent = key_parent(&e->key);
    struct hb_lesson lesson = {
        .key = {e->key.raw, e->key.n}, .parent = {parent.p, parent.n}, .duration_ms = e->ms};
    r->entry = e;
    switch (e->event) {
    case JOURNAL_JOB: return take_job(r, e);
    case JOURNAL_LEARNED:
        r->counts.learned++;
        flow_learn(r->flow, &lesson, e->at);
        break;
    case JOURNAL_TIMEOUT:
        r->counts.timeouts++;
        flow_censor(r->flow, lesson.key, lesson.parent, e->at);
        break;
    }
    return print(r, e);
}

/* ---- lines ---- */

static bool is_head(struct text line)
{
    static const char head[] = JOURNAL_HEAD;
    return text_equal(line, (struct text){head, sizeof head - 2});
}

int sim_replay_line(struct sim_replay *r, struct text line, struct buf *out, struct err *e)
{
    struct journal_entry entry;
    r->out = out;
    if (r->counts.lines++ == 0) {
        if (!is_head(line))
            return err_set(e, ERR_INVALID, "this is no journal of harbingerd (journal.path)");
        return out != NULL && buf_append(out, JOURNAL_HEAD, strlen(JOURNAL_HEAD)) < 0
                   ? err_set(e, ERR_NOMEM, "%s", err_name(ERR_NOMEM))
                   : 0;
    }
    if (journal_parse(line, &entry) < 0)
        return err_set(e, ERR_INVALID, "this is no line of a journal");
    if (entry.at < r->last)
        return err_set(e, ERR_INVALID,
                       "earlier than the line before: a daemon was started in between; replay each "
                       "part by itself");
    r->last = entry.at;
    int code = take(r, &entry);
    return code == 0 ? 0 : err_set(e, code, "%s", err_name(code));
}

void sim_replay_counts(const struct sim_replay *r, struct sim_replay_counts *out)
{
    *out = r->counts;
}

/* ---- life ---- */

struct sim_replay *sim_replay_new(const struct hb_predictor_options *o, struct err *e)
{
    struct sim_replay *r = calloc(1, sizeof *r);
    if (r == NULL) {
        err_set(e, ERR_NOMEM, "%s", err_name(ERR_NOMEM));
        return NULL;
    }
    r->backend.ops = &ops;
    r->flow = flow_new(&(struct flow_options){.rules = rules_for(false), .predictor = *o}, e);
    if (r->flow != NULL)
        return r;
    sim_replay_free(r);
    return NULL;
}

void sim_replay_free(struct sim_replay *r)
{
    if (r == NULL)
        return;
    flow_free(r->flow);
    free(r);
}
