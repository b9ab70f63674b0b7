/*
 * run_broker SCRIPT: runs a script of operations on the delivery core and prints what each answers,
 * and what the broker tells meanwhile. The expected text lies beside the script (NAME.script,
 * NAME.expect); tests/script/compare.sh compares.
 *
 * One operation per line, `#` begins a comment, and every line is echoed. Durations have units.
 * MESSAGE is the name that the script gave at submit; MESSAGE#2 means its second delivery, without
 * number the latest. Consumers are numbers.
 *
 *   option NAME VALUE          before the first operation: see the rows below
 *   at TIME                    sets the time
 *   submit NAME [level=N] [ttl=TIME] [key=TEXT] [parent=TEXT] [ms=NUMBER] [predicted=LEVEL]
 *          [payload=TEXT] [headers=TEXT] [owned=1]
 *                              ms is the estimate; with predicted= it is also what was predicted
 *   withdraw MESSAGE, hold MESSAGE, release MESSAGE
 *   pull CONSUMER [unleased=1] message, attempt and level; `redelivered` if it was pulled before
 *                              though this is its first attempt; `empty`
 *   ack MESSAGE [by=CONSUMER] [ms=NUMBER] [token=OTHER]
 *   nack MESSAGE [by=CONSUMER] [token=OTHER] [reason=TEXT]
 *   reject MESSAGE [by=CONSUMER] [token=OTHER] [reason=TEXT]
 *   return MESSAGE, extend MESSAGE
 *   tick                       when the next is due
 *   dead [OFFSET LIMIT]        the dead letters
 *   redrive MESSAGE, redrive_oldest N, purge MESSAGE, purge_all
 *   stats FIELD...             see the rows below
 *   levels                     of each level: waiting, pulls, promotions, clock, charged, average
 *
 * Between any two operations all invariants are checked.
 */
#include "base/compiler.h"
#include "base/num.h"
#include "lib/brokers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MESSAGES_MAX = 64, DELIVERIES_MAX = 16, ARGS_MAX = 16 };

struct named {
    char name[32];
    uint64_t id;
    struct hb_message *message; /* of an owned one */
    struct {
        uint64_t consumer, token;
    } delivery[DELIVERIES_MAX];
    unsigned n_deliveries;
};

struct script {
    struct hb_broker_options options;
    struct hb_broker *b; /* made by the first operation */
    int64_t now;
    struct named messages[MESSAGES_MAX];
    unsigned n_messages;
};

struct op {
    const char *name;
    int n_args_least;
    void (*run)(struct script *s, int argc, char **argv);
};

static void fail(const char *what, const char *with)
{
    printf("!! %s: %s\n", what, with);
    exit(EXIT_FAILURE);
}

/* ---- words ---- */

static double number(const char *text)
{
    double v = 0;
    if (num_parse_double(text, strlen(text), &v) < 0)
        fail("not a number", text);
    return v;
}

static int64_t duration(const char *text)
{
    mono_t ns = 0;
    if (num_parse_duration(text, strlen(text), &ns) < 0)
        fail("not a duration", text);
    return ns;
}

static const char *time_text(int64_t ns)
{
    static char text[32];
    if (ns == INT64_MAX)
        return "never";
    num_format_duration(ns, text, sizeof text);
    return text;
}

/* The value of NAME=VALUE among the arguments, else `otherwise`. */
static const char *arg(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t n = strlen(name);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
            return argv[i] + n + 1;
    return otherwise;
}

static void print_outcome(int r)
{
    static const char *const words[] = {"ok", "full", "empty", "unknown", "foreign", "stale"};
    printf("  %s\n", r < 0 ? "no memory" : words[r]);
}

/* ---- messages by name ---- */

static struct named *add_named(struct script *s, const char *name)
{
    if (s->n_messages == MESSAGES_MAX)
        fail("too many messages", name);
    struct named *m = &s->messages[s->n_messages++];
    snprintf(m->name, sizeof m->name, "%s", name);
    return m;
}

