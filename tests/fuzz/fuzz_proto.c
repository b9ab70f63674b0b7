/*
 * What clients of gRPC can send: calls of every method with any bodies, in well-formed HTTP/2. The
 * input is a list of steps, each of three bytes and a body:
 *
 *   what, method or stream, bytes of the body
 *     what & 3   0: begins a call and sends the body, and ends the request's side when what & 4
 *                1: sends the body on the stream, and ends its side when what & 4
 *                2: cancels the stream
 *                3: lets time pass; or shuts the server (what & 4); or hears no more (what & 8)
 *
 * Whatever it is, no call is left behind and no message is lost. A body of Submit is read by hand:
 * protobuf-c must not disagree. Exercises all services in rpc/.
 */
#include "fuzz/rpc_world.h"
#include "fuzz/target.h"
#include "rpc/harbinger.pb-c.h"
#include "rpc/submission.h"

#include <string.h>

enum { FRAME_HEAD = 9, BODY_MAX = 255 };
enum { BEGINS, SENDS, CANCELS, OTHERS, ENDS = 4, DEAF = 8 };
enum { DATA, HEADERS, RST_STREAM = 3, END_STREAM = 1, END_HEADERS = 4 };

static const char *const methods[] = {
    "/harbinger_rpc.Broker/RegisterProducer",
    "/harbinger_rpc.Broker/Submit",
    "/harbinger_rpc.Broker/RegisterConsumer",
    "/harbinger_rpc.Broker/Pull",
    "/harbinger_rpc.Broker/Ack",
    "/harbinger_rpc.Broker/Nack",
    "/harbinger_rpc.Broker/InspectDlq",
    "/harbinger_rpc.Broker/SubmitStream",
    "/harbinger_rpc.Broker/Work",
    "/harbinger_rpc.Broker/ExtendLease",
    "/harbinger_rpc.Broker/Stats",
    "/harbinger_rpc.Broker/RedriveDlq",
    "/harbinger_rpc.Broker/PurgeDlq",
    "/harbinger_rpc.Broker/Drain",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
};

static uint8_t *put_head(uint8_t *p, size_t n, uint8_t type, uint8_t flags, uint32_t stream)
{
    const uint8_t head[FRAME_HEAD] = {(uint8_t)(n >> 16),
                                      (uint8_t)(n >> 8),
                                      (uint8_t)n,
                                      type,
                                      flags,
                                      (uint8_t)(stream >> 24),
                                      (uint8_t)(stream >> 16),
                                      (uint8_t)(stream >> 8),
                                      (uint8_t)stream};
    memcpy(p, head, sizeof head);
    return p + sizeof head;
}

static uint8_t *put_field(uint8_t *p, const char *name, const char *value)
{
    size_t n_name = strlen(name), n_value = strlen(value);
    *p++ = 0;
    *p++ = (uint8_t)n_name;
    memcpy(p, name, n_name);
    p += n_name;
    *p++ = (uint8_t)n_value;
    memcpy(p, value, n_value);
    return p + n_value;
}

static uint8_t *put_headers(uint8_t *bytes, uint32_t stream, const char *path)
{
    uint8_t *p = bytes + FRAME_HEAD;
    p = put_field(p, ":method", "POST");
    p = put_field(p, ":scheme", "http");
    p = put_field(p, ":authority", "x");
    p = put_field(p, ":path", path);
    p = put_field(p, "content-type", "application/grpc");
    put_head(bytes, (size_t)(p - bytes) - FRAME_HEAD, HEADERS, END_HEADERS, stream);
    return p;
}

/* `path` begins a call; NULL goes on with one. */
static void send_body(struct rpc_world *w, uint32_t stream, const char *path, struct text body,
                      bool ends)
{
    uint8_t bytes[512 + BODY_MAX], *p = bytes;
    if (path != NULL)
        p = put_headers(p, stream, path);
    p = put_head(p, GRPC_PREFIX + body.n, DATA, ends ? END_STREAM : 0, stream);
    grpc_put_prefix(p, (uint32_t)body.n);
    memcpy(p + GRPC_PREFIX, body.p, body.n);
    rpc_world_feed(w, bytes, (size_t)(p - bytes) + GRPC_PREFIX + body.n);
}

static void cancel(struct rpc_world *w, uint32_t stream)
{
    uint8_t bytes[FRAME_HEAD + 4] = {0};
    put_head(bytes, 4, RST_STREAM, 0, stream)[3] = 8;
    rpc_world_feed(w, bytes, sizeof bytes);
}

/* What protobuf-c takes is a submission for us too, and the same one; it drops what follows a NUL in
 * a text. */
static void compare(struct text body)
{
    struct submission ours;
    bool read = submission_read(body, &ours);
    HarbingerRpc__SubmitRequest *theirs =
        harbinger_rpc__submit_request__unpack(NULL, body.n, (const uint8_t *)body.p);
    if (theirs == NULL)
        return;
    if (!read) { /* protobuf-c takes tags of more than 32 bits, which the format does not have */
        harbinger_rpc__submit_request__free_unpacked(theirs, NULL);
        return;
    }
    must(ours.payload.n == theirs->payload.len);
    must(ours.payload.n == 0 || memcmp(ours.payload.p, theirs->payload.data, ours.payload.n) == 0);
    must(strncmp(theirs->producer_id, ours.producer.p, ours.producer.n) == 0);
    must(ours.has_ttl == (theirs->ttl_case == HARBINGER_RPC__SUBMIT_REQUEST__TTL_TTL_MS));
    must(!ours.has_ttl || ours.ttl_ms == theirs->ttl_ms);
    harbinger_rpc__submit_request__free_unpacked(theirs, NULL);
}

static void other(struct rpc_world *w, uint8_t what, uint8_t seconds)
{
    if ((what & ENDS) != 0)
        rpc_server_shut(w->server);
    else if ((what & DEAF) != 0)
        w->deaf = true;
    else
        rpc_world_pass(w, seconds * MONO_S);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct rpc_world w;
    uint32_t streams = 0; /* begun so far: 1, 3, 5, ... */
    rpc_world_init(&w);
    rpc_world_feed(&w, preface, sizeof preface - 1);
    while (size >= 3) {
        uint8_t what = data[0], which = data[1];
        struct text body = {(const char *)data + 3, data[2] < size - 3 ? data[2] : size - 3};
        uint32_t stream = streams > 0 ? 2 * (streams - 1 - which % streams) + 1 : 1;
        switch (what & 3) {
        case BEGINS:
            compare(body);
            stream = 2 * streams++ + 1;
            send_body(&w, stream, methods[which % ARRAY_SIZE(methods)], body, (what & ENDS) != 0);
            break;
        case SENDS: send_body(&w, stream, NULL, body, (what & ENDS) != 0); break;
        case CANCELS: cancel(&w, stream); break;
        case OTHERS: other(&w, what, which); break;
        }
        data += 3 + body.n;
        size -= 3 + body.n;
    }
    rpc_world_fini(&w);
    return 0;
}
