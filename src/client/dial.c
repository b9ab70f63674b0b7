#include "client/dial.h"

#include "client/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

bool dial_split(const char *address, char host[256], char port[8])
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address || colon[1] == '\0' || strlen(colon + 1) > 5)
        return false;
    const char *from = address, *to = colon;
    if (*from == '[' && to[-1] == ']') {
        from++;
        to--;
    }
    if (to - from >= 256 || to == from)
        return false;
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    snprintf(port, 8, "%s", colon + 1);
    return true;
}

/* Waits until the descriptor is ready for `events`; false when time is over. */
static bool wait_for(int fd, short events, mono_t until)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        mono_t left = until - peer_now();
        if (left <= 0)
            return false;
        int r = poll(&p, 1, (int)(left / MONO_MS) + 1);
        if (r > 0)
            return true;
        if (r < 0 && errno != EINTR)
            return false;
    }
}

/* 0, or an errno. */
static int connect_to(const struct addrinfo *a, mono_t until, int *out)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int one = 1, error = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        socklen_t n = sizeof error;
        error = errno;
        if (error == EINPROGRESS) {
            if (!wait_for(fd, POLLOUT, until))
                error = ETIMEDOUT;
            else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
                error = errno;
        }
    }
    if (error != 0)
        close(fd);
    else
        *out = fd;
    return error;
}

static int connect_any(const char *host, const char *port, mono_t until, int *out, char *why,
                       size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *all;
    int r = getaddrinfo(host, port, &hints, &all);
    if (r != 0) {
        snprintf(why, size, "host '%s': %s", host, gai_strerror(r));
        return -1;
    }
    int error = 0;
    for (const struct addrinfo *a = all; a != NULL; a = a->ai_next) {
        error = connect_to(a, until, out);
        if (error == 0)
            break;
    }
    freeaddrinfo(all);
    if (error != 0)
        snprintf(why, size, "%s", strerror(error));
    return error == 0 ? 0 : -1;
}

/* What OpenSSL has to say about the latest failure. */
static void tls_words(const SSL *ssl, const char *what, char *why, size_t size)
{
    long verify = ssl != NULL ? SSL_get_verify_result(ssl) : X509_V_OK;
    if (verify != X509_V_OK) {
        snprintf(why, size, "TLS: the server's certificate: %s",
                 X509_verify_cert_error_string(verify));
        return;
    }
    unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    snprintf(why, size, "TLS: %s%s%s", what, reason != NULL ? ": " : "",
             reason != NULL ? reason : "");
}

static SSL *tls_new(const struct hb_client_options *o, const char *name, int fd, char *why,
                    size_t size)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    SSL *ssl = NULL;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx == NULL)
        return NULL;
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_load_verify_locations(ctx, o->ca_file, NULL) != 1)
        snprintf(why, size, "TLS: cannot read certificates from '%s'", o->ca_file);
    else
        ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    if (ssl == NULL)
        return NULL;
    SSL_set_tlsext_host_name(ssl, name);
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) != 1)
        SSL_set1_host(ssl, name);
    SSL_set_alpn_protos(ssl, h2, sizeof h2);
    SSL_set_fd(ssl, fd);
    return ssl;
}

static int tls_shake(SSL *ssl, int fd, mono_t until, char *why, size_t size)
{
    for (;;) {
        ERR_clear_error();
        int r = SSL_connect(ssl);
        if (r == 1)
            return 0;
        int error = SSL_get_error(ssl, r);
        if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
            tls_words(ssl, "the handshake failed", why, size);
            return -1;
        }
        if (!wait_for(fd, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until)) {
            snprintf(why, size, "TLS: no answer in time");
            return -1;
        }
    }
}

/* From here on recv() may wait a little; everything else says MSG_DONTWAIT. */
static void make_patient(int fd)
{
    struct timeval patience = {.tv_usec = DIAL_PATIENCE_MS * 1000L};
    fcntl(fd, F_SETFL, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

int dial(const struct hb_client_options *o, mono_t until, struct wire *out, char *why, size_t size)
{
    char host[256], port[8];
    if (!dial_split(o->address, host, port)) {
        snprintf(why, size, "the address is not of the form HOST:PORT");
        return -1;
    }
    struct wire w = {.fd = -1};
    if (connect_any(host, port, until, &w.fd, why, size) < 0)
        return -1;
    if (o->ca_file == NULL) {
        make_patient(w.fd);
    } else {
        const char *name = o->server_name != NULL ? o->server_name : host;
        w.ssl = tls_new(o, name, w.fd, why, size);
        if (w.ssl == NULL || tls_shake(w.ssl, w.fd, until, why, size) < 0) {
            wire_close(&w);
            return -1;
        }
    }
    *out = w;
    return 0;
}
