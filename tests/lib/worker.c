/*
 * worker ADDRESS [credit=N] [handle_ms=N] [fail=TEXT]: pulls from a Harbinger and handles, until it is
 * told to stop. Prints one line for each message that it has begun with, before it settles: the number
 * that the payload begins with, and the SHA-256 of the payload. With `fail`, messages whose number ends
 * so are failed.
 */
#include <harbinger/client.h>

#include <openssl/sha.h>

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct hb_consumer *consumer; /* for the signal handler */

struct work {
    long handle_ms;
    const char *fail;
};

static const char *word(char **argv, const char *name)
{
    size_t n = strlen(name);
    for (; *argv != NULL; argv++)
        if (strncmp(*argv, name, n) == 0 && (*argv)[n] == '=')
            return *argv + n + 1;
    return NULL;
}

static long number(char **argv, const char *name)
{
    const char *text = word(argv, name);
    return text != NULL ? strtol(text, NULL, 10) : 0;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t n_end = strlen(end);
    return n >= n_end && memcmp(text + n - n_end, end, n_end) == 0;
}

static bool handle(void *ctx, const struct hb_incoming *m, char *reason)
{
    const struct work *w = ctx;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    const char *text = m->payload;
    size_t n = 0;
    while (n < m->n_payload && text[n] >= '0' && text[n] <= '9')
        n++;
    SHA256(m->payload, m->n_payload, digest);
    printf("%.*s ", (int)n, text);
    for (size_t i = 0; i < sizeof digest; i++)
        printf("%02x", digest[i]);
    printf("\n");
    fflush(stdout);
    struct timespec t = {w->handle_ms / 1000, w->handle_ms % 1000 * 1000000};
    nanosleep(&t, NULL);
    if (w->fail == NULL || !ends_with(text, n, w->fail))
        return true;
    snprintf(reason, 256, "told to fail");
    return false;
}

static void on_term(int sig)
{
    hb_consumer_stop(consumer);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        errx(2, "worker ADDRESS [credit=N] [handle_ms=N] [fail=TEXT]");
    struct work w = {.handle_ms = number(argv, "handle_ms"), .fail = word(argv, "fail")};
    struct hb_consumer_options o = {.client = {.address = argv[1]},
                                    .handle = handle,
                                    .ctx = &w,
                                    .credit = (unsigned)number(argv, "credit")};
    struct hb_rpc_error e;
    consumer = hb_consumer_new(&o);
    if (consumer == NULL)
        errx(1, "out of memory");
    signal(SIGTERM, on_term);
    signal(SIGPIPE, SIG_IGN);
    int status = hb_consumer_run(consumer, &e);
    if (status != HB_RPC_OK)
        errx(1, "%s", e.text);
    signal(SIGTERM, SIG_IGN);
    hb_consumer_free(consumer);
    return 0;
}
