/* The daemon's parts, for the files of this folder that show them (face.c) or change them
 * (reload.c). */
#ifndef HARBINGER_SIDECAR_DAEMON_INTERNAL_H
#define HARBINGER_SIDECAR_DAEMON_INTERNAL_H

#include "amqp/link.h"
#include "amqp/topology.h"
#include "base/sm.h"
#include "flow/flow.h"
#include "sidecar/amqp_workers.h"
#include "sidecar/backend_harbinger.h"
#include "sidecar/backend_rabbitmq.h"
#include "sidecar/daemon.h"
#include "sidecar/demand.h"
#include "sidecar/intake.h"
#include "sidecar/journal.h"
#include "sidecar/logfile.h"
#include "sidecar/reports.h"
#include "sidecar/snapshots.h"
#include "sidecar/topology_of.h"
#include "sidecar/workers.h"

#include <event2/event.h>

enum daemon_state {
    DAEMON_STARTING,
    DAEMON_RUNNING,
    DAEMON_DRAINING,
    DAEMON_CLOSING,
    DAEMON_STOPPED
};

enum { LINK_CONSUME, LINK_PUBLISH, N_LINKS };

enum { ON_TERM, ON_INT, ON_HUP, N_SIGNALS };

struct face;

struct daemon {
    struct daemon_options options;
    struct conf conf;
    char instance[256];
    struct sm sm;
    int result; /* of daemon_run */
    mono_t started_at;
    mono_t stop_told_at; /* the first SIGTERM or SIGINT */

    struct logfile log;
    struct event_base *base;
    struct event *signals[N_SIGNALS];
    struct event *tick, *idle, *deadline;

    struct link *consume, *publish;
    struct topology *topology;
    struct topology_of objects;
    struct journal *journal; /* NULL: off */
    struct flow *flow;
    struct backend_rabbitmq *rabbitmq; /* one of these two: `backend` in the configuration */
    struct backend_harbinger *harbinger;
    struct workers *workers;           /* NULL: another backend, or rpc.listen is "" */
    struct amqp_workers *amqp_workers; /* NULL: proxy.listen is "" */
    bool held_off;                     /* an operator asked that nothing new be taken in */
    struct intake *intake;             /* NULL until running */
    mono_t worked_at;                  /* the last time that workers had or wanted something */
    mono_t renew_after;                /* of the intake's deliveries; 0: never */
    struct reports *reports;           /* NULL until running */
    struct snapshots *snapshots;
    struct face *face; /* NULL: http.listen is "" */

    struct flow_advice advice;  /* of the latest whole period */
    char lost[N_LINKS][512];    /* why a link is down, for people; "" while it is up */
    char topology_problem[512]; /* what the latest look found, "" when nothing */
    mono_t asked_at;            /* the latest look at the topology */
    char reload_error[640];     /* the first of the latest refused reload, "" after a good one */
    struct buf restart_keys;    /* options that wait for the next start, space between them */
    uint64_t reloads, failed_reloads;
};

/* daemon_links.c: makes both links, stopped. 0, or a negative code with `err` set. */
int daemon_make_links(struct daemon *d, struct err *err) MUST_CHECK;

/* daemon.c: the topology is there; 0 or a negative code. */
int daemon_start_running(struct daemon *d) MUST_CHECK;
/* Ends the loop with this result. */
void daemon_fail(struct daemon *d, int code);
/* One of the links has said goodbye. */
void daemon_link_stopped(struct daemon *d);

/* reload.c: SIGHUP. */
void daemon_reload(struct daemon *d);

/* The type of the intake queue may have become known. */
void daemon_intake_is(struct daemon *d, enum topology_queue_type type);

/* Looks at the topology again, under `declare` making what is missing. */
void daemon_ask_topology(struct daemon *d);

/* Why messages do not flow right now, "" when they do. Valid until the next event. */
const char *daemon_obstacle(const struct daemon *d);

#endif