/* MESSAGE or MESSAGE#N; the latest with that name. */
static struct named *named(struct script *s, const char *text, unsigned *delivery)
{
    size_t n = strcspn(text, "#");
    for (unsigned i = s->n_messages; i-- > 0;) {
        struct named *m = &s->messages[i];
        if (strlen(m->name) != n || strncmp(m->name, text, n) != 0)
            continue;
        *delivery = text[n] == '#' ? (unsigned)number(text + n + 1) : m->n_deliveries;
        return m;
    }
    fail("no such message", text);
    return NULL;
}

static struct named *by_id(struct script *s, uint64_t id)
{
    for (unsigned i = 0; i < s->n_messages; i++)
        if (s->messages[i].id == id)
            return &s->messages[i];
    fail("a message that was never submitted", "came out");
    return NULL;
}

/* ---- what the broker tells ---- */

static void on_learn(void *ctx, const struct hb_lesson *l, int64_t now)
{
    printf("  learned %.*s %gms", (int)l->key.n, l->key.p, l->duration_ms);
    if (l->parent.n > 0)
        printf(", parent %.*s", (int)l->parent.n, l->parent.p);
    if (l->predicted)
        printf(", predicted level %u %gms", l->level, l->estimate_ms);
    printf("\n");
}

static void on_censor(void *ctx, struct hb_key key, struct hb_key parent, int64_t now)
{
    printf("  censored %.*s\n", (int)key.n, key.p);
}

static void on_ended(void *ctx, void *owner, const struct hb_end *end, int64_t now)
{
    const struct named *m = owner;
    if (m->id != end->id)
        fail("the wrong owner", m->name);
    switch (end->how) {
    case HB_ENDED_ACKED: printf("  ended %s: done\n", m->name); break;
    case HB_ENDED_REJECTED:
        printf("  ended %s: rejected, failures %" PRIu32 ", %s\n", m->name, end->failures,
               end->details);
        break;
    case HB_ENDED_DEAD:
        printf("  ended %s: %s, failures %" PRIu32 ", %s\n", m->name,
               hb_dead_reason_name(end->reason), end->failures, end->details);
        break;
    }
}

static void on_available(void *ctx)
{
    printf("  available\n");
}

/* ---- operations ---- */

static void set_weights(struct script *s, char *list)
{
    unsigned i = 0;
    s->options.weighted = true;
    for (char *w = strtok(list, ","); w != NULL && i < HB_LEVELS_MAX; w = strtok(NULL, ","))
        s->options.weights[i++] = (uint16_t)number(w);
}

static void op_option(struct script *s, int argc, char **argv)
{
    struct hb_broker_options *o = &s->options;
    const struct {
        const char *name;
        int64_t *duration;
        uint32_t *n;
        uint64_t *size;
        bool *flag;
    } rows[] = {
        {"levels", .n = &o->levels},
        {"aging", .duration = &o->aging_threshold_ns},
        {"interval", .duration = &o->aging_interval_ns},
        {"ttl", .duration = &o->ttl_ns},
        {"lease", .duration = &o->lease_ns},
        {"history", .duration = &o->history_ns},
        {"history_entries", .n = &o->history_entries},
        {"max_attempts", .n = &o->max_attempts},
        {"batch", .n = &o->batch},
        {"max_messages", .size = &o->max_messages},
        {"max_bytes", .size = &o->max_bytes},
        {"max_dead", .n = &o->max_dead},
        {"max_dead_bytes", .size = &o->max_dead_bytes},
        {"extendable", .flag = &o->extendable_leases},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strcmp(rows[i].name, argv[1]) != 0)
            continue;
        if (rows[i].duration != NULL)
            *rows[i].duration = duration(argv[2]);
        else if (rows[i].n != NULL)
            *rows[i].n = (uint32_t)number(argv[2]);
        else if (rows[i].size != NULL)
            *rows[i].size = (uint64_t)number(argv[2]);
        else
            *rows[i].flag = number(argv[2]) != 0;
        return;
    }
    if (strcmp(argv[1], "weights") == 0)
        set_weights(s, argv[2]);
    else if (strcmp(argv[1], "order") == 0)
        o->order = strcmp(argv[2], "fifo") == 0 ? HB_ORDER_FIFO : HB_ORDER_PAPER;
    else if (strcmp(argv[1], "dead_overflow") == 0)
        o->dead_overflow =
            strcmp(argv[2], "refuse") == 0 ? HB_DEAD_REFUSE_SUBMITS : HB_DEAD_DROP_OLDEST;
    else
        fail("no such option", argv[1]);
}

