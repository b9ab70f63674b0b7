/*
 * What anybody can send to the gRPC port: raw bytes into a server's connection. A first byte 'h' is
 * taken off, and what begins an HTTP/2 connection is put before the rest, so that not every input has
 * to find that out. Whatever it is, the connection and all of its calls end with it, no message is
 * lost, and no count is left. Exercises rpc/conn.c, rpc/call.c and what they call.
 */
#include "fuzz/rpc_world.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char begin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct rpc_world w;
    rpc_world_init(&w);
    if (size > 0 && data[0] == 'h') {
        rpc_world_feed(&w, begin, sizeof begin - 1);
        data++;
        size--;
    }
    rpc_world_feed(&w, data, size);
    rpc_world_pass(&w, 31 * MONO_S);
    rpc_world_fini(&w);
    return 0;
}
