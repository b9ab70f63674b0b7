/*
 * Exercises the files of src/proxy without sockets: a session between a client and a RabbitMQ that
 * both say anything. The station must get each delivery back exactly once, with whatever either side
 * does, and all memory must be free at the end.
 *
 * Input: records of what (side in bit 0, kind in bits 1 and 2, method above), length, that many
 * bytes. Kinds: a method of the list with these bytes as channel and arguments; a content frame;
 * bytes as they are; and others (messages come, time passes, the client reads).
 */
#include "base/err.h"
#include "fuzz/target.h"
#include "lib/proxy_world.h"

#include <string.h>

static const uint32_t methods[] = {
    AMQP_BASIC_ACK_METHOD,           AMQP_BASIC_NACK_METHOD,
    AMQP_BASIC_REJECT_METHOD,        AMQP_BASIC_CONSUME_METHOD,
    AMQP_BASIC_CONSUME_OK_METHOD,    AMQP_BASIC_DELIVER_METHOD,
    AMQP_BASIC_GET_METHOD,           AMQP_BASIC_GET_OK_METHOD,
    AMQP_BASIC_GET_EMPTY_METHOD,     AMQP_BASIC_QOS_METHOD,
    AMQP_BASIC_CANCEL_METHOD,        AMQP_BASIC_CANCEL_OK_METHOD,
    AMQP_BASIC_RECOVER_METHOD,       AMQP_BASIC_RECOVER_OK_METHOD,
    AMQP_BASIC_PUBLISH_METHOD,       AMQP_BASIC_RETURN_METHOD,
    AMQP_CHANNEL_OPEN_METHOD,        AMQP_CHANNEL_CLOSE_METHOD,
    AMQP_CHANNEL_CLOSE_OK_METHOD,    AMQP_CHANNEL_FLOW_METHOD,
    AMQP_CHANNEL_FLOW_OK_METHOD,     AMQP_QUEUE_DECLARE_METHOD,
    AMQP_QUEUE_DECLARE_OK_METHOD,    AMQP_TX_SELECT_METHOD,
    AMQP_CONNECTION_TUNE_METHOD,     AMQP_CONNECTION_TUNE_OK_METHOD,
    AMQP_CONNECTION_OPEN_METHOD,     AMQP_CONNECTION_CLOSE_METHOD,
    AMQP_CONNECTION_CLOSE_OK_METHOD, AMQP_CONNECTION_START_OK_METHOD,
    AMQP_CONNECTION_OPEN_OK_METHOD,
};

enum { METHOD, CONTENT, BYTES, OTHER };

struct input {
    const uint8_t *p;
    size_t n;
};

static void put_frame(struct buf *b, uint8_t type, struct input in, const uint32_t *method)
{
    uint8_t channel = in.n > 0 ? in.p[0] % 4 : 0;
    size_t n_args = in.n > 0 ? in.n - 1 : 0, n = n_args + (method != NULL ? 4 : 0);
    char head[11] = {(char)type, 0, (char)channel, 0, 0, (char)(n >> 8), (char)n};
    if (method != NULL)
        for (int i = 0; i < 4; i++)
            head[7 + i] = (char)(*method >> (24 - 8 * i));
    MUST(buf_append(b, head, method != NULL ? 11 : 7) == 0);
    MUST(buf_append(b, n_args > 0 ? in.p + 1 : NULL, n_args) == 0);
    MUST(buf_append(b, "\xce", 1) == 0);
}

static void other(struct proxy_world *w, uint8_t what)
{
    struct frame f;
    switch (what % 4) {
    case 0: proxy_world_put(w, w->n_messages < 1000 ? 3 : 0); break;
    case 1:
        w->world.now += 10 * MONO_MS;
        MUST(world_end_returns(&w->world) > w->world.now);
        break;
    case 2:
        while (proxy_world_take(w, SIDE_CLIENT, &f))
            continue;
        (void)session_drained(&w->session);
        break;
    default: w->draining = !w->draining; break;
    }
}

/* False when the session is over. */
static bool run(struct proxy_world *w, uint8_t what, struct input in)
{
    struct buf b = {0};
    int r = 0;
    switch (what >> 1 & 3) {
    case METHOD:
        put_frame(&b, AMQP_FRAME_METHOD, in, &methods[(what >> 3) % ARRAY_SIZE(methods)]);
        break;
    case CONTENT:
        put_frame(&b, (what & 8) != 0 ? AMQP_FRAME_HEADER : AMQP_FRAME_BODY, in, NULL);
        break;
    case BYTES: MUST(buf_append(&b, in.p, in.n) == 0); break;
    default: other(w, (uint8_t)(what >> 3)); break;
    }
    if (b.n > 0)
        r = session_input(&w->session, (what & 1) != 0 ? SIDE_UPSTREAM : SIDE_CLIENT, b.p, b.n);
    MUST(r == 0 || r == ERR_PROTOCOL);
    MUST(r == 0 || w->session.why != NULL);
    buf_fini(&b);
    return r == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct proxy_world w;
    const struct proxy_options o = {.max_channels = 100,
                                    .max_consumers = 20,
                                    .max_connection_bytes = 2000,
                                    .unlimited_window = 5,
                                    .max_window = size % 3};
    proxy_world_init(&w, &o);
    while (size >= 2) {
        size_t n = data[1] < size - 2 ? data[1] : size - 2;
        if (!run(&w, data[0], (struct input){data + 2, n}))
            break;
        (void)world_pump(&w.world);
        (void)session_window(&w.session);
        data += 2 + n;
        size -= 2 + n;
    }
    proxy_world_fini(&w);
    return 0;
}
