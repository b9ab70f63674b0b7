/*
 * One client and its connection to RabbitMQ, as two streams of bytes: what comes in from either side
 * is handed on to the other, and what the proxy does to it is done on the way. No socket and no
 * clock; memory and the station are all it touches.
 *
 *   greeting ─► handshake ─► open ─► closing ─► ended
 *       │           └──────────┴──► refused ──────┘
 *       └─► tunnel
 *
 * closing: one side has said connection.close; nothing is injected any more. refused: the proxy has
 * said it, RabbitMQ is left, and the client's close-ok is awaited. tunnel: not AMQP 0-9-1, bytes are
 * only handed on.
 */
#ifndef HARBINGER_PROXY_SESSION_H
#define HARBINGER_PROXY_SESSION_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/sm.h"
#include "proxy/server.h"
#include "proxy/split.h"
#include "proxy/world.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chan;

enum side { SIDE_CLIENT, SIDE_UPSTREAM };

enum session_state {
    SESSION_GREETING,
    SESSION_HANDSHAKE,
    SESSION_OPEN,
    SESSION_CLOSING,
    SESSION_REFUSED,
    SESSION_TUNNEL,
    SESSION_ENDED,
};

/* Bytes on their way to one side; what is before `at` is sent. */
struct outbox {
    struct buf bytes;
    size_t at;
};

static inline size_t outbox_bytes(const struct outbox *o)
{
    return o->bytes.n - o->at;
}

struct session {
    struct world *world;
    struct sm sm;
    bool local; /* the client is on this machine */

    struct split in[2];   /* by the side that it comes from */
    struct outbox out[2]; /* by the side that it goes to */

    uint16_t channel_max, heartbeat_s; /* heartbeat_s: once tuned; 0 = none */
    uint32_t frame_max;
    bool serves; /* its virtual host is the station's */
    char user[64], product[64];

    struct chan **channels; /* by number; NULL where there is none */
    unsigned n_channels;    /* room in it */
    unsigned n_open;        /* channels there are */
    unsigned n_consumers;   /* of any queue; those that are cancelled and have unsettled ones too */
    unsigned n_takers;      /* of the work queue */
    uint32_t in_flight;     /* ours */
    uint64_t delivered;

    uint16_t event_channel; /* the client sends Celery's events there: kept to be read; 0 = none */
    struct buf event;
    struct list stalled; /* proxy_consumer.ready: they wait for room in out[SIDE_CLIENT] */
    struct list dirty;   /* the world's */
    const char *why;     /* after an error: a fixed text, what that side does wrong */
};

/* `local`: the client is on this machine. */
void session_init(struct session *s, struct world *w, bool local);
/* What is unsettled must have been: session_end. */
void session_fini(struct session *s);

static inline enum session_state session_state(const struct session *s)
{
    return (enum session_state)s->sm.state;
}

/* Bytes have come from `from`; they are changed in place. 0; ERR_PROTOCOL with `why`, ERR_NOMEM or
 * ERR_INVALID (a table is full): the session cannot go on, session_end is next. */
int session_input(struct session *s, enum side from, char *bytes, size_t n) MUST_CHECK;

/* The client has taken bytes from its outbox: who waited for room gets in line. True when somebody
 * did. */
bool session_drained(struct session *s);
/* So much waits for the client that nothing is injected. */
bool session_is_full(const struct session *s);
/* Bytes held, both ways. */
size_t session_held_bytes(const struct session *s);

/* The proxy itself ends the connection: says so to both sides. `method` is the one to blame, or 0. */
int session_refuse(struct session *s, uint16_t code, const char *text, uint32_t method) MUST_CHECK;

/* It is over: all that is unsettled is settled so, acks that were held for a publish as failures. */
void session_end(struct session *s, enum proxy_outcome outcome);

/* There is something for whoever looks after its sockets. */
void session_touch(struct session *s);

/* The most that may be in flight to it; UINT32_MAX for more. */
uint32_t session_window(const struct session *s);

#endif
