/*
 * The command line `harbinger`: what its subcommands share. Each one is a row of the table in
 * commands.c and a function in a file of its own.
 */
#ifndef HARBINGER_CLI_CLI_H
#define HARBINGER_CLI_CLI_H

#include "base/compiler.h"
#include "client/peer.h"

#include <harbinger/client.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes, as harbinger(1) has them. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_UNREACHABLE = 3, CLI_NOT_FOUND = 4 };

/* What the words of the command line say. */
struct cli {
    struct hb_client_options client;
    struct peer *peer;
    const struct cli_command *command;
    const char *id; /* the operand; NULL when there is none */
    bool json, all, yes, wait;
    bool limited; /* --limit was given */
    uint32_t limit, offset;
    int64_t watch_ms; /* 0 = once */
};

/* Options as bits of what a command takes. */
enum {
    CLI_JSON = 1 << 0,
    CLI_WATCH = 1 << 1,
    CLI_LIMIT = 1 << 2,
    CLI_OFFSET = 1 << 3,
    CLI_ALL = 1 << 4,
    CLI_YES = 1 << 5,
    CLI_WAIT = 1 << 6,
    CLI_ANY = 1 << 7, /* every command takes it */
};

enum cli_id { CLI_NO_ID, CLI_MAY_ID, CLI_MUST_ID };

struct cli_command {
    const char *name; /* of one or two words */
    const char *args; /* for the usage line */
    const char *help; /* a line; what else is to be known stands in `more` */
    const char *more;
    unsigned options; /* CLI_* bits */
    enum cli_id id;
    int (*run)(struct cli *c); /* an exit code */
};

extern const struct cli_command cli_commands[]; /* the last one has no name */

int cli_status(struct cli *c);
int cli_dlq_list(struct cli *c);
int cli_dlq_show(struct cli *c);
int cli_dlq_redrive(struct cli *c);
int cli_dlq_purge(struct cli *c);
int cli_drain(struct cli *c);

/* Says what was wrong with the command line, on standard error. CLI_USAGE. */
int cli_usage(const struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Says why a call failed, on standard error. The exit code for it. */
int cli_error(const struct hb_rpc_error *e);

/* Prints bytes from outside, control characters and what is no UTF-8 as \xNN; at most `max` bytes
 * of them, then "...". Returns how many columns that takes. */
size_t cli_print_text(const char *text, size_t n, size_t max);

/* "1.2 s", "3 min", "2 h": for people. */
void cli_format_age(int64_t ms, char out[32]);

#endif
