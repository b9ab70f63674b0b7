#include "proxy/stream.h"

#include "base/err.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ALIVE_AFTER_S = 30, /* of silence, then TCP asks the other end */
    ALIVE_EVERY_S = 10,
};

static void set_options(int fd)
{
    int yes = 1, after = ALIVE_AFTER_S, every = ALIVE_EVERY_S;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &after, sizeof after);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
}

int stream_open(struct stream *s, int fd, SSL *ssl, const struct stream_events *e)
{
    *s = (struct stream){.state = ssl != NULL ? STREAM_SHAKING : STREAM_UP, .fd = fd, .ssl = ssl};
    set_options(fd);
    s->read = event_new(e->base, fd, EV_READ | EV_PERSIST, e->readable, e->ctx);
    s->write = event_new(e->base, fd, EV_WRITE, e->writable, e->ctx);
    if (s->read == NULL || s->write == NULL || event_add(s->read, NULL) < 0 ||
        (ssl != NULL && SSL_set_fd(ssl, fd) != 1)) {
        stream_close(s);
        return ERR_NOMEM;
    }
    return 0;
}

void stream_close(struct stream *s)
{
    if (s->state == STREAM_NONE || s->state == STREAM_CLOSED)
        return;
    if (s->read != NULL)
        event_free(s->read);
    if (s->write != NULL)
        event_free(s->write);
    SSL_free(s->ssl);
    close(s->fd);
    *s = (struct stream){.state = STREAM_CLOSED, .fd = -1};
}

static int tls_result(struct stream *s, int r)
{
    int error = SSL_get_error(s->ssl, r);
    if (error == SSL_ERROR_WANT_WRITE)
        (void)event_add(s->write, NULL);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? STREAM_LATER
                                                                         : STREAM_LOST;
}

static bool is_later(void)
{
    return errno == EAGAIN || errno == EINTR;
}

ssize_t stream_read(struct stream *s, void *p, size_t n)
{
    if (s->ssl != NULL) {
        ERR_clear_error();
        int r = SSL_read(s->ssl, p, (int)n);
        if (r <= 0)
            return tls_result(s, r);
        /* What TLS has decrypted already makes no descriptor readable. */
        if (SSL_pending(s->ssl) > 0)
            event_active(s->read, EV_READ, 0);
        return r;
    }
    ssize_t r = recv(s->fd, p, n, MSG_DONTWAIT);
    if (r > 0)
        return r;
    return r < 0 && is_later() ? STREAM_LATER : STREAM_LOST;
}

ssize_t stream_write(struct stream *s, const void *p, size_t n)
{
    enum { AT_ONCE = 1 << 20 };
    if (s->ssl != NULL) {
        ERR_clear_error();
        int r = SSL_write(s->ssl, p, n < AT_ONCE ? (int)n : AT_ONCE);
        return r > 0 ? r : tls_result(s, r);
    }
    ssize_t r = send(s->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (r < 0 && is_later())
        (void)event_add(s->write, NULL);
    return r >= 0 ? r : is_later() ? STREAM_LATER : STREAM_LOST;
}

int stream_shake(struct stream *s)
{
    ERR_clear_error();
    int r = SSL_do_handshake(s->ssl);
    if (r != 1)
        return tls_result(s, r);
    s->state = STREAM_UP;
    return 0;
}

void stream_finish(struct stream *s)
{
    if (s->state != STREAM_UP)
        return;
    s->state = STREAM_FINISHED;
    stream_pause(s, false);
    ERR_clear_error();
    if (s->ssl != NULL)
        (void)SSL_shutdown(s->ssl);
    (void)shutdown(s->fd, SHUT_WR);
}

void stream_pause(struct stream *s, bool pause)
{
    if (s->read == NULL || s->paused == pause)
        return;
    s->paused = pause;
    if (pause)
        (void)event_del(s->read);
    else
        (void)event_add(s->read, NULL);
    if (!pause && s->ssl != NULL && SSL_pending(s->ssl) > 0)
        event_active(s->read, EV_READ, 0);
}
