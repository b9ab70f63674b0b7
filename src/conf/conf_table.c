#include "conf/conf_table.h"

#include <stdio.h>
#include <string.h>

static const char *const mode_names[] = {"static", "shadow", "predictive", NULL};
static const char *const backend_names[] = {"rabbitmq", "harbinger", NULL};
static const char *const order_names[] = {"paper", "fifo", NULL};
static const char *const pause_names[] = {"auto", "always", "never", NULL};
static const char *const dead_names[] = {"drop_oldest", "refuse_submits", NULL};
static const char *const topology_names[] = {"declare", "check", "off", NULL};
static const char *const respect_names[] = {"never", "nonzero", "always", NULL};
static const char *const summary_names[] = {"median", "p75", "mean", NULL};
static const char *const log_names[] = {"error", "warning", "info", "debug", NULL};

#define BIT       CONF_SOURCE_BIT
#define PRODUCERS (BIT(CONF_SOURCE_USER_ID) | BIT(CONF_SOURCE_APP_ID) | BIT(CONF_SOURCE_HEADER))
#define LABELS    (PRODUCERS | BIT(CONF_SOURCE_TYPE))
#define SIZES     (BIT(CONF_SOURCE_NONE) | BIT(CONF_SOURCE_BODY) | BIT(CONF_SOURCE_HEADER))

/* clang-format off */
#define ROW(k, t, member, def) .key = (k), .type = CONF_T_##t, .offset = offsetof(struct conf, member), .preset = (def)
#define RANGE(lo, hi)          .min = (lo), .max = (hi)
#define R                      .reloadable = true
#define MINIMAL                .minimal = true
#define HELP(text)             .help = (text)

