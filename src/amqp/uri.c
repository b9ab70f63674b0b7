#include "amqp/uri.h"

#include "base/num.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes into out[256]. A NUL could not be seen by anyone later, so %00 is refused. */
static int decode(struct text in, const char *part, char out[256], struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < in.n; i++) {
        int c = (unsigned char)in.p[i];
        if (c == '%') {
            int high = i + 2 < in.n ? hex_digit(in.p[i + 1]) : -1;
            int low = i + 2 < in.n ? hex_digit(in.p[i + 2]) : -1;
            c = high < 0 || low < 0 ? -1 : high * 16 + low;
            i += 2;
        }
        if (c <= 0)
            return err_set(e, ERR_CONFIG, "the %s has a bad percent-encoding", part);
        if (n == 255)
            return err_set(e, ERR_CONFIG, "the %s is longer than 255 bytes", part);
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return 0;
}

static struct text until(struct text t, const char *ends)
{
    size_t n = 0;
    while (n < t.n && strchr(ends, t.p[n]) == NULL)
        n++;
    return (struct text){t.p, n};
}

static struct text behind(struct text t, size_t n)
{
    return (struct text){t.p + n, t.n - n};
}

static int parse_port(struct text t, struct uri *out, struct err *e)
{
    uint64_t port;
    if (num_parse_u64(t.p, t.n, &port) < 0 || port == 0 || port > 65535)
        return err_set(e, ERR_CONFIG, "the port is not a number from 1 to 65535");
    out->port = (uint16_t)port;
    return 0;
}

static int parse_host(struct text t, struct uri *out, struct err *e)
{
    struct text host, rest;
    if (t.n > 0 && t.p[0] == '[') {
        host = until(behind(t, 1), "]");
        if (host.n + 2 > t.n)
            return err_set(e, ERR_CONFIG, "the host has no closing bracket");
        rest = behind(t, host.n + 2);
    } else {
        host = until(t, ":");
        rest = behind(t, host.n);
    }
    if (rest.n > 0 && rest.p[0] != ':')
        return err_set(e, ERR_CONFIG, "something follows the host's bracket");
    if (rest.n > 1 && parse_port(behind(rest, 1), out, e) < 0)
        return ERR_CONFIG;
    return host.n > 0 ? decode(host, "host", out->host, e) : 0;
}

static int parse_user(struct text t, struct uri *out, struct err *e)
{
    struct text user = until(t, ":");
    int r = decode(user, "user", out->user, e);
    if (r < 0 || user.n == t.n)
        return r;
    return decode(behind(t, user.n + 1), "password", out->password, e);
}

static int parse_authority(struct text t, struct uri *out, struct err *e)
{
    /* The last @: an unescaped one in a password is common, and unambiguous. */
    const char *at = memrchr(t.p, '@', t.n);
    if (at != NULL) {
        size_t n = (size_t)(at - t.p);
        int r = parse_user((struct text){t.p, n}, out, e);
        if (r < 0)
            return r;
        t = behind(t, n + 1);
    }
    return parse_host(t, out, e);
}

static int number_of(struct text name, struct text value, uint64_t most, int64_t *out,
                     struct err *e)
{
    uint64_t v;
    if (num_parse_u64(value.p, value.n, &v) < 0 || v > most)
        return err_set(e, ERR_CONFIG, "%.*s must be a number from 0 to %llu", (int)name.n, name.p,
                       (unsigned long long)most);
    *out = (int64_t)v;
    return 0;
}

static int parse_mechanism(struct text value, struct uri *out, struct err *e)
{
    if (value.n == 5 && strncasecmp(value.p, "plain", 5) == 0)
        out->mechanism = URI_PLAIN;
    else if (value.n == 8 && strncasecmp(value.p, "external", 8) == 0)
        out->mechanism = URI_EXTERNAL;
    else
        return err_set(e, ERR_CONFIG, "auth_mechanism must be plain or external");
    return 0;
}

