/* SIGHUP: the configuration file is read again. A file with an error changes nothing; options that
 * need a restart are named and keep their value. */
#include "sidecar/daemon_internal.h"
#include "sidecar/loop.h"
#include "sidecar/rules.h"
#include "sidecar/sd.h"

#include <inttypes.h>
#include <stdio.h>

static void log_errors(struct daemon *d, const struct conf_errors *errors)
{
    size_t n = errors->n < CONF_MAX_ERRORS ? errors->n : CONF_MAX_ERRORS;
    for (size_t i = 0; i < n; i++)
        log_event(&d->log.sink, LOG_ERROR, "reload.error", "text=" LOG_Q, errors->line[i]);
    log_event(&d->log.sink, LOG_ERROR, "reload.refused", "errors=%zu effect=" LOG_Q, errors->n,
              "nothing was changed");
    d->failed_reloads++;
    snprintf(d->reload_error, sizeof d->reload_error, "%s", errors->line[0]);
}

static void log_changes(struct daemon *d, const struct conf *fresh)
{
    struct conf_change changes[CONF_MAX_OPTIONS];
    size_t n = conf_diff(&d->conf, fresh, changes);
    buf_reset(&d->restart_keys);
    for (size_t i = 0; i < n; i++) {
        bool now = changes[i].reloadable;
        log_event(&d->log.sink, now ? LOG_INFO : LOG_WARN, "reload.change", "key=%s effect=" LOG_Q,
                  changes[i].key, now ? "now" : "at the next start");
        if (!now && buf_printf(&d->restart_keys, "%s%s", d->restart_keys.n > 0 ? " " : "",
                               changes[i].key) < 0)
            log_event(&d->log.sink, LOG_WARN, "reload.change", "reason=" LOG_Q,
                      err_name(ERR_NOMEM));
    }
}

static int read_again(struct daemon *d, struct conf_errors *errors)
{
    struct conf fresh;
    int r =
        conf_load_file(d->options.conf_path, d->options.sets, d->options.n_sets, &fresh, errors);
    if (r < 0)
        return r;
    log_changes(d, &fresh);
    r = conf_reload(&d->conf, &fresh, errors);
    if (r == 0) {
        struct flow_rules rules;
        rules_of(&d->conf, &rules);
        flow_set_rules(d->flow, &rules);
        d->log.sink.level = d->conf.log.level;
        if (d->workers != NULL)
            workers_reload(d->workers);
        if (d->amqp_workers != NULL)
            amqp_workers_reload(d->amqp_workers);
    }
    conf_fini(&fresh);
    return r;
}

void daemon_reload(struct daemon *d)
{
    journal_reopen(d->journal);
    struct conf_errors errors = {0};
    sd_notify_reloading(loop_now());
    if (read_again(d, &errors) < 0) {
        log_errors(d, &errors);
    } else {
        d->reloads++;
        d->reload_error[0] = '\0';
        log_event(&d->log.sink, LOG_INFO, "reloaded", "file=" LOG_Q,
                  d->options.conf_path != NULL ? d->options.conf_path : "");
    }
    if (d->sm.state == DAEMON_RUNNING)
        sd_notify_state("READY=1");
}