static void op_at(struct script *s, int argc, char **argv)
{
    s->now = duration(argv[1]);
}

static void op_submit(struct script *s, int argc, char **argv)
{
    struct named *m = add_named(s, argv[1]);
    const char *key = arg(argc, argv, "key", NULL), *ttl = arg(argc, argv, "ttl", NULL);
    const char *predicted = arg(argc, argv, "predicted", NULL);
    struct hb_submission sub = {
        .payload = bytes(arg(argc, argv, "payload", "")),
        .headers = bytes(arg(argc, argv, "headers", "")),
        .owner = arg(argc, argv, "owned", NULL) != NULL ? m : NULL,
        .key = k(key),
        .n_parent = strlen(arg(argc, argv, "parent", "")),
        .level = (unsigned)number(arg(argc, argv, "level", "0")),
        .estimate_ms = number(arg(argc, argv, "ms", "-1")),
        .predicted = predicted != NULL,
        .ttl_ns = ttl != NULL ? duration(ttl) : HB_TTL_DEFAULT,
    };
    if (predicted != NULL)
        sub.predicted_level = (unsigned)number(predicted);
    sub.predicted_ms = sub.estimate_ms;
    int r = hb_broker_submit(s->b, &sub, s->now, &m->id, &m->message);
    if (r != HB_BROKER_OK) {
        s->n_messages--;
        print_outcome(r);
    }
}

static void op_withdraw(struct script *s, int argc, char **argv)
{
    unsigned d;
    print_outcome(hb_broker_withdraw(s->b, named(s, argv[1], &d)->message));
}

static void op_hold(struct script *s, int argc, char **argv)
{
    unsigned d;
    print_outcome(hb_broker_hold(s->b, named(s, argv[1], &d)->message));
}

static void op_release(struct script *s, int argc, char **argv)
{
    unsigned d;
    hb_broker_release(s->b, named(s, argv[1], &d)->message);
}

static void print_bytes(const char *what, struct hb_bytes b)
{
    if (b.n > 0)
        printf(", %s %.*s", what, (int)b.n, (const char *)b.p);
}

static void op_pull(struct script *s, int argc, char **argv)
{
    struct hb_delivery d;
    uint64_t consumer = (uint64_t)number(argv[1]);
    bool unleased = arg(argc, argv, "unleased", NULL) != NULL;
    int r = unleased ? hb_broker_pull_unleased(s->b, consumer, s->now, &d)
                     : hb_broker_pull(s->b, consumer, s->now, &d);
    if (r != HB_BROKER_OK) {
        print_outcome(r);
        return;
    }
    struct named *m = by_id(s, d.id);
    if (m->n_deliveries == DELIVERIES_MAX)
        fail("too many deliveries", m->name);
    m->delivery[m->n_deliveries].consumer = consumer;
    m->delivery[m->n_deliveries++].token = d.token;
    printf("  %s attempt %" PRIu32 " level %u waited %s", m->name, d.attempt, d.level,
           time_text(d.waited_ns));
    if (d.redelivered && d.attempt == 1)
        printf(", redelivered");
    print_bytes("payload", d.payload);
    print_bytes("headers", d.headers);
    printf("\n");
}

