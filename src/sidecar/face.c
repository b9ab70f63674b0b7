#include "sidecar/face.h"

#include "http/http.h"
#include "http/metrics.h"
#include "sidecar/daemon_internal.h"
#include "sidecar/face_text.h"

#include <stdlib.h>

struct face {
    struct http *http;
};

static int fill_livez(void *ctx, struct buf *body)
{
    int r = buf_printf(body, "ok\n");
    return r < 0 ? r : 200;
}

static int fill_readyz(void *ctx, struct buf *body)
{
    const char *obstacle = daemon_obstacle(ctx);
    int r = buf_printf(body, "%s\n", obstacle[0] == '\0' ? "ok" : obstacle);
    return r < 0 ? r : obstacle[0] == '\0' ? 200 : 503;
}

static int fill_metrics(void *ctx, struct buf *body)
{
    int r = face_metrics(ctx, body);
    return r < 0 ? r : 200;
}

static int fill_status(void *ctx, struct buf *body)
{
    int r = face_status(ctx, body);
    return r < 0 ? r : 200;
}

static const struct http_route routes[] = {
    {"/metrics", METRICS_CONTENT_TYPE, fill_metrics},
    {"/status", "application/json", fill_status},
    {"/livez", "text/plain; charset=utf-8", fill_livez},
    {"/readyz", "text/plain; charset=utf-8", fill_readyz},
};

int face_new(struct daemon *d, struct face **out, struct err *err)
{
    struct face *f = calloc(1, sizeof *f);
    if (f == NULL)
        return err_set(err, ERR_NOMEM, "http: %s", err_name(ERR_NOMEM));
    struct http_options o = {
        .listen = d->conf.http.listen,
        .routes = routes,
        .n_routes = ARRAY_SIZE(routes),
        .ctx = d,
        .log = &d->log.sink,
    };
    int r = http_new(d->base, &o, &f->http, err);
    if (r < 0) {
        free(f);
        return r;
    }
    log_event(&d->log.sink, LOG_INFO, "http.up", "address=%s", http_address(f->http));
    *out = f;
    return 0;
}

void face_free(struct face *f)
{
    if (f == NULL)
        return;
    http_free(f->http);
    free(f);
}