static const struct conf_option rows[] = {
    {ROW("instance", TEXT, instance, ""), .syntax = CONF_S_INSTANCE, .example = "sidecar-1",
     HELP("Name of this replica in message ids, connection names and the log; \"\" = the host name.")},
    {ROW("backend", ENUM, backend, "rabbitmq"), .names = backend_names,
     HELP("Who orders the messages: rabbitmq = a priority queue, the level becomes the priority; harbinger = the "
          "broker inside, which holds the intake's deliveries until a worker has handled them.")},
    {ROW("mode", ENUM, mode, "predictive"), .names = mode_names, R,
     HELP("How a message gets its level: static = from the table below, shadow = default_level while predictions "
          "are only recorded, predictive = from the prediction.")},
    {ROW("levels", UNSIGNED, levels, "3"), RANGE("1", "10"),
     HELP("Number of cost levels. Each one costs RabbitMQ throughput; 1 = no priorities.")},
    {ROW("default_level", LEVEL, default_level, "auto"), RANGE("0", "9"),
     HELP("Level (0 = shortest work) of messages without a prediction; auto = the middle one.")},

    {ROW("amqp.uri", TEXTS, amqp.uri, "amqp://guest:guest@127.0.0.1:5672/%2f"), .syntax = CONF_S_URI, MINIMAL,
     HELP("Where RabbitMQ is, or a list that is tried in order; RabbitMQ's query parameters are understood.")},
    {ROW("amqp.password_file", TEXT, amqp.password_file, ""), .example = "/etc/harbinger/password",
     HELP("File whose first line replaces the URI's password, read at every connect; \"\" = none.")},
    {ROW("amqp.heartbeat", DURATION, amqp.heartbeat, "20s"), RANGE("0", "1h"),
     HELP("Heartbeat interval in whole seconds; a link is dead after two silent ones; 0 = what RabbitMQ proposes.")},
    {ROW("amqp.frame_max", SIZE, amqp.frame_max, "128KiB"), RANGE("4KiB", "16MiB"),
     HELP("Largest frame to ask for; RabbitMQ's own limit counts too. A message whose headers do not fit in one is "
          "parked, or stays unacked where even that is impossible.")},
    {ROW("amqp.connect_timeout", DURATION, amqp.connect_timeout, "10s"), RANGE("100ms", "5min"),
     HELP("Limit for connecting and opening a link.")},
    {ROW("amqp.confirm_timeout", DURATION, amqp.confirm_timeout, "30s"), RANGE("1s", "1h"),
     HELP("A publish that RabbitMQ has not confirmed for this long counts as a lost link.")},
    {ROW("amqp.reconnect_min", DURATION, amqp.reconnect_min, "500ms"), RANGE("1ms", "1h"),
     HELP("First pause before connecting again; it doubles, with jitter.")},
    {ROW("amqp.reconnect_max", DURATION, amqp.reconnect_max, "30s"), RANGE("1ms", "1h"),
     HELP("Longest pause before connecting again; after a refused login it is about 30 s, whatever this says.")},
    {ROW("amqp.topology", ENUM, amqp.topology, "declare"), .names = topology_names,
     HELP("Create the queues and exchanges that are missing, only check them, or do neither.")},

    {ROW("intake.queue", TEXT, intake.queue, "harbinger.intake"), .syntax = CONF_S_NAME, MINIMAL,
     HELP("Queue that producers publish to.")},
    {ROW("intake.channels", UNSIGNED, intake.channels, "0"), RANGE("0", "32"),
     HELP("Channels that consume: what is held long and acked in any order costs RabbitMQ less on several. 0 = 8 with "
          "the harbinger backend, else 1.")},
    {ROW("intake.window", UNSIGNED, intake.window, "500"), RANGE("1", "65535"),
     HELP("Messages held unacked at a time on each channel; at most 200000 on all of them.")},
    {ROW("intake.window_bytes", SIZE, intake.window_bytes, "16MiB"), RANGE("4KiB", "4GiB"),
     HELP("Bytes of bodies held at a time; one larger message still passes alone.")},
    {ROW("intake.per_worker", UNSIGNED, intake.per_worker, "1000"), RANGE("1", "65535"), R,
     HELP("The harbinger backend holds at most so many for each message that its workers can have at a time, so that "
          "several sidecars share one intake; in whole channels.")},
    {ROW("intake.idle_after", DURATION, intake.idle_after, "5s"), RANGE("0", "365d"), R,
     HELP("Without a worker for so long, the harbinger backend gives what waits back and takes nothing until one comes; "
          "0 = it holds its whole window, with and without workers.")},
    {ROW("intake.delivery_timeout", DURATION, intake.delivery_timeout, "30min"), RANGE("0", "365d"),
     HELP("RabbitMQ's consumer_timeout. The harbinger backend gives what waits for longer than a third of it back to "
          "a classic intake and takes it again; 0 = never.")},

    {ROW("work.queue", TEXT, work.queue, "harbinger.work"), .syntax = CONF_S_NAME, MINIMAL,
     HELP("Priority queue that workers consume from.")},
    {ROW("work.exchange", TEXT, work.exchange, ""), .syntax = CONF_S_NAME_OR_EMPTY, .example = "tasks",
     HELP("Exchange to publish to with the original routing key; \"\" = straight into work.queue.")},
    {ROW("work.priorities", NUMBERS, work.priorities, "[]"), RANGE("0", "255"), .example = "[9, 5, 1]",
     HELP("AMQP priority of each level, shortest work first; [] = levels-1 down to 0.")},
    {ROW("work.respect_priority", ENUM, work.respect_priority, "never"), .names = respect_names, R,
     HELP("When a message that came with a priority keeps it.")},
    {ROW("work.impersonate", BOOL, work.impersonate, "false"),
     HELP("Keep the property user_id; the sidecar's RabbitMQ user must have the tag impersonator.")},

    {ROW("broker.order", ENUM, broker.order, "paper"), .names = order_names,
     HELP("Which waiting message is next: paper = by level, with aging and weights; fifo = by arrival.")},
    {ROW("broker.aging_threshold", DURATION, broker.aging_threshold, "5s"), RANGE("0", "365d"),
     HELP("A message that waited so long moves one level up; 0 = no aging.")},
    {ROW("broker.aging_interval", DURATION, broker.aging_interval, "500ms"), RANGE("1ms", "365d"),
     HELP("Time between two looks for such messages.")},
    {ROW("broker.weights", NUMBERS, broker.weights, "[]"), RANGE("1", "1000"), .example = "[8, 3, 1]",
     HELP("Share of worker time for each level, shortest work first; [] = the shortest always goes first.")},
    {ROW("broker.pause_when_behind", ENUM, broker.pause_when_behind, "auto"), .names = pause_names,
     HELP("Whether aging waits while the level above is behind with promoted messages; auto = with weights.")},
    {ROW("broker.ttl", DURATION, broker.ttl, "0"), RANGE("0", "365d"),
     HELP("A message without an expiration of its own is parked when it was not handled for so long; 0 = never.")},
    {ROW("broker.max_attempts", U64, broker.max_attempts, "3"), RANGE("1", "1000000"),
     HELP("A message is parked when this many attempts at it have failed.")},
    {ROW("broker.lease", DURATION, broker.lease, "30s"), RANGE("0", "365d"),
     HELP("Time that a worker has for a message; then the attempt has failed. 0 = no limit.")},
    {ROW("broker.extendable_leases", BOOL, broker.extendable_leases, "false"),
     HELP("Whether a worker may have its lease begin anew.")},
    {ROW("broker.history", DURATION, broker.history, "60s"), RANGE("0", "365d"),
     HELP("How long a settlement is remembered, so that its repetition is answered as the first.")},
    {ROW("broker.history_entries", U64, broker.history_entries, "10000"), RANGE("1", "16777216"),
     HELP("How many are.")},
    {ROW("broker.batch", U64, broker.batch, "256"), RANGE("1", "1048576"),
     HELP("The most leases, expired messages or promotions handled in one go.")},
    {ROW("broker.max_messages", U64, broker.max_messages, "1000000"), RANGE("0", "4294967295"),
     HELP("Messages in the broker, those of the intake included; 0 = no bound.")},
    {ROW("broker.max_bytes", SIZE, broker.max_bytes, "256MiB"), RANGE("0", "1024GiB"),
     HELP("Bytes of those that clients have submitted; 0 = no bound. The intake has its own.")},
    {ROW("broker.max_dead", U64, broker.max_dead, "10000"), RANGE("0", "4294967295"),
     HELP("Dead letters kept of those that clients have submitted; the intake's are parked.")},
    {ROW("broker.max_dead_bytes", SIZE, broker.max_dead_bytes, "64MiB"), RANGE("0", "1024GiB"),
     HELP("Their bytes.")},
    {ROW("broker.dead_overflow", ENUM, broker.dead_overflow, "drop_oldest"), .names = dead_names,
     HELP("What happens when there are more.")},

    {ROW("rpc.listen", TEXT, rpc.listen, "127.0.0.1:50051"), .syntax = CONF_S_LISTEN,
     HELP("Address that workers and clients connect to with gRPC; port 0 = any free one, logged; \"\" = off.")},
    {ROW("rpc.certificate", TEXT, rpc.certificate, ""), .example = "/etc/harbinger/server.pem",
     HELP("PEM file with the server's certificate, read again on SIGHUP; \"\" = in the clear.")},
    {ROW("rpc.key", TEXT, rpc.key, ""), .example = "/etc/harbinger/server.key",
     HELP("PEM file with its private key.")},
    {ROW("rpc.token_file", TEXT, rpc.token_file, ""), .example = "/etc/harbinger/token",
     HELP("File whose first line every call must bring as bearer token, read again on SIGHUP; \"\" = no token.")},
    {ROW("rpc.max_connections", UNSIGNED, rpc.max_connections, "1024"), RANGE("1", "65535"),
     HELP("Connections at a time.")},
    {ROW("rpc.max_streams", UNSIGNED, rpc.max_streams, "2048"), RANGE("1", "65535"),
     HELP("Calls under way at a time on one connection.")},
    {ROW("rpc.max_message", SIZE, rpc.max_message, "4MiB"), RANGE("1KiB", "1GiB"),
     HELP("Largest request that is taken.")},
    {ROW("rpc.max_connection_bytes", SIZE, rpc.max_connection_bytes, "16MiB"), RANGE("2MiB", "4GiB"),
     HELP("Bytes held for one connection, each way; one that has more is not read from. A message of the intake "
          "that leaves less than 1.1 MB of it free is parked.")},
    {ROW("rpc.max_pull_wait", DURATION, rpc.max_pull_wait, "5s"), RANGE("1ms", "1h"),
     HELP("The longest that a Pull waits for a message.")},

    {ROW("proxy.listen", TEXT, proxy.listen, ""), .syntax = CONF_S_LISTEN, .example = "127.0.0.1:5673",
     HELP("Address that AMQP workers connect to instead of RabbitMQ: they change host and port, nothing else; "
          "port 0 = any free one, logged; \"\" = off.")},
    {ROW("proxy.certificate", TEXT, proxy.certificate, ""), .example = "/etc/harbinger/server.pem",
     HELP("PEM file with the server's certificate, read again on SIGHUP; \"\" = in the clear.")},
    {ROW("proxy.key", TEXT, proxy.key, ""), .example = "/etc/harbinger/server.key",
     HELP("PEM file with its private key; \"\" = it is in proxy.certificate.")},
    {ROW("proxy.upstream", TEXT, proxy.upstream, ""), .example = "rabbit.example:5672",
     HELP("Host and port of the RabbitMQ that each worker gets a connection to, with its own user and password; "
          "\"\" = those of amqp.uri.")},
    {ROW("proxy.upstream_tls", BOOL, proxy.upstream_tls, "false"),
     HELP("Whether these connections use TLS.")},
    {ROW("proxy.upstream_ca", TEXT, proxy.upstream_ca, ""), .example = "/etc/harbinger/ca.pem",
     HELP("PEM file with who may have signed RabbitMQ's certificate; \"\" = the system's.")},
    {ROW("proxy.max_connections", UNSIGNED, proxy.max_connections, "1024"), RANGE("1", "65535"),
     HELP("Workers' connections at a time; each is one to RabbitMQ too.")},
    {ROW("proxy.max_connection_bytes", SIZE, proxy.max_connection_bytes, "1MiB"), RANGE("64KiB", "4GiB"),
     HELP("Bytes held for one connection, each way; one message may pass it.")},
    {ROW("proxy.max_window", UNSIGNED, proxy.max_window, "0"), RANGE("0", "65535"),
     HELP("Messages that a consumer has at a time at most, whatever prefetch it asks for: its durations are true when "
          "that is as many as it runs at once. 0 = as it asks, and 250 where it asks for no limit.")},
    {ROW("proxy.barrier", BOOL, proxy.barrier, "true"),
     HELP("Acks wait until what their channel has published before has reached RabbitMQ, as on RabbitMQ alone.")},
    {ROW("proxy.allow_guest", BOOL, proxy.allow_guest, "false"),
     HELP("Whether user guest may come from other machines, which RabbitMQ itself refuses.")},

    {ROW("parked.queue", TEXT, parked.queue, "harbinger.parked"), .syntax = CONF_S_NAME,
     HELP("Queue for messages that RabbitMQ refuses, with the reason in a header.")},

    {ROW("reports.exchange", TEXT, reports.exchange, "harbinger.reports"), .syntax = CONF_S_NAME,
     HELP("Fanout exchange that workers publish their reports to.")},
    {ROW("reports.queue", TEXT, reports.queue, "harbinger.reports"), .syntax = CONF_S_NAME,
     HELP("Queue that the sidecar reads reports from.")},
    {ROW("reports.max_duration", DURATION, reports.max_duration, "30min"), RANGE("1ms", "365d"), R,
     HELP("Longer reported durations are refused.")},
    {ROW("reports.remembered_ids", U64, reports.remembered_ids, "1000000"), RANGE("0", "100000000"),
     HELP("Ids remembered so that a job is learned once.")},

    {ROW("key.producer", SOURCES, key.producer, "[user_id, app_id]"), .sources = PRODUCERS, R,
     HELP("Where a key's first part comes from: the first that is present, else \"-\".")},
    {ROW("key.label", SOURCES, key.label, "[header:job_type, header:task, type]"), .sources = LABELS, R,
     HELP("Where a key's second part, the kind of work, comes from: the first that is present, else none.")},
    {ROW("key.size", SOURCE, key.size, "none"), .sources = SIZES, R, .example = "body",
     HELP("Add a size class (a power of two) to the key: of the body's length or of a number in a header.")},

    {ROW("static", LABELS, static_levels, ""), RANGE("0", "9"), R, .example = "reserve_inventory: 0",
     HELP("Levels by hand, LABEL: LEVEL, for mode static; other labels get default_level.")},

    {ROW("predictor.summary", ENUM, predictor.summary, "median"), .names = summary_names,
     HELP("What stands for a key's durations.")},
    {ROW("predictor.min_samples", U64, predictor.min_samples, "20"), RANGE("1", "1073741824"),
     HELP("Durations that a key must have before it is predicted.")},
    {ROW("predictor.boundary_refresh_every", U64, predictor.boundary_refresh_every, "256"), RANGE("1", "1073741824"),
     HELP("Durations, of all keys, between two looks at the boundaries of the levels.")},
    {ROW("predictor.global_min_samples", U64, predictor.global_min_samples, "100"), RANGE("0", "1073741824"),
     HELP("Durations, of all keys, before the first boundaries.")},
    {ROW("predictor.spread_quantile", DOUBLE, predictor.spread_quantile, "0.99"), RANGE(">0.5", "1"),
     HELP("Quantile that is compared with the median to see how far a key spreads.")},
    {ROW("predictor.max_spread_ratio", DOUBLE, predictor.max_spread_ratio, "16"), RANGE("1", "1e9"),
     HELP("Keys whose quantile is more than this many medians are not predicted.")},
    {ROW("predictor.max_censored_fraction", DOUBLE, predictor.max_censored_fraction, "0.05"), RANGE("0", "1"),
     HELP("Keys with a larger share of timeouts are not predicted.")},
    {ROW("predictor.decay", DOUBLE, predictor.decay, "0.995"), RANGE(">0", "1"),
     HELP("Weight that a key's older durations keep at each new one.")},
    {ROW("predictor.global_decay", DOUBLE, predictor.global_decay, "0.9999"), RANGE(">0", "1"),
     HELP("The same for the durations of all keys together.")},
    {ROW("predictor.time_half_life", DURATION, predictor.time_half_life, "10min"), RANGE("0", "365d"),
     HELP("Time in which a key's durations lose half of their weight; 0 = never.")},
    {ROW("predictor.stale_after", DURATION, predictor.stale_after, "30min"), RANGE("0", "365d"),
     HELP("A key without activity for longer is forgotten; 0 = never.")},
    {ROW("predictor.idle_eviction", DURATION, predictor.idle_eviction, "10min"), RANGE("0", "365d"),
     HELP("A full table gives up keys idle for this long; 0 = never.")},
    {ROW("predictor.cold_eviction_grace", DURATION, predictor.cold_eviction_grace, "30s"), RANGE("0", "365d"),
     HELP("The same for keys that have fewer than min_samples durations; 0 = never.")},
    {ROW("predictor.histogram_bins", UNSIGNED, predictor.histogram_bins, "48"), RANGE("8", "1024"),
     HELP("Bins of a key's histogram, geometric between min and max.")},
    {ROW("predictor.min", DURATION, predictor.min, "1ms"), RANGE("1us", "365d"),
     HELP("Upper edge of the first bin.")},
    {ROW("predictor.max", DURATION, predictor.max, "10min"), RANGE("1us", "365d"),
     HELP("Upper edge of the last bin; longer durations count as this.")},
    {ROW("predictor.max_keys", U64, predictor.max_keys, "16384"), RANGE("1", "8388608"),
     HELP("Keys in the table.")},
    {ROW("predictor.hysteresis", DOUBLE, predictor.hysteresis, "0.1"), RANGE("0", "<1"),
     HELP("How far, as a fraction, a boundary or a key must move before its level changes.")},

    {ROW("snapshot.path", TEXT, snapshot.path, "auto"), .example = "/var/lib/harbinger/predictor.snapshot",
     HELP("File that keeps what was learned; auto = predictor.snapshot in $STATE_DIRECTORY, off where that is "
          "unset; \"\" = off.")},
    {ROW("snapshot.interval", DURATION, snapshot.interval, "60s"), RANGE("1s", "365d"),
     HELP("Time between two snapshots; one more is taken at shutdown.")},

    {ROW("journal.path", TEXT, journal.path, ""), .example = "/var/lib/harbinger/journal.tsv",
     HELP("File that is told each decision and each lesson, for harbinger replay; SIGHUP opens it again; \"\" = off.")},

    {ROW("http.listen", TEXT, http.listen, "127.0.0.1:9690"), .syntax = CONF_S_LISTEN,
     HELP("Address of /metrics, /livez, /readyz and /status; port 0 = any free one, logged; \"\" = off.")},

    {ROW("log.level", ENUM, log.level, "info"), .names = log_names, R,
     HELP("The least important events that are logged.")},

    {ROW("shutdown.timeout", DURATION, shutdown.timeout, "30s"), RANGE("0", "1h"),
     HELP("After SIGTERM, everything that is left to do gets this long together: confirms, acks, closing.")},
};

