/* Opens a connection: name to address, TCP, and TLS on top where it is asked for. */
#ifndef HARBINGER_CLIENT_DIAL_H
#define HARBINGER_CLIENT_DIAL_H

#include "base/compiler.h"
#include "base/mono.h"

#include <harbinger/client.h>

#include <openssl/ssl.h>
#include <stddef.h>
#include <sys/types.h>

/* A byte stream that never blocks. */
struct wire {
    int fd;   /* -1: closed */
    SSL *ssl; /* NULL: in the clear */
};

/* HOST:PORT or [HOST]:PORT into its parts; false when it is of another form. */
bool dial_split(const char *address, char host[256], char port[8]);

/* 0, or -1 with words in `why`. Resolving a name may take longer than `until`. */
int dial(const struct hb_client_options *o, mono_t until, struct wire *out, char *why,
         size_t size) MUST_CHECK;

/* Bytes moved; WIRE_LATER when it would block, WIRE_LOST when it is over. */
enum { WIRE_LATER = -1, WIRE_LOST = -2 };
ssize_t wire_read(struct wire *w, void *p, size_t n);
ssize_t wire_write(struct wire *w, const void *p, size_t n);
void wire_close(struct wire *w);

#endif
