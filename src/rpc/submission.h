/* A SubmitRequest read where it lies, without a copy of anything but its headers. Pure. */
#ifndef HARBINGER_RPC_SUBMISSION_H
#define HARBINGER_RPC_SUBMISSION_H

#include "base/buf.h"
#include "base/compiler.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct submission {
    struct text producer, payload; /* parts of the request */
    bool has_ttl;
    int64_t ttl_ms; /* 0 without has_ttl */
};

/* False when it is no SubmitRequest. Unknown fields are skipped; headers are not looked at. */
bool submission_read(struct text request, struct submission *out);

/* The name under which consumers see who has submitted. */
#define SUBMISSION_PRODUCER "__producer_id"

/* Appends the request's headers in the form that is kept, `producer` under its name in place of
 * whatever the client wrote there. 0; ERR_INVALID when a header cannot be read or is not UTF-8;
 * ERR_NOMEM. */
int submission_headers(struct text request, struct text producer, struct buf *out) MUST_CHECK;

#endif