/* What a line like `ack MESSAGE [by=CONSUMER] [token=OTHER] ...` means. */
static struct hb_settlement settlement(struct script *s, int argc, char **argv)
{
    unsigned d, other_d;
    const struct named *m = named(s, argv[1], &d);
    const struct named *other = named(s, arg(argc, argv, "token", argv[1]), &other_d);
    struct hb_settlement out = {.id = m->id,
                                .duration_ms = number(arg(argc, argv, "ms", "-1")),
                                .reason = bytes(arg(argc, argv, "reason", ""))};
    if (d > 0)
        out.consumer = m->delivery[d - 1].consumer;
    if (other_d > 0)
        out.token = other->delivery[other_d - 1].token;
    const char *by = arg(argc, argv, "by", NULL);
    if (by != NULL)
        out.consumer = (uint64_t)number(by);
    return out;
}

static void settle(struct script *s, int argc, char **argv,
                   int (*call)(struct hb_broker *, const struct hb_settlement *, int64_t))
{
    struct hb_settlement to = settlement(s, argc, argv);
    print_outcome(call(s->b, &to, s->now));
}

static void op_ack(struct script *s, int argc, char **argv)
{
    settle(s, argc, argv, hb_broker_ack);
}

static void op_nack(struct script *s, int argc, char **argv)
{
    settle(s, argc, argv, hb_broker_nack);
}

static void op_reject(struct script *s, int argc, char **argv)
{
    settle(s, argc, argv, hb_broker_reject);
}

static void op_return(struct script *s, int argc, char **argv)
{
    settle(s, argc, argv, hb_broker_return);
}

static void op_extend(struct script *s, int argc, char **argv)
{
    settle(s, argc, argv, hb_broker_extend);
}

static void op_tick(struct script *s, int argc, char **argv)
{
    int64_t next = hb_broker_tick(s->b, s->now);
    printf("  next %s\n", next <= s->now ? "now" : time_text(next));
}

static void print_dead(void *ctx, const struct hb_dead *d)
{
    struct script *s = ctx;
    printf("  %s: %s, failures %" PRIu32 ", age %s, %s", by_id(s, d->id)->name,
           hb_dead_reason_name(d->reason), d->failures, time_text(d->age_ns), d->details);
    print_bytes("payload", d->payload);
    print_bytes("headers", d->headers);
    printf("\n");
}

static void op_dead(struct script *s, int argc, char **argv)
{
    size_t offset = argc > 2 ? (size_t)number(argv[1]) : 0;
    size_t limit = argc > 2 ? (size_t)number(argv[2]) : SIZE_MAX;
    size_t n = hb_broker_dead(s->b, offset, limit, s->now, print_dead, s);
    printf("  %zu\n", n);
}

static void op_redrive(struct script *s, int argc, char **argv)
{
    unsigned d;
    print_outcome(hb_broker_redrive(s->b, named(s, argv[1], &d)->id, s->now));
}

static void op_redrive_oldest(struct script *s, int argc, char **argv)
{
    printf("  %zu\n", hb_broker_redrive_oldest(s->b, (size_t)number(argv[1]), s->now));
}

static void op_purge(struct script *s, int argc, char **argv)
{
    unsigned d;
    print_outcome(hb_broker_purge(s->b, named(s, argv[1], &d)->id));
}

static void op_purge_all(struct script *s, int argc, char **argv)
{
    printf("  %zu\n", hb_broker_purge_all(s->b));
}

