/* Opens a connection: name to address, TCP, and TLS on top where it is asked for. */
#ifndef HARBINGER_CLIENT_DIAL_H
#define HARBINGER_CLIENT_DIAL_H

#include "base/compiler.h"
#include "base/mono.h"
#include "rpc/wire.h"

#include <harbinger/client.h>

#include <stddef.h>

/* HOST:PORT or [HOST]:PORT into its parts; false when it is of another form. */
bool dial_split(const char *address, char host[256], char port[8]);

/* How long wire_read_patiently waits. */
#define DIAL_PATIENCE_MS 20

/* 0, or -1 with words in `why`. Resolving a name may take longer than `until`. */
int dial(const struct hb_client_options *o, mono_t until, struct wire *out, char *why,
         size_t size) MUST_CHECK;

#endif