static const struct {
    const char *name, *help;
} sections[] = {
    {"amqp", "The connection to RabbitMQ."},
    {"intake", "Where messages come from."},
    {"work", "Where messages go."},
    {"broker", "The harbinger backend's order of service, attempts and bounds."},
    {"rpc", "The harbinger backend's gRPC workers, and its clients, whose messages are in memory alone."},
    {"proxy", "The harbinger backend's AMQP workers: on the work queue, and on the intake, they get what it holds; all "
              "else is RabbitMQ's."},
    {"parked", "Where messages go that nobody can take."},
    {"reports", "What workers say about finished jobs."},
    {"key", "What makes two messages the same kind of work. A source is user_id, app_id, type (of the work) or "
            "header:NAME."},
    {"predictor", "How durations are learned and become levels."},
    {"snapshot", "Keeping what was learned over a restart."},
    {"journal", "What was decided, and from what."},
    {"http", "Metrics, health and status."},
    {"log", "Events on standard error."},
    {"shutdown", "The end."},
};
/* clang-format on */

_Static_assert(ARRAY_SIZE(rows) <= CONF_MAX_OPTIONS, "struct conf has a place for each row");
_Static_assert(ARRAY_SIZE(sections) <= CONF_MAX_SECTIONS, "the reader remembers each section");

