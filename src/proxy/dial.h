/* A TCP connection to the first of several hosts that takes one: names are resolved and every
 * address is tried, in order, each for a limited time. */
#ifndef HARBINGER_PROXY_DIAL_H
#define HARBINGER_PROXY_DIAL_H

#include "base/compiler.h"
#include "base/mono.h"

#include <stddef.h>
#include <stdint.h>

struct dial;
struct event_base;
struct evdns_base;

struct dial_host {
    char host[256];
    uint16_t port;
};

struct dial_options {
    struct event_base *base;
    struct evdns_base *dns; /* borrowed; outlives the dial's question */
    const struct dial_host *hosts;
    size_t n_hosts; /* 1 or more */
    mono_t timeout; /* of each address */

    /* The end, from the loop: a connected descriptor, the callee's, and whose it is; or -1 and why
     * the last one failed. The dial is gone when it returns. */
    void (*done)(void *ctx, int fd, size_t host, const char *error);
    void *ctx;
};

/* `hosts` is borrowed. NULL when memory is short. */
struct dial *dial_new(const struct dial_options *o) MUST_CHECK;
/* Gives it up without a call. NULL does nothing. */
void dial_free(struct dial *d);

#endif
