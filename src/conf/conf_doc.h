/* What the rows of conf_table say to people: the text of --help, the manual page's list, the
 * shortest file. */
#ifndef HARBINGER_CONF_CONF_DOC_H
#define HARBINGER_CONF_CONF_DOC_H

#include "base/compiler.h"

struct buf;
struct conf;

/* Each appends to `out` and returns 0 or ERR_NOMEM. */

/* One line per option: "  intake.window=500", its help behind it; first what (R) means. */
int conf_doc_help(const struct conf *defaults, struct buf *out) MUST_CHECK;

/* The list of options in mdoc, for harbinger.yaml(5). */
int conf_doc_man(const struct conf *defaults, struct buf *out) MUST_CHECK;

/* A file with only the options that an installation cannot do without. */
int conf_doc_minimal(const struct conf *c, struct buf *out) MUST_CHECK;

#endif
