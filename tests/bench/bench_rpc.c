/*
 * bench-rpc KIND SERVER COUNT [BYTES]: how fast COUNT messages go through a server, from 4 producers
 * to 4 consumers that hold one message at a time, each a process of its own.
 *
 *   unary   Submit, then Pull, and Ack with the next Pull in one write: what the C consumer does
 *           (SERVER is HOST:PORT)
 *   stream  SubmitStream, then Work with credit 1
 *   redis   LPUSH, then BLMOVE to a list of what is in work, and LREM
 *   redis_together    the same with LREM and the next BLMOVE in one write: what unary does here
 *   redis_pipelined   the same with 1,000 LPUSH on the way, and LREM with the next BLMOVE: what a
 *           stream does here
 *   rabbit  publish without confirms, transient, then consume with prefetch 1 and ack (a URI)
 *
 * Prints one line of JSON: seconds from the first submission to the last settlement, and the CPU
 * time of all producers and of all consumers per message.
 */
#include <amqp_tcp_socket.h>
#include <err.h>
#include <harbinger/client.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PRODUCERS = 4, CONSUMERS = 4, BYTES_MAX = 1 << 20, LIMIT_S = 300, PIPELINE = 1000 };

#define QUEUE   "bench"
#define WORKING "bench.working"
#define MUST(x) ((x) ? (void)0 : errx(1, "failed: %s", #x))

/* What the processes share. */
struct shared {
    atomic_int ready; /* consumers that wait for work */
    atomic_bool go;
    atomic_uint_fast64_t done;
    _Atomic int64_t ended_at;
};

struct load {
    const char *server;
    uint64_t count;
    size_t bytes;
    struct shared *shared;
};

static char payload[BYTES_MAX];

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void settled(const struct load *l)
{
    if (atomic_fetch_add(&l->shared->done, 1) + 1 == l->count)
        atomic_store(&l->shared->ended_at, now_ns());
}

static void ready(const struct load *l)
{
    atomic_fetch_add(&l->shared->ready, 1);
}

/* ---- Harbinger ---- */

static struct hb_outgoing outgoing(const struct load *l)
{
    static const struct hb_header headers[] = {{"job_type", "bench"}};
    return (struct hb_outgoing){payload, l->bytes, headers, 1, HB_RPC_NO_TTL};
}

static void produce_unary(const struct load *l, uint64_t count)
{
    struct hb_client_options o = {.address = l->server, .timeout_ms = 30000};
    struct hb_producer *p = hb_producer_new(&o);
    struct hb_outgoing m = outgoing(l);
    struct hb_rpc_error e;
    for (uint64_t i = 0; i < count; i++)
        if (hb_producer_submit(p, &m, NULL, &e) != HB_RPC_OK)
            errx(1, "%s", e.text);
    hb_producer_free(p);
}

static void on_result(void *ctx, int status, const char *id)
{
    MUST(status == HB_RPC_OK);
}

static void produce_stream(const struct load *l, uint64_t count)
{
    struct hb_client_options o = {.address = l->server, .timeout_ms = 30000};
    struct hb_submit_results results = {.result = on_result};
    struct hb_producer *p = hb_producer_new(&o);
    struct hb_outgoing m = outgoing(l);
    struct hb_rpc_error e;
    bool ok = hb_producer_stream(p, &results, &e) == HB_RPC_OK;
    for (uint64_t i = 0; i < count && ok; i++)
        ok = hb_producer_stream_submit(p, &m, &e) == HB_RPC_OK;
    if (!ok || hb_producer_stream_flush(p, &e) != HB_RPC_OK)
        errx(1, "%s", e.text);
    hb_producer_free(p);
}

static bool handle(void *ctx, const struct hb_incoming *m, char *reason)
{
    settled(ctx);
    return true;
}

static void consume_harbinger(const struct load *l, unsigned credit)
{
    struct hb_consumer_options o = {
        .client = {.address = l->server, .timeout_ms = 30000}, .handle = handle, .credit = credit};
    union {
        const struct load *from;
        void *to;
    } ctx = {.from = l};
    o.ctx = ctx.to;
    struct hb_consumer *c = hb_consumer_new(&o);
    struct hb_rpc_error e;
    ready(l);
    if (hb_consumer_run(c, &e) != HB_RPC_OK)
        errx(1, "%s", e.text);
}

static void consume_unary(const struct load *l)
{
    consume_harbinger(l, 0);
}

