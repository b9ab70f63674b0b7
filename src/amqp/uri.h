/*
 * amqp://user:password@host:port/vhost?heartbeat=10&connection_timeout=5000&channel_max=64&frame_max=131072
 * &auth_mechanism=plain, as RabbitMQ's URI specification and its query parameters page define them.
 * Percent-encoding is undone in user, password, host and vhost. An unknown parameter is an error,
 * and so is amqps:// (no TLS yet).
 */
#ifndef HARBINGER_AMQP_URI_H
#define HARBINGER_AMQP_URI_H

#include "base/compiler.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum uri_mechanism { URI_PLAIN, URI_EXTERNAL };

struct uri {
    char host[256];     /* default localhost; an IPv6 address has no brackets here */
    uint16_t port;      /* default 5672 */
    char user[256];     /* default guest */
    char password[256]; /* default guest */
    char vhost[256]; /* default "/", also for the paths "/" and "//" (as in Celery's addresses) */
    enum uri_mechanism mechanism;
    int heartbeat_s;               /* -1: not given; 0: none */
    int64_t connection_timeout_ms; /* -1: not given */
    int channel_max;               /* -1: not given */
    int64_t frame_max;             /* -1: not given */
};

/* Returns 0, or ERR_CONFIG with a message that names the part and never shows the password. */
int uri_parse(const char *text, struct uri *out, struct err *e) MUST_CHECK;

/* "amqp://user@host:port/vhost", percent-encoded; no password, ever. Cut if `size` is short;
 * URI_PRINT_MAX suffices. */
enum { URI_PRINT_MAX = 2400 };
void uri_print(const struct uri *u, char *out, size_t size);

#endif
