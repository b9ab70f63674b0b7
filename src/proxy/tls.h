/* TLS of both ends: certificate and key from files for clients, authorities for RabbitMQ. */
#ifndef HARBINGER_PROXY_TLS_H
#define HARBINGER_PROXY_TLS_H

#include "base/compiler.h"
#include "base/err.h"

#include <openssl/ssl.h>

/* *out is NULL when `certificate` is NULL or empty: in the clear. 0; ERR_INVALID or ERR_NOMEM with
 * words that name the file. Free with SSL_CTX_free. */
int proxy_tls_listener(const char *certificate, const char *key, SSL_CTX **out,
                       struct err *e) MUST_CHECK;

/* Whom `ca` (NULL or empty: the system's) has signed is trusted. Returns as above. */
int proxy_tls_upstream(const char *ca, SSL_CTX **out, struct err *e) MUST_CHECK;

/* The two ends of a connection; NULL when memory is short. `host` is who must answer. */
SSL *proxy_tls_accept(SSL_CTX *ctx) MUST_CHECK;
SSL *proxy_tls_connect(SSL_CTX *ctx, const char *host) MUST_CHECK;

#endif
