#include "rpc/tls.h"

#include <openssl/err.h>
#include <string.h>

/* The client's list must have h2. */
static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *n_out,
                     const unsigned char *in, unsigned n_in, void *ctx)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, n_out, h2, sizeof h2, in, n_in) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int refuse(SSL_CTX *ctx, const char *what, const char *path, struct err *e)
{
    unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    SSL_CTX_free(ctx);
    return err_set(e, ERR_INVALID, "%s '%s': %s", what, path, reason != NULL ? reason : "refused");
}

int tls_server_context(const char *certificate, const char *key, SSL_CTX **out, struct err *e)
{
    *out = NULL;
    if (certificate == NULL || certificate[0] == '\0')
        return 0;
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (ctx == NULL)
        return err_set(e, ERR_NOMEM, "%s", err_name(ERR_NOMEM));
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(ctx, choose_h2, NULL);
    if (SSL_CTX_use_certificate_chain_file(ctx, certificate) != 1)
        return refuse(ctx, "certificate", certificate, e);
    if (key == NULL || key[0] == '\0')
        key = certificate;
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
        return refuse(ctx, "private key", key, e);
    *out = ctx;
    return 0;
}