const struct conf_option *conf_table(size_t *n_out)
{
    *n_out = ARRAY_SIZE(rows);
    return rows;
}

int conf_table_find(const char *key, size_t n)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strlen(rows[i].key) == n && memcmp(rows[i].key, key, n) == 0)
            return (int)i;
    return -1;
}

int conf_table_section(const char *name, size_t n)
{
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
        if (strlen(sections[i].name) == n && memcmp(sections[i].name, name, n) == 0)
            return (int)i;
    return -1;
}

const char *conf_table_section_help(int section)
{
    return sections[section].help;
}

const struct conf_option *conf_table_first_of(int section)
{
    size_t n = strlen(sections[section].name);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strncmp(rows[i].key, sections[section].name, n) == 0 && rows[i].key[n] == '.')
            return &rows[i];
    return NULL;
}

#define MAX_KEY 48

/* Levenshtein's distance; texts longer than a key can be are far from everything. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), row[MAX_KEY + 1];
    if (n > MAX_KEY || m > MAX_KEY)
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

static const char *last_part(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot != NULL ? dot + 1 : key;
}

const char *conf_table_nearest(const char *key)
{
    const char *nearest = NULL;
    size_t best = strlen(key) / 3 + 1; /* farther is a guess, not help */
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        /* The right name in the wrong section is as good as one letter off. */
        size_t d =
            strcmp(last_part(rows[i].key), last_part(key)) == 0 ? 1 : distance(key, rows[i].key);
        if (d <= best && (nearest == NULL || d < best)) {
            best = d;
            nearest = rows[i].key;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        size_t d = distance(key, sections[i].name);
        if (d <= best && (nearest == NULL || d < best)) {
            best = d;
            nearest = sections[i].name;
        }
    }
    return nearest;
}

