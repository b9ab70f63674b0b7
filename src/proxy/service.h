/*
 * What the AMQP proxy needs from the rest of the daemon: someone who hands out the next message for
 * a worker and takes its settlement. All functions run on the loop, must not free the server nor
 * call it, proxy_server_pump excepted, and may be called at any time between proxy_server_new and
 * the end of proxy_server_free.
 */
#ifndef HARBINGER_PROXY_SERVICE_H
#define HARBINGER_PROXY_SERVICE_H

#include "base/mono.h"
#include "base/text.h"

#include <harbinger/broker.h>

#include <stdbool.h>
#include <stdint.h>

/* One message at one worker. `id` and `token` are the station's; the proxy gives them back in the
 * settlement and looks into neither. */
struct proxy_delivery {
    uint64_t id, token;
    bool redelivered; /* a worker has had it before: what the worker sees as the AMQP flag */

    /* As its producer published it; valid until the next call of the station. */
    struct text exchange, routing_key; /* at most 255 bytes each */
    struct text props;                 /* property flags and list, raw: what follows class, weight
                                          and body size in a content header; 2 bytes at least */
    struct text body;

    /* What the station needs to learn this job's duration when the message is gone: given back with
     * `learn`. At most PROXY_LESSON_MAX bytes; absent: nothing is learned so. */
    struct text lesson;
};

enum { PROXY_LESSON_MAX = 512 };

/* How a delivery ended. */
enum proxy_outcome {
    PROXY_ACK,      /* the worker has handled it */
    PROXY_FAIL,     /* nack or reject with requeue, or its connection broke: a failed attempt, to be
                       delivered again while there are attempts left */
    PROXY_DISCARD,  /* nack or reject without requeue: at once where the queue's dead letters go */
    PROXY_PUT_BACK, /* it was not begun (recover, channel or connection closed in order): in front
                       again, and not counted as an attempt */
    PROXY_N_OUTCOMES
};

struct proxy_settlement {
    uint64_t consumer, id, token;
    enum proxy_outcome outcome;
    double duration_ms; /* of the handler; negative: not known. With PROXY_ACK only */
};

struct proxy_station {
    void *ctx;

    /* Deliveries go to the consumers of this queue in this virtual host. It exists and is normally
     * empty; what is in it all the same RabbitMQ delivers as ever. Borrowed, as the next two. */
    const char *vhost;
    const char *work;
    /* The intake, where it is the queue that the workers consume from: consume and get on it are
     * rewritten to `work`. NULL or "": the workers name `work` themselves. */
    const char *intake;

    mono_t (*now)(void *ctx);

    /* The next message for `consumer`, a number that the server never uses twice; its top bit is
     * set, so that it is no consumer of another face. There is no lease: the message is the
     * consumer's until it is settled. HB_BROKER_OK, EMPTY or NOMEM. */
    int (*pull)(void *ctx, uint64_t consumer, struct proxy_delivery *out);

    /* Each delivery is settled exactly once, when the server is freed at the latest. HB_BROKER_OK;
     * anything else (STALE, UNKNOWN, FOREIGN: it was ended otherwise meanwhile) is counted and has
     * no other effect. Put-backs of several deliveries come newest first. */
    int (*settle)(void *ctx, const struct proxy_settlement *s);

    /* The station was used: its next deadline may be another one. Once per turn of the loop. */
    void (*touched)(void *ctx);

    /* While it says so nothing more is pulled; what is at workers may be settled. */
    bool (*draining)(void *ctx);

    /* Messages that wait: added to what RabbitMQ tells clients that declare the queue. May be NULL.
     */
    uint64_t (*waiting)(void *ctx);

    /* A worker's own event tells how long the job of a delivery with that lesson took, which is also
     * what its ack then does not tell. May be NULL: events are not read. */
    void (*learn)(void *ctx, struct text lesson, double duration_ms);
};

#endif
