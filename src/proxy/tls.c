#include "proxy/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdbool.h>

static int refuse(SSL_CTX *ctx, const char *what, const char *path, struct err *e)
{
    unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    SSL_CTX_free(ctx);
    return err_set(e, ERR_INVALID, "%s '%s': %s", what, path, reason != NULL ? reason : "refused");
}

static SSL_CTX *context(const SSL_METHOD *method)
{
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (ctx == NULL)
        return NULL;
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    return ctx;
}

int proxy_tls_listener(const char *certificate, const char *key, SSL_CTX **out, struct err *e)
{
    *out = NULL;
    if (certificate == NULL || certificate[0] == '\0')
        return 0;
    SSL_CTX *ctx = context(TLS_server_method());
    if (ctx == NULL)
        return err_set(e, ERR_NOMEM, "%s", err_name(ERR_NOMEM));
    if (SSL_CTX_use_certificate_chain_file(ctx, certificate) != 1)
        return refuse(ctx, "certificate", certificate, e);
    if (key == NULL || key[0] == '\0')
        key = certificate;
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
        return refuse(ctx, "private key", key, e);
    *out = ctx;
    return 0;
}

int proxy_tls_upstream(const char *ca, SSL_CTX **out, struct err *e)
{
    *out = NULL;
    SSL_CTX *ctx = context(TLS_client_method());
    if (ctx == NULL)
        return err_set(e, ERR_NOMEM, "%s", err_name(ERR_NOMEM));
    bool given = ca != NULL && ca[0] != '\0';
    if (given ? SSL_CTX_load_verify_file(ctx, ca) != 1 : SSL_CTX_set_default_verify_paths(ctx) != 1)
        return refuse(ctx, "authorities", given ? ca : "of the system", e);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    *out = ctx;
    return 0;
}

SSL *proxy_tls_accept(SSL_CTX *ctx)
{
    SSL *ssl = SSL_new(ctx);
    if (ssl != NULL)
        SSL_set_accept_state(ssl);
    return ssl;
}

static bool expect(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    union { /* OpenSSL's macro is not const, but only reads */
        const char *in;
        void *out;
    } name = {.in = host};
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    long named = SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.out);
    return named == 1 && SSL_set1_host(ssl, host) == 1;
}

SSL *proxy_tls_connect(SSL_CTX *ctx, const char *host)
{
    SSL *ssl = SSL_new(ctx);
    if (ssl == NULL)
        return NULL;
    if (!expect(ssl, host)) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_connect_state(ssl);
    return ssl;
}
