/*
 * The byte stream under an HTTP/2 connection, in the clear or in TLS, for both ends. It never
 * blocks. With TLS the process should ignore SIGPIPE.
 */
#ifndef HARBINGER_RPC_WIRE_H
#define HARBINGER_RPC_WIRE_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <sys/types.h>

struct wire {
    int fd;   /* -1: closed */
    SSL *ssl; /* NULL: in the clear */
};

/* Bytes moved; WIRE_LATER when it would block, WIRE_LOST when it is over. */
enum { WIRE_LATER = -1, WIRE_LOST = -2 };
ssize_t wire_read(struct wire *w, void *p, size_t n);
ssize_t wire_write(struct wire *w, const void *p, size_t n);

/* With a blocking descriptor in the clear: waits for bytes as long as its SO_RCVTIMEO says, which
 * saves the poll() before each answer of a busy peer. */
ssize_t wire_read_patiently(struct wire *w, void *p, size_t n);

/* Both, the TLS state and the descriptor. Idempotent. */
void wire_close(struct wire *w);

#endif
