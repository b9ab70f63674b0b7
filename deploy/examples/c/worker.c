/* A RabbitMQ worker that tells Harbinger how long each job took: worker [AMQP-URI [WORK-QUEUE]]
 * With librabbitmq's blocking calls. A lost connection ends it: its supervisor starts it again. */
#include "harbinger_report.h"

#include <amqp_tcp_socket.h>
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#define MUST(x) ((x) ? (void)0 : errx(1, "failed: %s", #x))
static volatile sig_atomic_t stop; /* the current job is finished first */
static void on_term(int sig)
{
    stop = sig;
}

/* The work itself: yours goes here. These jobs carry the milliseconds to sleep. */
static const char *handle(amqp_bytes_t body)
{
    double ms;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)body.len, (const char *)body.bytes);
    if (sscanf(text, " { \"ms\" : %lf", &ms) != 1)
        return "error";
    struct timespec t = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    while (nanosleep(&t, &t) != 0)
        continue;
    return "ok";
}

static amqp_connection_state_t open_link(const char *uri)
{
    struct amqp_connection_info to;
    amqp_connection_state_t c = amqp_new_connection();
    char copy[500]; /* `to` points into it */
    MUST(snprintf(copy, sizeof copy, "%s", uri) < (int)sizeof copy && !amqp_parse_url(copy, &to));
    MUST(amqp_socket_open(amqp_tcp_socket_new(c), to.host, to.port) == 0);
    amqp_login(c, to.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, to.user, to.password);
    MUST(amqp_channel_open(c, 1));
    return c;
}

int main(int argc, char **argv)
{
    const char *uri = argc > 1 ? argv[1] : "amqp://guest:guest@127.0.0.1:5672/%2f";
    const char *queue = argc > 2 ? argv[2] : "harbinger.work";
    amqp_connection_state_t work = open_link(uri), reports = open_link(uri);
    signal(SIGTERM, on_term);
    MUST(amqp_basic_qos(work, 1, 0, 1, 0)); /* what a worker holds can no longer be overtaken */
    MUST(amqp_basic_consume(work, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0,
                            amqp_empty_table));
    while (!stop) {
        amqp_envelope_t job;
        amqp_maybe_release_buffers(work);
        amqp_rpc_reply_t r = amqp_consume_message(work, &job, &(struct timeval){0, 500000}, 0);
        if (r.library_error == AMQP_STATUS_TIMEOUT)
            continue;
        MUST(r.reply_type == AMQP_RESPONSE_NORMAL);
        double started = harbinger_now_ms();
        const char *end = handle(job.message.body);
        MUST(!harbinger_report(reports, &job.message.properties.headers,
                               harbinger_now_ms() - started, end));
        MUST(!(*end == 'o' ? amqp_basic_ack(work, 1, job.delivery_tag, 0) /* else dead-lettered */
                           : amqp_basic_reject(work, 1, job.delivery_tag, 0)));
        amqp_destroy_envelope(&job);
    }
    amqp_connection_close(work, AMQP_REPLY_SUCCESS);
    MUST(!amqp_destroy_connection(work) && !amqp_destroy_connection(reports));
}
