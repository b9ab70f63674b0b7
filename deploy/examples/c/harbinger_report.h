/* What Harbinger needs of a C worker: copy this file into yours. See worker.c for its use. */
#ifndef HARBINGER_REPORT_H
#define HARBINGER_REPORT_H

#include <amqp.h>
#include <poll.h>
#include <string.h>
#include <time.h>

static inline double harbinger_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Publishes what a job took: `headers` of its message, the handler's time, "ok", "error" or
 * "timeout". The report is sent as headers; a JSON body with the same four fields is taken as well.
 *
 * Call it before the ack, on channel 1 of a connection that does nothing else. While RabbitMQ is
 * short of memory or disk it does not read a connection that has published: nothing is sent then,
 * for a report only teaches and a worker must not wait for it. A message that did not pass
 * Harbinger has no id and no report. Returns 0 or one of AMQP_STATUS_*. */
static inline int harbinger_report(amqp_connection_state_t reports, const amqp_table_t *headers,
                                   double duration_ms, const char *outcome)
{
    amqp_table_entry_t out[4];
    int n = 0;
    for (int i = 0; i < headers->num_entries && n < 2; i++) {
        amqp_bytes_t name = headers->entries[i].key;
        const char *field = NULL;
        if (name.len == 14 && memcmp(name.bytes, "x-harbinger-id", 14) == 0)
            field = "id";
        else if (name.len == 15 && memcmp(name.bytes, "x-harbinger-key", 15) == 0)
            field = "key";
        if (field)
            out[n++] = (amqp_table_entry_t){amqp_cstring_bytes(field), headers->entries[i].value};
    }
    struct pollfd room = {amqp_get_sockfd(reports), POLLOUT, 0};
    if (n < 2 || poll(&room, 1, 0) != 1)
        return 0;
    out[2] = (amqp_table_entry_t){amqp_cstring_bytes("duration_ms"),
                                  {.kind = AMQP_FIELD_KIND_F64, .value.f64 = duration_ms}};
    out[3] = (amqp_table_entry_t){
        amqp_cstring_bytes("outcome"),
        {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(outcome)}};
    amqp_basic_properties_t p = {._flags = AMQP_BASIC_HEADERS_FLAG, .headers = {4, out}};
    return amqp_basic_publish(reports, 1, amqp_cstring_bytes("harbinger.reports"), amqp_empty_bytes,
                              0, 0, &p, amqp_empty_bytes);
}

#endif
