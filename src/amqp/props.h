/*
 * The properties of a message as raw bytes.
 *
 * Properties are never decoded and encoded again. They are checked where they lie (props_parse),
 * read in place, and an outgoing list is spliced from ranges of the old one (props_edit): what is
 * not changed stays equal byte for byte, whatever its type, order or nesting. A nested table or
 * array is skipped by its length, so depth costs nothing and nothing recurses.
 *
 * What is not well formed (a cut list, an unknown field type) is *opaque*: it reads as having no
 * properties, and still can be sent on: raw as it came, or parked (props_edit keeps the raw bytes
 * in a header).
 */
#ifndef HARBINGER_AMQP_PROPS_H
#define HARBINGER_AMQP_PROPS_H

#include "amqp/header.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In wire order, PROP_CONTENT_TYPE being flag bit 15. */
enum prop {
    PROP_CONTENT_TYPE,
    PROP_CONTENT_ENCODING,
    PROP_HEADERS,
    PROP_DELIVERY_MODE,
    PROP_PRIORITY,
    PROP_CORRELATION_ID,
    PROP_REPLY_TO,
    PROP_EXPIRATION,
    PROP_MESSAGE_ID,
    PROP_TIMESTAMP,
    PROP_TYPE,
    PROP_USER_ID,
    PROP_APP_ID,
    PROP_CLUSTER_ID,
    PROP_COUNT
};

/* Properties that have been looked at once, and are known to be well formed. Borrows the raw bytes.
 * Small, since each held message has one: where a property lies is found by walking to it. Zeroed =
 * no properties. */
struct props {
    struct text raw; /* flags and list, whole */
    bool opaque;     /* not well formed; all properties are absent then */
};

/* Checks raw property bytes (borrowed). Never fails: see `opaque`. O(bytes of the top level). */
void props_parse(struct props *p, struct text raw);

/* A property's content, without a length prefix; {NULL, 0} when absent. */
struct text props_field(const struct props *p, enum prop which);

/* A text property (content type ... cluster id, except headers, delivery mode, priority,
 * timestamp); {NULL, 0} when absent. */
struct text props_text(const struct props *p, enum prop which);
/* Priority, delivery mode or timestamp; -1 when absent (a timestamp past INT64_MAX reads as
 * INT64_MAX). */
int64_t props_number(const struct props *p, enum prop which);
/* The first header of that name (case matters); false when absent. */
bool props_header(const struct props *p, struct text name, struct header *out) MUST_CHECK;
/* The content of a text header (type S or x); {NULL, 0} when absent or of another type. */
struct text props_header_text(const struct props *p, struct text name);
/* Walks all headers: start with *at = 0; false at the end. Never false in the middle of a
 * table. */
bool props_header_next(const struct props *p, size_t *at, struct header *out) MUST_CHECK;

struct props_edit {
    int priority; /* 0..255 sets it; -1 keeps what is there */
    bool drop_user_id;
    struct text strip_prefix; /* headers that start so are removed, case ignored; absent = none */
    const struct text *strip; /* headers of these names are removed */
    size_t n_strip;
    const struct header *add; /* appended in order */
    size_t n_add;
};

/* Appends the edited flags and list to `out`. Continues an opaque list with nothing but the
 * additions and "x-harbinger-raw-properties" (type x, the first 4096 raw bytes). Returns 0;
 * ERR_NOMEM, or ERR_INVALID (a name over 255 bytes, a bad type, a table over 4 GiB), with `out`
 * unchanged. Whether it fits a frame is the publisher's check. */
int props_edit(const struct props *p, const struct props_edit *edit, struct buf *out) MUST_CHECK;

#endif