static void consume_stream(const struct load *l)
{
    consume_harbinger(l, 1);
}

/* ---- Redis ---- */

static redisContext *redis_open(const struct load *l)
{
    char host[128];
    int port;
    MUST(sscanf(l->server, "%127[^:]:%d", host, &port) == 2);
    redisContext *c = redisConnect(host, port);
    MUST(c != NULL && c->err == 0);
    return c;
}

static redisReply *must_reply(void *reply)
{
    MUST(reply != NULL);
    MUST(((redisReply *)reply)->type != REDIS_REPLY_ERROR);
    return reply;
}

static void produce_redis(const struct load *l, uint64_t count)
{
    redisContext *c = redis_open(l);
    for (uint64_t i = 0; i < count; i++) {
        /* Messages differ, as those of a real queue do: LREM removes by value. */
        snprintf(payload, 32, "%d-%" PRIu64, (int)getpid(), i);
        freeReplyObject(must_reply(redisCommand(c, "LPUSH " QUEUE " %b", payload, l->bytes)));
    }
    redisFree(c);
}

static void consume_redis(const struct load *l)
{
    redisContext *c = redis_open(l);
    ready(l);
    for (;;) {
        redisReply *job = must_reply(redisCommand(c, "BLMOVE " QUEUE " " WORKING " RIGHT LEFT 0"));
        MUST(job->type == REDIS_REPLY_STRING);
        freeReplyObject(must_reply(redisCommand(c, "LREM " WORKING " 1 %b", job->str, job->len)));
        freeReplyObject(job);
        settled(l);
    }
}

static redisReply *next_reply(redisContext *c)
{
    void *reply = NULL;
    MUST(redisGetReply(c, &reply) == REDIS_OK);
    return must_reply(reply);
}

static void produce_redis_pipelined(const struct load *l, uint64_t count)
{
    redisContext *c = redis_open(l);
    for (uint64_t i = 0; i < count + PIPELINE; i++) {
        if (i < count) {
            snprintf(payload, 32, "%d-%" PRIu64, (int)getpid(), i);
            MUST(redisAppendCommand(c, "LPUSH " QUEUE " %b", payload, l->bytes) == REDIS_OK);
        }
        if (i >= PIPELINE)
            freeReplyObject(next_reply(c));
    }
    redisFree(c);
}

static void consume_redis_pipelined(const struct load *l)
{
    static const char move[] = "BLMOVE " QUEUE " " WORKING " RIGHT LEFT 0";
    redisContext *c = redis_open(l);
    MUST(redisAppendCommand(c, move) == REDIS_OK);
    ready(l);
    for (;;) {
        redisReply *job = next_reply(c);
        MUST(redisAppendCommand(c, "LREM " WORKING " 1 %b", job->str, job->len) == REDIS_OK);
        MUST(redisAppendCommand(c, move) == REDIS_OK);
        freeReplyObject(next_reply(c));
        freeReplyObject(job);
        settled(l);
    }
}

/* ---- RabbitMQ ---- */

static amqp_connection_state_t rabbit_open(const struct load *l)
{
    struct amqp_connection_info to;
    char *copy = strdup(l->server); /* `to` points into it */
    amqp_connection_state_t c = amqp_new_connection();
    MUST(copy != NULL && c != NULL && amqp_parse_url(copy, &to) == 0);
    MUST(amqp_socket_open(amqp_tcp_socket_new(c), to.host, to.port) == 0);
    amqp_rpc_reply_t r =
        amqp_login(c, to.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, to.user, to.password);
    MUST(r.reply_type == AMQP_RESPONSE_NORMAL && amqp_channel_open(c, 1) != NULL);
    MUST(amqp_queue_declare(c, 1, amqp_cstring_bytes(QUEUE), 0, 0, 0, 0, amqp_empty_table));
    return c;
}

static void produce_rabbit(const struct load *l, uint64_t count)
{
    amqp_connection_state_t c = rabbit_open(l);
    amqp_bytes_t body = {l->bytes, payload};
    for (uint64_t i = 0; i < count; i++)
        MUST(amqp_basic_publish(c, 1, amqp_empty_bytes, amqp_cstring_bytes(QUEUE), 0, 0, NULL,
                                body) == AMQP_STATUS_OK);
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
}

