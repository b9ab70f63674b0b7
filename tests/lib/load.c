/*
 * load publish URI QUEUE COUNT [rate=N] [keys=N] [bytes=N]
 * load consume URI QUEUE COUNT [prefetch=N] [report=1]
 *
 * Many messages, quickly, on librabbitmq's own blocking client: nothing of what is tested takes
 * part.
 *
 *   publish  persistent messages with the header job_type=kN, confirmed; `rate` a second (0: as
 * fast as possible), `keys` different job types, bodies of `bytes` consume  takes and acks that
 * many; with `report` it sends an ack report for each, as a worker does
 *
 * Prints one line of JSON at the end. A latency is the time from just before the publish to
 * receipt, by the machine's monotonic clock, in the body.
 */
#include "../../deploy/examples/c/harbinger_report.h"

#include <amqp_tcp_socket.h>
#include <err.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define MUST(x) ((x) ? (void)0 : errx(1, "failed: %s", #x))

enum { MIN_BYTES = 24, MAX_UNCONFIRMED = 2000, IDLE_S = 60 };

struct options {
    const char *uri, *queue;
    uint64_t count, rate, keys, bytes, prefetch, report;
};

/* Which of the messages 1..count are confirmed. */
struct confirms {
    bool *done;
    uint64_t n_done, all_up_to;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static amqp_connection_state_t open_link(const char *uri)
{
    struct amqp_connection_info to;
    char *copy = strdup(uri); /* `to` points into it */
    amqp_connection_state_t c = amqp_new_connection();
    MUST(copy != NULL && c != NULL);
    MUST(amqp_parse_url(copy, &to) == 0);
    MUST(amqp_socket_open(amqp_tcp_socket_new(c), to.host, to.port) == 0);
    amqp_rpc_reply_t r =
        amqp_login(c, to.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, to.user, to.password);
    MUST(r.reply_type == AMQP_RESPONSE_NORMAL);
    MUST(amqp_channel_open(c, 1));
    free(copy);
    return c;
}

static void close_link(amqp_connection_state_t c)
{
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    MUST(amqp_destroy_connection(c) == 0);
}

/* ---- publish ---- */

static void confirm(struct confirms *t, uint64_t tag)
{
    t->n_done += !t->done[tag];
    t->done[tag] = true;
}

/* Reads one confirm, waiting for at most `wait`. False when none came. */
static bool read_confirm(amqp_connection_state_t c, struct timeval wait, struct confirms *t)
{
    amqp_frame_t frame;
    amqp_maybe_release_buffers(c);
    int r = amqp_simple_wait_frame_noblock(c, &frame, &wait);
    if (r == AMQP_STATUS_TIMEOUT)
        return false;
    MUST(r == AMQP_STATUS_OK && frame.frame_type == AMQP_FRAME_METHOD);
    if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
        errx(1, "%s instead of a confirm", amqp_method_name(frame.payload.method.id));
    const amqp_basic_ack_t *ack = frame.payload.method.decoded;
    if (ack->multiple)
        while (t->all_up_to < ack->delivery_tag)
            confirm(t, ++t->all_up_to);
    else
        confirm(t, ack->delivery_tag);
    return true;
}

static void read_confirms(amqp_connection_state_t c, struct confirms *t, uint64_t want)
{
    while (read_confirm(c, (struct timeval){0, 0}, t))
        continue;
    while (t->n_done < want)
        if (!read_confirm(c, (struct timeval){IDLE_S, 0}, t))
            errx(1, "no confirm for %d s", IDLE_S);
}

static void publish_one(amqp_connection_state_t c, const struct options *o, uint64_t n, char *body)
{
    char type[24];
    snprintf(type, sizeof type, "k%" PRIu64, n % o->keys);
    amqp_table_entry_t header = {
        amqp_cstring_bytes("job_type"),
        {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(type)}};
    amqp_basic_properties_t p = {._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG,
                                 .delivery_mode = 2,
                                 .headers = {1, &header}};
    int used = snprintf(body, MIN_BYTES, "%" PRId64, now_ns());
    memset(body + used, ' ', MIN_BYTES - (size_t)used);
    int r = amqp_basic_publish(c, 1, amqp_empty_bytes, amqp_cstring_bytes(o->queue), 0, 0, &p,
                               (amqp_bytes_t){o->bytes, body});
    if (r != AMQP_STATUS_OK)
        errx(1, "publish: %s", amqp_error_string2(r));
}

static void wait_for_turn(const struct options *o, uint64_t n, int64_t started)
{
    if (o->rate == 0)
        return;
    int64_t due = started + (int64_t)(n * 1000000000 / o->rate);
    struct timespec t = {due / 1000000000, due % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        continue;
}

static void publish(const struct options *o)
{
    struct confirms t = {.done = calloc(o->count + 1, sizeof *t.done)};
    char *body = calloc(1, o->bytes);
    MUST(t.done != NULL && body != NULL);
    amqp_connection_state_t c = open_link(o->uri);
    MUST(amqp_confirm_select(c, 1));
    int64_t started = now_ns();
    for (uint64_t n = 0; n < o->count; n++) {
        wait_for_turn(o, n, started);
        publish_one(c, o, n, body);
        if (o->rate != 0 || n % 64 == 0)
            read_confirms(c, &t, n > MAX_UNCONFIRMED ? n - MAX_UNCONFIRMED : 0);
    }
    read_confirms(c, &t, o->count);
    printf("{\"published\": %" PRIu64 ", \"seconds\": %.3f}\n", o->count,
           (double)(now_ns() - started) / 1e9);
    close_link(c);
    free(t.done);
    free(body);
}

/* ---- consume ---- */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double at_us(const int64_t *sorted, uint64_t n, double share)
{
    uint64_t i = (uint64_t)(share * (double)n);
    return (double)sorted[i < n ? i : n - 1] / 1e3;
}

static int64_t take_one(amqp_connection_state_t c, amqp_connection_state_t reports, uint64_t *tag)
{
    amqp_envelope_t job;
    char text[MIN_BYTES + 1];
    amqp_maybe_release_buffers(c);
    amqp_rpc_reply_t r = amqp_consume_message(c, &job, &(struct timeval){IDLE_S, 0}, 0);
    if (r.reply_type != AMQP_RESPONSE_NORMAL)
        errx(1, "consume: %s", amqp_error_string2(r.library_error));
    int64_t now = now_ns();
    snprintf(text, sizeof text, "%.*s", (int)job.message.body.len,
             (const char *)job.message.body.bytes);
    int64_t latency = now - strtoll(text, NULL, 10);
    *tag = job.delivery_tag;
    /* 1 to 2^9 ms: some jobs of each size. */
    double ms = (double)(1 << (job.delivery_tag % 10));
    MUST(reports == NULL ||
         harbinger_report(reports, &job.message.properties.headers, ms, "ok") == 0);
    amqp_destroy_envelope(&job);
    return latency;
}

static void consume(const struct options *o)
{
    int64_t *latency = calloc(o->count, sizeof *latency);
    MUST(latency != NULL);
    amqp_connection_state_t c = open_link(o->uri);
    amqp_connection_state_t reports = o->report ? open_link(o->uri) : NULL;
    MUST(amqp_basic_qos(c, 1, 0, (uint16_t)o->prefetch, 0));
    amqp_basic_consume(c, 1, amqp_cstring_bytes(o->queue), amqp_empty_bytes, 0, 0, 0,
                       amqp_empty_table);
    MUST(amqp_get_rpc_reply(c).reply_type == AMQP_RESPONSE_NORMAL);
    uint64_t ack_every = o->prefetch < 4 ? 1 : o->prefetch / 4, tag;
    int64_t started = 0;
    for (uint64_t n = 0; n < o->count; n++) {
        latency[n] = take_one(c, reports, &tag);
        if (n == 0)
            started = now_ns();
        if ((n + 1) % ack_every == 0 || n + 1 == o->count)
            MUST(amqp_basic_ack(c, 1, tag, 1) == AMQP_STATUS_OK);
    }
    qsort(latency, o->count, sizeof *latency, by_value);
    printf("{\"received\": %" PRIu64 ", \"seconds\": %.3f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"max_us\": %.1f}\n",
           o->count, (double)(now_ns() - started) / 1e9, at_us(latency, o->count, 0.5),
           at_us(latency, o->count, 0.99), at_us(latency, o->count, 1));
    close_link(c);
    if (reports != NULL)
        close_link(reports);
    free(latency);
}

/* ---- arguments ---- */

static bool option(struct options *o, const char *arg)
{
    const struct {
        const char *name;
        uint64_t *value;
    } known[] = {{"rate=", &o->rate},
                 {"keys=", &o->keys},
                 {"bytes=", &o->bytes},
                 {"prefetch=", &o->prefetch},
                 {"report=", &o->report}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].name);
        char *end;
        if (strncmp(arg, known[i].name, n) != 0)
            continue;
        *known[i].value = strtoull(arg + n, &end, 10);
        return end != arg + n && *end == '\0';
    }
    return false;
}

int main(int argc, char **argv)
{
    struct options o = {.keys = 1, .bytes = 256, .prefetch = 500};
    bool good = argc >= 5 && (strcmp(argv[1], "publish") == 0 || strcmp(argv[1], "consume") == 0);
    for (int i = 5; i < argc; i++)
        good = good && option(&o, argv[i]);
    if (good) {
        o.uri = argv[2];
        o.queue = argv[3];
        o.count = strtoull(argv[4], NULL, 10);
    }
    if (!good || o.count == 0 || o.keys == 0 || o.bytes < MIN_BYTES || o.prefetch == 0) {
        fprintf(stderr, "usage: load publish|consume URI QUEUE COUNT [NAME=NUMBER]...\n");
        return 2;
    }
    (argv[1][0] == 'p' ? publish : consume)(&o);
    return 0;
}
