/*
 * One channel of a session and its consumers. Shared by the files that handle its frames:
 *
 *   session.c    which handler a frame goes to
 *   client.c     what the client says      upstream.c   what RabbitMQ says
 *   settle.c     how deliveries end        inject.c     how they begin
 */
#ifndef HARBINGER_PROXY_CHAN_H
#define HARBINGER_PROXY_CHAN_H

#include "base/compiler.h"
#include "base/list.h"
#include "base/text.h"
#include "proxy/args.h"
#include "proxy/barrier.h"
#include "proxy/qos.h"
#include "proxy/session.h"
#include "proxy/tags.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- consumers ---- */

/* A consumer of any queue: RabbitMQ's deliveries name theirs, and it must be known whether those are
 * to be acknowledged. One that was cancelled stays until its deliveries are settled. */
struct proxy_consumer {
    struct list node;  /* its channel's; the latest used first */
    struct list ready; /* world.ready, chan.stalled, session.stalled, or none */
    struct chan *chan;
    uint64_t number; /* for the station; ours only */
    double priority; /* x-priority: a higher one that can take a message is served first */
    struct qos qos;
    uint32_t unsettled; /* its deliveries, RabbitMQ's too: they keep it here */
    bool ours;          /* it consumes the work queue */
    bool awaited;       /* its consume-ok is: that will name it */
    bool active;        /* RabbitMQ has it, and nobody has cancelled it */
    bool stopped;       /* somebody has */
    mono_t left_at;     /* the client has, at this time; 0 = not */
    bool over;          /* RabbitMQ will not name it again */
    bool no_ack;
    uint8_t n_tag;
    char tag[255];
};

/* A request whose answer decides what becomes of it; RabbitMQ answers in order. */
struct awaited {
    struct proxy_consumer *consumer; /* NULL for basic.get */
    bool ours, no_ack;               /* of a get */
};

enum { AWAITED_MAX = 1024 };

/* ---- channels ---- */

enum chan_state {
    CHAN_OPEN,
    CHAN_LEAVING, /* the client has said channel.close: close-ok is awaited from RabbitMQ */
    CHAN_EVICTED, /* RabbitMQ has: what the client had sent before it saw that still counts */
};

/* Which queue a name means, as far as it matters here. */
enum queue_kind { QUEUE_OTHER, QUEUE_WORK, QUEUE_INTAKE };

/* A content that one side is sending: nothing else may be sent on this channel in between. */
struct content {
    bool header_due;
    uint64_t body_left;
};

struct chan {
    struct session *session;
    uint16_t number;
    enum chan_state state;
    struct content content[2]; /* by the side that it comes from */
    bool flow_off;             /* the client wants nothing now */
    bool recovering; /* until recover-ok what it gets would be of before: it may throw it away */
    bool tx;
    enum queue_kind declared; /* the queue that an empty name means */
    struct qos each, all;     /* of each new consumer; of all together */
    uint32_t counted;         /* unsettled deliveries to consumers */
    uint64_t last_tag;        /* in the client's numbering */
    uint64_t get_number;      /* a consumer's, for basic.get; 0 = none yet */
    struct tags tags;
    struct list consumers;
    struct list stalled;   /* proxy_consumer.ready: they wait for this channel */
    struct list returning; /* world.returning, while there are TAG_RETURNED */
    mono_t returns_end;    /* when these are looked at; while it is in the list */
    struct awaited *awaited;
    unsigned awaited_first, n_awaited, awaited_cap;
    struct barrier barrier;
};

/* NULL when memory is short. Puts it into the session. */
struct chan *chan_new(struct session *s, uint16_t number);
/* Its deliveries must be settled. Takes it out of the session. */
void chan_free(struct chan *ch);
struct chan *chan_of(const struct session *s, uint16_t number);

enum queue_kind chan_queue_kind(const struct chan *ch, struct text name);

static inline bool content_is_under_way(const struct content *c)
{
    return c->header_due || c->body_left > 0;
}

/* A new consumer with a reference of its own, on its channel. NULL when memory is short. */
struct proxy_consumer *chan_consumer_new(struct chan *ch);
void chan_consumer_name(struct proxy_consumer *c, struct text tag);
struct proxy_consumer *chan_consumer_find(struct chan *ch, struct text tag);
/* RabbitMQ has it: it takes messages, if it is ours and not stopped already. */
void chan_consumer_start(struct proxy_consumer *c);
/* It takes none any more. */
void chan_consumer_stop(struct proxy_consumer *c);
/* The same, and RabbitMQ will not name it again: gone when it has nothing unsettled. */
void chan_consumer_cancel(struct proxy_consumer *c);
/* Frees it when nothing refers to it any more. */
void chan_consumer_release(struct proxy_consumer *c);

/* 0; ERR_NOMEM; ERR_INVALID when AWAITED_MAX are. */
int chan_await(struct chan *ch, const struct awaited *a) MUST_CHECK;
/* The oldest one that is a get, or a consume; false when there is none. */
bool chan_answered(struct chan *ch, bool get, struct awaited *out) MUST_CHECK;

/* ---- windows and turns (inject.c) ---- */

uint32_t chan_window(const struct chan *ch);
uint32_t chan_consumer_window(const struct proxy_consumer *c);
/* The consumer may be able to take one: in line again, if it is in none. */
void chan_consumer_wake(struct proxy_consumer *c);
/* The channel may be able to: those that wait for it get in line. */
void chan_wake(struct chan *ch);
/* Answers a basic.get with a message of ours: 0; ERR_NOMEM; HB_BROKER_EMPTY when none waits. */
int chan_get(struct chan *ch, bool no_ack) MUST_CHECK;

/* ---- settling (settle.c) ---- */

/* Settles one that is unsettled: ours at the station, at once, behind the barrier or as a return;
 * RabbitMQ's is only forgotten. The client cannot settle it again. */
int chan_settle(struct chan *ch, struct tag *tag, enum proxy_outcome outcome) MUST_CHECK;
/* Decides what was returned up to then: put back where its consumer has left, else a failure. */
void chan_end_returns(struct chan *ch, mono_t until);
/* Settles all of ours at once, whatever is published, and forgets RabbitMQ's. */
void chan_settle_all(struct chan *ch, enum proxy_outcome outcome);
/* RabbitMQ has taken back all that it had delivered on the channel. */
void chan_forget_upstream(struct chan *ch);
/* Settles what may be behind the barrier; sends its next flow if one is due. */
int chan_barrier_step(struct chan *ch) MUST_CHECK;
/* Settles what is held behind the barrier: with its own outcome if `arrived`, else as failed. */
void chan_barrier_end(struct chan *ch, bool arrived);

/* ---- handlers (client.c, upstream.c) ---- */

/* What becomes of a frame after its handler. */
enum { FORWARD = 0, SWALLOW = 1 };

struct call {
    struct session *s;
    struct chan *ch; /* NULL on channel 0 */
    struct frame *f;
    struct args a; /* behind the method's number */
};

struct handler {
    uint32_t method;
    bool connection;               /* a method of channel 0 */
    bool always;                   /* also while its channel is CHAN_LEAVING */
    int (*handle)(struct call *c); /* FORWARD, SWALLOW, or negative: the session ends */
};

struct handlers {
    const struct handler *v;
    size_t n;
};

extern const struct handlers client_handlers, upstream_handlers;

/* login.c: what start-ok says. Refuses guest from elsewhere. */
int login_start_ok(struct call *c);

#endif