static void consume_rabbit(const struct load *l)
{
    amqp_connection_state_t c = rabbit_open(l);
    MUST(amqp_basic_qos(c, 1, 0, 1, 0) != NULL);
    MUST(amqp_basic_consume(c, 1, amqp_cstring_bytes(QUEUE), amqp_empty_bytes, 0, 0, 0,
                            amqp_empty_table));
    ready(l);
    for (;;) {
        amqp_envelope_t e;
        amqp_maybe_release_buffers(c);
        MUST(amqp_consume_message(c, &e, NULL, 0).reply_type == AMQP_RESPONSE_NORMAL);
        MUST(amqp_basic_ack(c, 1, e.delivery_tag, 0) == 0);
        amqp_destroy_envelope(&e);
        settled(l);
    }
}

/* ---- the run ---- */

static const struct kind {
    const char *name;
    void (*produce)(const struct load *l, uint64_t count);
    void (*consume)(const struct load *l);
} kinds[] = {
    {"unary", produce_unary, consume_unary},
    {"stream", produce_stream, consume_stream},
    {"redis", produce_redis, consume_redis},
    {"redis_together", produce_redis, consume_redis_pipelined},
    {"redis_pipelined", produce_redis_pipelined, consume_redis_pipelined},
    {"rabbit", produce_rabbit, consume_rabbit},
};

static const struct kind *find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    errx(2, "no kind '%s'", name);
}

static void nap(void)
{
    struct timespec t = {.tv_nsec = 1000000};
    nanosleep(&t, NULL);
}

static pid_t start(const struct kind *k, const struct load *l, int number)
{
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid > 0)
        return pid;
    alarm(LIMIT_S);
    if (number >= PRODUCERS) {
        k->consume(l);
    } else {
        while (!atomic_load(&l->shared->go))
            nap();
        k->produce(l, l->count / PRODUCERS);
    }
    _exit(0);
}

static double cpu_us(const struct rusage *r)
{
    return (double)(r->ru_utime.tv_sec + r->ru_stime.tv_sec) * 1e6 +
           (double)(r->ru_utime.tv_usec + r->ru_stime.tv_usec);
}

/* Ends all children, and sums their CPU time; false when one had failed. */
static bool reap(const pid_t *pids, double *producers_us, double *consumers_us)
{
    bool ok = true;
    for (int i = PRODUCERS; i < PRODUCERS + CONSUMERS; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++) {
        int status = 1;
        struct rusage r = {0};
        wait4(pids[i], &status, 0, &r);
        *(i < PRODUCERS ? producers_us : consumers_us) += cpu_us(&r);
        ok = ok && (WIFSIGNALED(status) ? i >= PRODUCERS : WEXITSTATUS(status) == 0);
    }
    return ok;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        errx(2, "usage: bench-rpc KIND SERVER COUNT [BYTES]");
    const struct kind *k = find(argv[1]);
    struct load l = {.server = argv[2],
                     .count = strtoull(argv[3], NULL, 10) / PRODUCERS * PRODUCERS,
                     .bytes = argc > 4 ? strtoul(argv[4], NULL, 10) : 256};
    if (l.count == 0 || l.bytes < 32 || l.bytes > sizeof payload)
        errx(2, "COUNT of at least %d, BYTES of 32 to %zu", PRODUCERS, sizeof payload);
    l.shared =
        mmap(NULL, sizeof *l.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(l.shared != MAP_FAILED);
    pid_t pids[PRODUCERS + CONSUMERS];
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        pids[i] = start(k, &l, i);
    int64_t limit = now_ns() + LIMIT_S * INT64_C(1000000000);
    while (atomic_load(&l.shared->ready) < CONSUMERS && now_ns() < limit)
        nap();
    int64_t started_at = now_ns();
    atomic_store(&l.shared->go, true);
    while (atomic_load(&l.shared->ended_at) == 0 && now_ns() < limit)
        nap();
    double producers_us = 0, consumers_us = 0;
    bool ok = reap(pids, &producers_us, &consumers_us) && atomic_load(&l.shared->ended_at) != 0;
    if (!ok)
        errx(1, "%s: %" PRIu64 " of %" PRIu64 " messages were settled", k->name,
             (uint64_t)atomic_load(&l.shared->done), l.count);
    double n = (double)l.count;
    printf("{\"messages\": %" PRIu64 ", \"seconds\": %.6f, \"producers_us\": %.2f, "
           "\"consumers_us\": %.2f}\n",
           l.count, (double)(atomic_load(&l.shared->ended_at) - started_at) / 1e9, producers_us / n,
           consumers_us / n);
    return 0;
}
