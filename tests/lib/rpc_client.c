/*
 * rpc_client consume|submit|health ADDRESS [key=value]...: the C client from a command line, for
 * tests in other languages. Everything that happens is a line of `key=value` or `word text`.
 *
 *   consume  credit= pull_ms= timeout_ms= handle_ms= fail=N (the first N) stop_after=N extend=1
 *   submit   count= bytes= ttl_ms= timeout_ms= stream=1 window= pause_ms= (between two)
 *   all      ca= name= token=
 */
#include "client/admin.h"

#include <harbinger/client.h>

#include <err.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct hb_consumer *consumer; /* for the signal handler */

struct keys {
    char **argv;
};

static const char *word(struct keys k, const char *name)
{
    size_t n = strlen(name);
    for (char **a = k.argv; *a != NULL; a++)
        if (strncmp(*a, name, n) == 0 && (*a)[n] == '=')
            return *a + n + 1;
    return NULL;
}

static long number(struct keys k, const char *name, long otherwise)
{
    const char *text = word(k, name);
    return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

static void pause_for(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0)
        continue;
}

static struct hb_client_options client_options(const char *address, struct keys k)
{
    return (struct hb_client_options){.address = address,
                                      .ca_file = word(k, "ca"),
                                      .server_name = word(k, "name"),
                                      .token_file = word(k, "token"),
                                      .timeout_ms = number(k, "timeout_ms", 0)};
}

static int end(int status, const struct hb_rpc_error *e)
{
    printf("status=%s\n", hb_rpc_status_name(status));
    if (status != HB_RPC_OK)
        printf("error %s\n", e->text);
    return status == HB_RPC_OK ? 0 : 1;
}

/* ---- consume ---- */

struct work {
    struct keys keys;
    long n_handled;
};

static bool handle(void *ctx, const struct hb_incoming *m, char *reason)
{
    struct work *w = ctx;
    struct hb_rpc_error e;
    int64_t lease_ms = -1;
    bool fails = w->n_handled < number(w->keys, "fail", 0);
    w->n_handled++;
    printf("message %s %zu %.*s lease_ms=%" PRId64, m->id, m->n_payload,
           m->n_payload < 40 ? (int)m->n_payload : 40, (const char *)m->payload, m->lease_ms);
    for (size_t i = 0; i < m->n_headers; i++)
        printf(" %s=%s", m->headers[i].name, m->headers[i].value);
    printf("\n");
    fflush(stdout);
    if (number(w->keys, "extend", 0) != 0) {
        int status = hb_consumer_extend(consumer, &lease_ms, &e);
        printf("extended=%s lease_ms=%" PRId64 "\n", hb_rpc_status_name(status), lease_ms);
    }
    pause_for(number(w->keys, "handle_ms", 0));
    if (w->n_handled == number(w->keys, "stop_after", -1))
        hb_consumer_stop(consumer);
    if (fails)
        snprintf(reason, 256, "told to fail");
    return !fails;
}

static void on_term(int sig)
{
    hb_consumer_stop(consumer);
}

static int consume(const char *address, struct keys k)
{
    struct work w = {.keys = k};
    struct hb_consumer_options o = {.client = client_options(address, k),
                                    .handle = handle,
                                    .ctx = &w,
                                    .pull_timeout_ms = number(k, "pull_ms", 0),
                                    .credit = (unsigned)number(k, "credit", 0)};
    struct hb_consumer_stats s;
    struct hb_rpc_error e;
    consumer = hb_consumer_new(&o);
    if (consumer == NULL)
        errx(1, "out of memory");
    signal(SIGTERM, on_term);
    int status = hb_consumer_run(consumer, &e);
    hb_consumer_stats(consumer, &s);
    signal(SIGTERM, SIG_DFL);
    hb_consumer_free(consumer);
    printf("handled=%" PRIu64 "\nfailed=%" PRIu64 "\nlease_lost=%" PRIu64 "\nretried=%" PRIu64
           "\npull_errors=%" PRIu64 "\n",
           s.handled, s.failed, s.lease_lost, s.retried, s.pull_errors);
    return end(status, &e);
}

/* ---- submit ---- */

static void on_result(void *ctx, int status, const char *id)
{
    printf("result %s %s\n", hb_rpc_status_name(status), id);
}

static int submit_one(struct hb_producer *p, const struct hb_outgoing *m, bool stream,
                      struct hb_rpc_error *e)
{
    char id[HB_RPC_ID_MAX];
    if (stream)
        return hb_producer_stream_submit(p, m, e);
    int status = hb_producer_submit(p, m, id, e);
    if (status == HB_RPC_OK)
        printf("id %s\n", id);
    return status;
}

static int submit(const char *address, struct keys k)
{
    struct hb_client_options o = client_options(address, k);
    struct hb_submit_results results = {.result = on_result,
                                        .window = (size_t)number(k, "window", 0)};
    struct hb_header headers[] = {{"job_type", "test"}, {"n", "2"}};
    size_t bytes = (size_t)number(k, "bytes", 5);
    bool stream = number(k, "stream", 0) != 0;
    char *payload = malloc(bytes + 1);
    struct hb_producer *p = hb_producer_new(&o);
    struct hb_rpc_error e;
    if (payload == NULL || p == NULL)
        errx(1, "out of memory");
    memset(payload, 'x', bytes);
    struct hb_outgoing m = {payload, bytes, headers, 2, number(k, "ttl_ms", HB_RPC_NO_TTL)};
    int status = stream ? hb_producer_stream(p, &results, &e) : HB_RPC_OK;
    for (long i = number(k, "count", 1); i > 0 && status == HB_RPC_OK; i--) {
        status = submit_one(p, &m, stream, &e);
        pause_for(number(k, "pause_ms", 0));
    }
    if (stream && status == HB_RPC_OK)
        status = hb_producer_stream_flush(p, &e);
    if (stream && status != HB_RPC_OK)
        printf("after=%s\n", hb_rpc_status_name(hb_producer_stream_flush(p, NULL)));
    hb_producer_free(p);
    free(payload);
    return end(status, &e);
}

static int health(const char *address, struct keys k)
{
    struct hb_client_options o = client_options(address, k);
    struct hb_rpc_error e;
    bool serving = false;
    struct peer *p = peer_new(&o);
    if (p == NULL)
        errx(1, "out of memory");
    int status = admin_health(p, &serving, &e);
    peer_free(p);
    printf("serving=%d\n", serving);
    return end(status, &e);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        errx(2, "rpc_client consume|submit|health ADDRESS [key=value]...");
    signal(SIGPIPE, SIG_IGN);
    struct keys k = {argv + 3};
    if (strcmp(argv[1], "consume") == 0)
        return consume(argv[2], k);
    return strcmp(argv[1], "submit") == 0 ? submit(argv[2], k) : health(argv[2], k);
}
