/* Do the options agree with each other? Each rule names both options and the place of the one to
 * change. */
#include "conf/conf_internal.h"

#include "base/err.h"

#include <harbinger/broker.h>
#include <harbinger/predictor.h>

#include <stdio.h>
#include <string.h>

static const struct conf_place *place_of(const struct conf *c, const char *key)
{
    return &c->place[conf_table_find(key, strlen(key))];
}

int conf_refuse(const struct conf *c, const char *key, const char *text, struct conf_errors *errors)
{
    const struct conf_place *at = place_of(c, key);
    if (at->line > 0)
        return conf_errors_add(errors, ERR_CONFIG, "%s:%u:%u: %s", c->name, at->line, at->column,
                               text);
    return conf_errors_add(errors, ERR_CONFIG, "%s: %s", at->by_set ? "--set" : "defaults", text);
}

/* The place is the first of the two keys that is not a default. */
static void disagree(const struct conf *c, struct conf_errors *errors, const char *key,
                     const char *other, const char *text)
{
    const struct conf_place *at = place_of(c, key);
    (void)conf_refuse(c, at->line == 0 && !at->by_set ? other : key, text, errors);
}

static bool check_levels(const struct conf *c, struct conf_errors *errors)
{
    char text[256];
    bool fine = true;
    if (c->default_level != CONF_LEVEL_AUTO && (unsigned)c->default_level >= c->levels) {
        snprintf(text, sizeof text,
                 "default_level: '%d' is not below levels (%u); expected auto or 0 to %u",
                 c->default_level, c->levels, c->levels - 1);
        disagree(c, errors, "default_level", "levels", text);
        fine = false;
    }
    if (c->work.priorities.n > 0 && c->work.priorities.n != c->levels) {
        snprintf(text, sizeof text,
                 "work.priorities: %zu priorities for %u levels; expected one for each, or []",
                 c->work.priorities.n, c->levels);
        disagree(c, errors, "work.priorities", "levels", text);
        fine = false;
    }
    for (size_t i = 0; i < c->static_levels.n; i++) {
        const struct conf_label *l = &c->static_levels.v[i];
        if (l->level < c->levels)
            continue;
        snprintf(text, sizeof text, "static.%.128s: level %u is not below levels (%u)", l->label,
                 l->level, c->levels);
        disagree(c, errors, "static", "levels", text);
        fine = false;
    }
    return fine;
}

static bool check_durations(const struct conf *c, struct conf_errors *errors)
{
    bool fine = true;
    if (c->amqp.reconnect_min > c->amqp.reconnect_max) {
        disagree(c, errors, "amqp.reconnect_min", "amqp.reconnect_max",
                 "amqp.reconnect_min: is above amqp.reconnect_max");
        fine = false;
    }
    if (c->amqp.heartbeat % MONO_S != 0) {
        disagree(c, errors, "amqp.heartbeat", "amqp.heartbeat",
                 "amqp.heartbeat: is not whole seconds, as AMQP wants; example: heartbeat: 20s");
        fine = false;
    }
    if (c->predictor.min >= c->predictor.max) {
        disagree(c, errors, "predictor.min", "predictor.max",
                 "predictor.min: is not below predictor.max");
        fine = false;
    }
    return fine;
}

/* The predictor's own rules are stricter than the ranges of single options. */
static bool check_predictor(const struct conf *c, struct conf_errors *errors)
{
    char why[160], text[256];
    struct hb_predictor_options o;
    conf_predictor_options(c, &o);
    if (c->predictor.min >= c->predictor.max || conf_default_level(c) >= c->levels ||
        hb_predictor_options_valid(&o, why, sizeof why))
        return true;
    snprintf(text, sizeof text, "predictor: %s", why);
    disagree(c, errors, "predictor.max", "predictor.min", text);
    return false;
}

