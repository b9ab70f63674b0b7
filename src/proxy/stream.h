/* A connected socket, in the clear or in TLS. It never blocks. With TLS the process should ignore
 * SIGPIPE. */
#ifndef HARBINGER_PROXY_STREAM_H
#define HARBINGER_PROXY_STREAM_H

#include "base/compiler.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct event_base;

enum stream_state {
    STREAM_NONE,     /* not there yet */
    STREAM_SHAKING,  /* TLS is being agreed on */
    STREAM_UP,       /* both ways */
    STREAM_FINISHED, /* we have said our last; what still comes is read and thrown away */
    STREAM_CLOSED,
};

struct stream {
    enum stream_state state;
    int fd;
    SSL *ssl; /* NULL: in the clear */
    struct event *read, *write;
    bool paused;
};

/* The callbacks of libevent: readable and writable. */
struct stream_events {
    struct event_base *base;
    void (*readable)(int fd, short what, void *ctx);
    void (*writable)(int fd, short what, void *ctx);
    void *ctx;
};

/* Takes the descriptor, which must be non-blocking and connected, and `ssl` (may be NULL), set up as
 * the end that it is. 0 or ERR_NOMEM, and it is closed. */
int stream_open(struct stream *s, int fd, SSL *ssl, const struct stream_events *e) MUST_CHECK;
void stream_close(struct stream *s);

/* Bytes moved; STREAM_LATER when it would block, STREAM_LOST when it is over. */
enum { STREAM_LATER = -1, STREAM_LOST = -2 };
ssize_t stream_read(struct stream *s, void *p, size_t n);
ssize_t stream_write(struct stream *s, const void *p, size_t n);

/* Goes on with the handshake: 0 when it is done, else as above. */
int stream_shake(struct stream *s);

/* Nothing more will be written: tells the other end so. */
void stream_finish(struct stream *s);

/* Whether bytes are asked for. */
void stream_pause(struct stream *s, bool pause);

#endif
