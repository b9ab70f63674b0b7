#include "rpc/wire.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t tls_result(const SSL *ssl, int r)
{
    if (r > 0)
        return r;
    int error = SSL_get_error(ssl, r);
    bool later = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    return later ? WIRE_LATER : WIRE_LOST;
}

static bool is_later(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static ssize_t plain_result(ssize_t r)
{
    if (r > 0)
        return r;
    return r < 0 && is_later() ? WIRE_LATER : WIRE_LOST;
}

ssize_t wire_read(struct wire *w, void *p, size_t n)
{
    if (w->ssl != NULL) {
        ERR_clear_error();
        return tls_result(w->ssl, SSL_read(w->ssl, p, (int)n));
    }
    return plain_result(recv(w->fd, p, n, MSG_DONTWAIT));
}

ssize_t wire_read_patiently(struct wire *w, void *p, size_t n)
{
    return plain_result(recv(w->fd, p, n, 0));
}

ssize_t wire_write(struct wire *w, const void *p, size_t n)
{
    if (w->ssl != NULL) {
        ERR_clear_error();
        return tls_result(w->ssl, SSL_write(w->ssl, p, (int)n));
    }
    ssize_t r = send(w->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (r >= 0)
        return r;
    return is_later() ? WIRE_LATER : WIRE_LOST;
}

void wire_close(struct wire *w)
{
    SSL_free(w->ssl);
    if (w->fd >= 0)
        close(w->fd);
    *w = (struct wire){.fd = -1};
}