static void op_stats(struct script *s, int argc, char **argv)
{
    struct hb_broker_stats st = broker_stats_of(s->b);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"waiting", st.waiting},
        {"held", st.held},
        {"in_flight", st.in_flight},
        {"dead", st.dead},
        {"bytes", st.bytes},
        {"dead_bytes", st.dead_bytes},
        {"submitted", st.submitted},
        {"refused", st.refused},
        {"pulled", st.pulled},
        {"returned", st.returned},
        {"acked", st.acked},
        {"nacked", st.nacked},
        {"rejected", st.rejected},
        {"repeated", st.repeated},
        {"leases_expired", st.leases_expired},
        {"ttl_expired", st.ttl_expired},
        {"retried", st.retried},
        {"died_retries", st.died[HB_DEAD_MAX_RETRIES]},
        {"died_ttl", st.died[HB_DEAD_TTL_EXPIRED]},
        {"died_error", st.died[HB_DEAD_PROCESSING_ERROR]},
        {"dropped_dead", st.dropped_dead},
        {"redriven", st.redriven},
        {"purged", st.purged},
        {"learned", st.learned},
        {"censored", st.censored},
        {"history", st.history},
    };
    for (int i = 1; i < argc; i++) {
        size_t row = 0;
        while (row < ARRAY_SIZE(rows) && strcmp(rows[row].name, argv[i]) != 0)
            row++;
        if (row == ARRAY_SIZE(rows))
            fail("no such field", argv[i]);
        printf("  %s %" PRIu64 "\n", rows[row].name, rows[row].value);
    }
}

static void op_levels(struct script *s, int argc, char **argv)
{
    for (unsigned i = 0; i < s->options.levels; i++) {
        struct hb_level_stats l;
        hb_broker_level_stats(s->b, i, s->now, &l);
        printf("  %u: waiting %zu promoted %zu oldest %s pulls %" PRIu64 " promotions %" PRIu64
               " clock %g charged %g average %g\n",
               i, l.waiting, l.promoted, time_text(l.oldest_wait_ns), l.pulls, l.promotions,
               l.clock_ms, l.charged_ms, l.average_ms);
    }
}

static const struct op ops[] = {
    {"option", 3, op_option},       {"at", 2, op_at},
    {"submit", 2, op_submit},       {"withdraw", 2, op_withdraw},
    {"pull", 2, op_pull},           {"ack", 2, op_ack},
    {"nack", 2, op_nack},           {"return", 2, op_return},
    {"extend", 2, op_extend},       {"tick", 1, op_tick},
    {"dead", 1, op_dead},           {"redrive", 2, op_redrive},
    {"purge", 2, op_purge},         {"redrive_oldest", 2, op_redrive_oldest},
    {"purge_all", 1, op_purge_all}, {"stats", 2, op_stats},
    {"levels", 1, op_levels},       {"reject", 2, op_reject},
    {"hold", 2, op_hold},           {"release", 2, op_release},
};

static void need_broker(struct script *s)
{
    static const struct hb_broker_events events = {
        .learn = on_learn, .censor = on_censor, .ended = on_ended, .available = on_available};
    char why[128];
    if (!hb_broker_options_valid(&s->options, why, sizeof why))
        fail("options", why);
    s->b = hb_broker_new(&s->options, &events);
    if (s->b == NULL)
        fail("memory", "short");
}

static void run_line(struct script *s, char *line)
{
    char *argv[ARGS_MAX];
    int argc = 0;
    for (char *word = strtok(line, " \n"); word != NULL && argc < ARGS_MAX;
         word = strtok(NULL, " \n")) {
        if (strcmp(word, "#") == 0)
            break;
        argv[argc++] = word;
    }
    if (argc == 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
        if (strcmp(ops[i].name, argv[0]) != 0 || argc < ops[i].n_args_least)
            continue;
        if (s->b == NULL && ops[i].run != op_option)
            need_broker(s);
        ops[i].run(s, argc, argv);
        const char *broken = s->b != NULL ? hb_broker_check(s->b) : NULL;
        if (broken != NULL)
            fail("broken", broken);
        return;
    }
    fail("not an operation", argv[0]);
}

int main(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (f == NULL)
        fail("usage", "run_broker SCRIPT");
    static struct script s;
    hb_broker_options_init(&s.options);
    char line[512];
    while (fgets(line, sizeof line, f) != NULL) {
        fputs(line, stdout);
        run_line(&s, line);
    }
    fclose(f);
    hb_broker_free(s.b);
    return EXIT_SUCCESS;
}
