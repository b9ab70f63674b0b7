/*
 * Why a connection or a channel is gone. Everything that ends in this folder ends with one of
 * these, so that the owner can tell the broker's moment (try again) from a mistake of ours (say so,
 * and wait long).
 */
#ifndef HARBINGER_AMQP_LOSS_H
#define HARBINGER_AMQP_LOSS_H

#include "base/log.h"

#include <stdbool.h>
#include <stdint.h>

#define LOSS_MAP(X)                                                                            \
    X(LOSS_CLOSED, "closed by us")                                                             \
    X(LOSS_CONNECT, "cannot connect")     /* resolve, connect, or closed before `start` */     \
    X(LOSS_TIMEOUT, "no answer in time")  /* handshake, close, or a confirm */                 \
    X(LOSS_ACCESS, "access refused")      /* login (403) or virtual host (530) */              \
    X(LOSS_SOCKET, "connection lost")     /* reset or end of stream */                         \
    X(LOSS_HEARTBEAT, "heartbeat missed") /* nothing received for two intervals */             \
    X(LOSS_PROTOCOL, "protocol broken")   /* the peer sent what cannot be decoded */           \
    X(LOSS_CONNECTION, "connection closed by the broker") /* code and text are the broker's */ \
    X(LOSS_CHANNEL, "channel closed by the broker")       /* the connection lives on */        \
    X(LOSS_CANCEL, "consumer cancelled by the broker")    /* its queue is gone or moved */     \
    X(LOSS_NOMEM, "out of memory")

enum loss_kind {
#define LOSS_ENUM(name, text) name,
    LOSS_MAP(LOSS_ENUM)
#undef LOSS_ENUM
};

struct loss {
    enum loss_kind kind;
    uint16_t code;  /* AMQP reply code (404, 406, 320, ...); 0 where the broker said nothing */
    char text[256]; /* terminated; the broker's words or ours; never holds a password */
};

/* "access refused", ... Never NULL. */
const char *loss_name(enum loss_kind kind);

/* One line "channel closed by the broker (404): NOT_FOUND - no queue ..."; cut if `size` is short,
 * 320 suffice. */
void loss_format(const struct loss *why, char *out, unsigned size);

/* True when the broker refused *us* (login, virtual host, 403 on a channel): waiting short helps
 * nobody. A forced close (320, an operator's action or a shutdown) is not one. */
bool loss_is_refusal(const struct loss *why);

/* How loud its log line is: what we closed ourselves is no warning. */
static inline enum log_level loss_level(const struct loss *why)
{
    return why->kind == LOSS_CLOSED ? LOG_DEBUG : LOG_WARN;
}

#endif