static void append(char *out, size_t size, const char *text)
{
    size_t n = strlen(out);
    if (n + 1 < size)
        snprintf(out + n, size - n, "%s", text);
}

static void append_range(const struct conf_option *o, char *out, size_t size)
{
    char range[96];
    if (o->min[0] == '>')
        snprintf(range, sizeof range, "above %s, at most %s", o->min + 1, o->max);
    else if (o->max[0] == '<')
        snprintf(range, sizeof range, "at least %s, below %s", o->min, o->max + 1);
    else
        snprintf(range, sizeof range, "%s to %s", o->min, o->max);
    append(out, size, range);
}

static void append_names(const char *const *names, char *out, size_t size)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        append(out, size, i == 0 ? "" : names[i + 1] == NULL ? " or " : ", ");
        append(out, size, names[i]);
    }
}

static void append_sources(unsigned allowed, char *out, size_t size)
{
    static const struct {
        enum conf_source_kind kind;
        const char *name;
    } all[] = {
        {CONF_SOURCE_NONE, "none"},       {CONF_SOURCE_BODY, "body"},
        {CONF_SOURCE_USER_ID, "user_id"}, {CONF_SOURCE_APP_ID, "app_id"},
        {CONF_SOURCE_TYPE, "type"},       {CONF_SOURCE_HEADER, "header:NAME"},
    };
    const char *names[ARRAY_SIZE(all) + 1] = {NULL};
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if ((allowed & CONF_SOURCE_BIT(all[i].kind)) != 0)
            names[n++] = all[i].name;
    append_names(names, out, size);
}