static int parse_parameter(struct text t, struct uri *out, struct err *e)
{
    struct text name = until(t, "=");
    struct text value = name.n < t.n ? behind(t, name.n + 1) : (struct text){t.p + t.n, 0};
    int64_t v = 0;
    if (text_equal(name, text_of("auth_mechanism")))
        return parse_mechanism(value, out, e);
    if (text_equal(name, text_of("heartbeat"))) {
        int r = number_of(name, value, 65535, &v, e);
        out->heartbeat_s = r < 0 ? -1 : (int)v;
        return r;
    }
    if (text_equal(name, text_of("channel_max"))) {
        int r = number_of(name, value, 65535, &v, e);
        out->channel_max = r < 0 ? -1 : (int)v;
        return r;
    }
    if (text_equal(name, text_of("connection_timeout")))
        return number_of(name, value, 3600000, &out->connection_timeout_ms, e);
    if (text_equal(name, text_of("frame_max"))) {
        int r = number_of(name, value, 16 << 20, &out->frame_max, e);
        if (r == 0 && out->frame_max < 4096)
            return err_set(e, ERR_CONFIG, "frame_max must be at least 4096");
        return r;
    }
    return err_set(e, ERR_CONFIG, "unknown parameter '%.*s'", name.n < 64 ? (int)name.n : 64,
                   name.p);
}

static int parse_query(struct text t, struct uri *out, struct err *e)
{
    while (t.n > 0) {
        struct text one = until(t, "&");
        if (one.n > 0 && parse_parameter(one, out, e) < 0)
            return ERR_CONFIG;
        t = behind(t, one.n < t.n ? one.n + 1 : one.n);
    }
    return 0;
}

static struct text scheme_cut(const char *text, const char *scheme)
{
    size_t n = strlen(scheme);
    return strncasecmp(text, scheme, n) == 0 ? text_of(text + n) : (struct text){NULL, 0};
}

/* "amqp://host/" and Celery's "amqp://host//" both mean the default virtual host. */
static int parse_vhost(struct text t, struct uri *out, struct err *e)
{
    if (t.n == 0 || text_equal(t, text_of("/")))
        return 0;
    if (memchr(t.p, '/', t.n) != NULL)
        return err_set(e, ERR_CONFIG, "a / in the virtual host's name is written %%2f");
    return decode(t, "virtual host", out->vhost, e);
}

int uri_parse(const char *text, struct uri *out, struct err *e)
{
    if (scheme_cut(text, "amqps://").p != NULL)
        return err_set(e, ERR_CONFIG,
                       "amqps:// is not supported yet: use amqp:// behind a TLS proxy");
    struct text t = scheme_cut(text, "amqp://");
    if (t.p == NULL)
        return err_set(e, ERR_CONFIG, "a broker's address starts with amqp://");

    struct uri u = {.host = "localhost",
                    .port = 5672,
                    .user = "guest",
                    .password = "guest",
                    .vhost = "/",
                    .heartbeat_s = -1,
                    .connection_timeout_ms = -1,
                    .channel_max = -1,
                    .frame_max = -1};
    struct text authority = until(t, "/?");
    int r = parse_authority(authority, &u, e);
    t = behind(t, authority.n);
    if (r == 0 && t.n > 0 && t.p[0] == '/') {
        struct text vhost = until(behind(t, 1), "?");
        r = parse_vhost(vhost, &u, e);
        t = behind(t, 1 + vhost.n);
    }
    if (r == 0 && t.n > 0)
        r = parse_query(behind(t, 1), &u, e);
    if (r == 0)
        *out = u;
    return r;
}

/* Appends `in`, percent-encoded except for unreserved characters. */
static size_t encode(const char *in, char *out, size_t size, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    for (; *in != '\0' && n + 4 < size; in++) {
        unsigned char c = (unsigned char)*in;
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                     strchr("-._~:", c) != NULL;
        if (plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    return n;
}

static size_t put(const char *in, char *out, size_t size, size_t n)
{
    for (; *in != '\0' && n + 1 < size; in++)
        out[n++] = *in;
    return n;
}

void uri_print(const struct uri *u, char *out, size_t size)
{
    char port[8];
    snprintf(port, sizeof port, ":%u", u->port);
    bool v6 = strchr(u->host, ':') != NULL;
    size_t n = put("amqp://", out, size, 0);
    n = encode(u->user, out, size, n);
    n = put(v6 ? "@[" : "@", out, size, n);
    n = encode(u->host, out, size, n);
    n = put(v6 ? "]" : "", out, size, n);
    n = put(port, out, size, n);
    n = put("/", out, size, n);
    n = encode(u->vhost, out, size, n);
    out[n] = '\0';
}
