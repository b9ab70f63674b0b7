#include "cli/cli.h"

const struct cli_command cli_commands[] = {
    {"status", "[--json] [--watch[=SECONDS]]", "what waits on each level, and the totals",
     "waiting     messages on the level; promoted: of these, those that aging has moved up\n"
     "oldest      how long the level's next message has waited since its arrival\n"
     "clock       the level's virtual clock, where levels share worker time by weights\n",
     CLI_JSON | CLI_WATCH, CLI_NO_ID, cli_status},
    {"dlq list", "[--limit N] [--offset N] [--json]", "the dead letters, the oldest first",
     "Without --limit, 20 of them.\n", CLI_JSON | CLI_LIMIT | CLI_OFFSET, CLI_NO_ID, cli_dlq_list},
    {"dlq show", "ID [--json]", "one dead letter with its headers and payload", "", CLI_JSON,
     CLI_MUST_ID, cli_dlq_show},
    {"dlq redrive", "ID | --all | --limit N", "dead letters live again, as if submitted now",
     "Each keeps its id and its level, and has all its attempts again.\n", CLI_ALL | CLI_LIMIT,
     CLI_MAY_ID, cli_dlq_redrive},
    {"dlq purge", "ID | --all, and --yes", "drops dead letters for good",
     "Without --yes nothing is dropped.\n", CLI_ALL | CLI_YES, CLI_MAY_ID, cli_dlq_purge},
    {"drain", "[--wait] [--json]", "takes in nothing new any more; what is there is still served",
     "--wait      ends when nothing waits and nothing is in flight\n", CLI_WAIT | CLI_JSON,
     CLI_NO_ID, cli_drain},
    {0},
};
