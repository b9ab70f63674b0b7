/* TLS for the server: certificate and key from files, HTTP/2 by ALPN. */
#ifndef HARBINGER_RPC_TLS_H
#define HARBINGER_RPC_TLS_H

#include "base/compiler.h"
#include "base/err.h"

#include <openssl/ssl.h>

/* *out is NULL when `certificate` is NULL or empty: in the clear. 0; ERR_INVALID with words that
 * name the file. Free with SSL_CTX_free. */
int tls_server_context(const char *certificate, const char *key, SSL_CTX **out,
                       struct err *e) MUST_CHECK;

#endif