/* The broker's own rules are stricter than the ranges of single options. */
static bool check_broker(const struct conf *c, struct conf_errors *errors)
{
    char why[160], text[256];
    struct hb_broker_options o;
    conf_broker_options(c, &o);
    if (c->broker.weights.n > 0 && c->broker.weights.n != c->levels) {
        snprintf(text, sizeof text,
                 "broker.weights: %zu weights for %u levels; expected one for each, or []",
                 c->broker.weights.n, c->levels);
        disagree(c, errors, "broker.weights", "levels", text);
        return false;
    }
    if (hb_broker_options_valid(&o, why, sizeof why))
        return true;
    snprintf(text, sizeof text, "broker: %s", why);
    disagree(c, errors, "broker.dead_overflow", "broker.max_dead", text);
    return false;
}

/* One is of no use without the other. */
static bool check_rpc(const struct conf *c, struct conf_errors *errors)
{
    bool certificate = c->rpc.certificate[0] != '\0', key = c->rpc.key[0] != '\0';
    if (certificate == key)
        return true;
    disagree(c, errors, certificate ? "rpc.certificate" : "rpc.key",
             certificate ? "rpc.key" : "rpc.certificate",
             certificate ? "rpc.certificate: needs rpc.key" : "rpc.key: needs rpc.certificate");
    return false;
}

static bool check_proxy(const struct conf *c, struct conf_errors *errors)
{
    bool fine = true;
    if (c->proxy.listen[0] != '\0' && c->backend != CONF_BACKEND_HARBINGER) {
        disagree(c, errors, "proxy.listen", "backend",
                 "proxy.listen: needs backend: harbinger; with the other one workers connect to "
                 "RabbitMQ itself");
        fine = false;
    }
    if (c->proxy.listen[0] != '\0' && strcmp(c->proxy.listen, c->rpc.listen) == 0 &&
        strcmp(strrchr(c->proxy.listen, ':'), ":0") != 0) {
        disagree(c, errors, "proxy.listen", "rpc.listen",
                 "proxy.listen: is rpc.listen too; expected an address of its own");
        fine = false;
    }
    if (c->proxy.key[0] != '\0' && c->proxy.certificate[0] == '\0') {
        disagree(c, errors, "proxy.key", "proxy.certificate", "proxy.key: needs proxy.certificate");
        fine = false;
    }
    if (c->proxy.upstream_ca[0] != '\0' && !c->proxy.upstream_tls) {
        disagree(c, errors, "proxy.upstream_ca", "proxy.upstream_tls",
                 "proxy.upstream_ca: needs proxy.upstream_tls: true");
        fine = false;
    }
    return fine;
}

/* A queue with two roles would feed the sidecar its own output. */
static bool check_queues(const struct conf *c, struct conf_errors *errors)
{
    const struct {
        const char *key, *queue;
    } queues[] = {
        {"intake.queue", c->intake.queue},
        {"work.queue", c->work.queue},
        {"parked.queue", c->parked.queue},
        {"reports.queue", c->reports.queue},
    };
    bool fine = true;
    for (size_t i = 0; i < ARRAY_SIZE(queues); i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(queues[i].queue, queues[k].queue) != 0)
                continue;
            char text[384];
            snprintf(text, sizeof text, "%s: '%s' is %s too; expected a queue of its own",
                     queues[i].key, queues[i].queue, queues[k].key);
            disagree(c, errors, queues[i].key, queues[k].key, text);
            fine = false;
        }
    }
    return fine;
}

/* Each held message takes room in tables that are made at the start. */
static bool check_window(const struct conf *c, struct conf_errors *errors)
{
    char text[160];
    if (conf_intake_window(c) <= CONF_MAX_WINDOW)
        return true;
    snprintf(text, sizeof text,
             "intake.window: %u channels of %u messages are more than %u together",
             conf_intake_channels(c), c->intake.window, CONF_MAX_WINDOW);
    disagree(c, errors, "intake.window", "intake.channels", text);
    return false;
}

int conf_check(const struct conf *c, struct conf_errors *errors)
{
    bool levels = check_levels(c, errors);
    bool durations = check_durations(c, errors);
    bool queues = check_queues(c, errors);
    bool window = check_window(c, errors);
    bool broker = check_broker(c, errors);
    bool rpc = check_rpc(c, errors);
    bool proxy = check_proxy(c, errors);
    bool predictor = check_predictor(c, errors);
    return levels && durations && queues && window && broker && rpc && proxy && predictor
               ? 0
               : ERR_CONFIG;
}
