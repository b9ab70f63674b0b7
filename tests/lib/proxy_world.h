/*
 * A session of the AMQP proxy between a test that plays the client and RabbitMQ, and a station that
 * keeps an account of every message. No socket, no clock.
 *
 * The station ends the process when a delivery is settled twice, by the wrong consumer, or never.
 */
#ifndef HARBINGER_TESTS_PROXY_WORLD_H
#define HARBINGER_TESTS_PROXY_WORLD_H

#include "amqp/lib.h"
#include "base/buf.h"
#include "base/text.h"
#include "proxy/session.h"
#include "proxy/split.h"
#include "proxy/world.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROXY_WORLD_MESSAGES = 4096 };

/* What became of a message: waiting, at a worker, or an outcome. */
enum { AT_REST = -1, AT_WORKER = -2 };

struct proxy_message {
    int state; /* AT_REST, AT_WORKER, PROXY_ACK or PROXY_DISCARD */
    uint64_t consumer, token;
    double duration_ms; /* of the ack */
    double event_ms;    /* of an event; 0 = none came */
    unsigned n_failed, n_put_back;
    unsigned settled; /* the latest settlement, of all, from 1 */
};

struct proxy_world {
    struct world world;
    struct session session;
    struct proxy_message message[PROXY_WORLD_MESSAGES]; /* by number, from 1 */
    unsigned n_messages;
    uint64_t n_tokens;
    unsigned n_settled;
    bool draining;
    char body[32], props[32], lesson[16];
};

/* `o` may be NULL. The work queue is "work", the intake "intake", the virtual host "/". The session
 * is open, its frame_max 4096 and no heartbeat. */
void proxy_world_init(struct proxy_world *w, const struct proxy_options *o);
/* Ends the session as a broken client does, and accounts. */
void proxy_world_fini(struct proxy_world *w);

/* Messages whose bodies are "oN", N counting from 1. */
void proxy_world_put(struct proxy_world *w, unsigned count);

/* The next frame that went to a side; false when there is none. It is valid until the next call. */
bool proxy_world_take(struct proxy_world *w, enum side to, struct frame *out);

/* Frames for one side, put together before they are fed. */
void put_method(struct buf *out, uint16_t channel, uint32_t method, const char *format, ...);
/* `format`: b w l q are integers of 1, 2, 4 and 8 bytes (unsigned; q uint64_t), s a short text
 * (const char *), t an empty table. */
void put_content(struct buf *out, uint16_t channel, const char *body);

/* Feeds all of it and empties it. Returns what session_input does. */
int proxy_world_feed(struct proxy_world *w, enum side from, struct buf *bytes);

/* Ends the process with the place when it does not hold: also in release builds. */
#define MUST(x) must_hold((x), #x, __FILE__, __LINE__)
void must_hold(bool holds, const char *what, const char *file, int line);

#endif