static const char *syntax_words(enum conf_syntax syntax)
{
    switch (syntax) {
    case CONF_S_ANY: return "a text";
    case CONF_S_NAME: return "a name of 1 to 255 bytes";
    case CONF_S_NAME_OR_EMPTY: return "a name of at most 255 bytes, or \"\"";
    case CONF_S_INSTANCE: return "at most 64 letters, digits, '.', '_' or '-'";
    case CONF_S_URI: return "an amqp:// or amqps:// URI, or a list of them";
    case CONF_S_LISTEN: return "ADDRESS:PORT, or \"\"";
    }
    return "";
}

void conf_table_range(const struct conf_option *o, char *out, size_t size)
{
    out[0] = '\0';
    if (o->names != NULL)
        append_names(o->names, out, size);
    else if (o->sources != 0)
        append_sources(o->sources, out, size);
    else if (o->min != NULL && o->type != CONF_T_LABELS)
        append_range(o, out, size);
}

void conf_table_expected(const struct conf_option *o, char *out, size_t size)
{
    out[0] = '\0';
    switch (o->type) {
    case CONF_T_TEXT:
    case CONF_T_TEXTS: append(out, size, syntax_words(o->syntax)); return;
    case CONF_T_BOOL: append(out, size, "true or false"); return;
    case CONF_T_ENUM: append_names(o->names, out, size); return;
    case CONF_T_SOURCE: append_sources(o->sources, out, size); return;
    case CONF_T_SOURCES:
        append(out, size, "a list of ");
        append_sources(o->sources, out, size);
        return;
    case CONF_T_UNSIGNED:
    case CONF_T_U64: append(out, size, "an integer, "); break;
    case CONF_T_DOUBLE: append(out, size, "a number, "); break;
    case CONF_T_DURATION:
        append(out, size, "a duration with a unit (ns, us, ms, s, min, h, d), ");
        break;
    case CONF_T_SIZE: append(out, size, "a size with a unit (B, KiB, MiB, GiB), "); break;
    case CONF_T_LEVEL: append(out, size, "auto or an integer, "); break;
    case CONF_T_NUMBERS: append(out, size, "a list of integers, each "); break;
    case CONF_T_LABELS: append(out, size, "labels with integers, each "); break;
    }
    append_range(o, out, size);
}
