/* A worker of a Harbinger with the linked broker, over gRPC: grpc_worker [HOST:PORT]
 * Durations are measured and sent by the client library; the worker only does the work. */
#include <harbinger/client.h>

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static struct hb_consumer *consumer;

static void on_term(int sig)
{
    hb_consumer_stop(consumer); /* the current job is finished and settled first */
}

/* The work itself: yours goes here. These jobs carry the milliseconds to sleep. False: it failed, and
 * is tried again until its attempts are used up. */
static bool handle(void *ctx, const struct hb_incoming *job, char *reason)
{
    double ms;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(job->n_payload < 63 ? job->n_payload : 63),
             (const char *)job->payload);
    if (sscanf(text, " { \"ms\" : %lf", &ms) != 1 || ms < 0 || ms > 3600e3) {
        snprintf(reason, 256, "the job says no milliseconds");
        return false;
    }
    struct timespec t = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    while (nanosleep(&t, &t) != 0)
        continue;
    return true;
}

int main(int argc, char **argv)
{
    struct hb_consumer_options options = {
        .client.address = argc > 1 ? argv[1] : NULL,
        .handle = handle,
        .credit = 1, /* one job at a time: what a worker holds can no longer be overtaken */
    };
    struct hb_rpc_error error;
    consumer = hb_consumer_new(&options);
    if (consumer == NULL)
        errx(1, "out of memory");
    signal(SIGTERM, on_term);
    int status = hb_consumer_run(consumer, &error); /* waits for a server that is away */
    signal(SIGTERM, SIG_DFL);
    hb_consumer_free(consumer);
    if (status != HB_RPC_OK)
        errx(1, "%s", error.text);
}
