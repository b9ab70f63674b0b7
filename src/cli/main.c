/* harbinger: asks a running Harbinger over gRPC; what works on files is in local.c. Command line, environment, exit code. */
#include "base/num.h"
#include "cli/cli.h"
#include "cli/local.h"

#include <harbinger/version.h>

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ADDRESS "127.0.0.1:50051"

/* One row per option: the parser, the check and the help come from here. */
struct option_row {
    const char *name, *arg; /* arg NULL: none; with '=' in front: it may be left out */
    const char *help;
    unsigned who; /* the commands that have this bit */
};

static const struct option_row options[] = {
    {"connect", "HOST:PORT", "where Harbinger listens for gRPC [127.0.0.1:50051]", CLI_ANY},
    {"token-file", "FILE", "its first line is sent as a bearer token", CLI_ANY},
    {"ca-file", "FILE", "speak TLS; the server's certificate must be signed by this one", CLI_ANY},
    {"server-name", "NAME", "in the server's certificate [the host]", CLI_ANY},
    {"timeout", "DURATION", "for each answer [5s]", CLI_ANY},
    {"help", NULL, "says this; after a command, what there is to it", CLI_ANY},
    {"version", NULL, "prints the version", CLI_ANY},
    {"json", NULL, "one JSON object instead of text", CLI_JSON},
    {"watch", "=SECONDS", "again and again, every 2 seconds", CLI_WATCH},
    {"limit", "N", "so many at most", CLI_LIMIT},
    {"offset", "N", "leaves out the first ones", CLI_OFFSET},
    {"all", NULL, "all of them", CLI_ALL},
    {"yes", NULL, "does it", CLI_YES},
    {"wait", NULL, "until all is done", CLI_WAIT},
};

enum { N_OPTIONS = ARRAY_SIZE(options) };

struct line {
    struct cli cli;
    bool help, version;
    unsigned given;             /* the bits of the options */
    const char *given_name[32]; /* the last one with each bit */
};

static void print_commands(FILE *f)
{
    fputs("usage: harbinger [OPTION]... COMMAND\n\n", f);
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
        fprintf(f, "  %-15s %s\n", c->name, c->help);
    fputs("\nOn files, without a running Harbinger:\n\n", f);
    local_print_commands(f);
}

static void print_options(unsigned bits)
{
    for (const struct option_row *o = options; o < options + N_OPTIONS; o++) {
        char text[40];
        bool optional = o->arg != NULL && o->arg[0] == '=';
        if ((o->who & bits) == 0)
            continue;
        snprintf(text, sizeof text, "--%s%s%s%s%s", o->name, o->arg != NULL && !optional ? " " : "",
                 optional ? "[" : "", o->arg != NULL ? o->arg : "", optional ? "]" : "");
        printf("  %-22s %s\n", text, o->help);
    }
}

static int print_help(const struct cli_command *c)
{
    if (c == NULL) {
        print_commands(stdout);
        puts("\nOptions of all commands (harbinger COMMAND --help has the others):\n");
    } else {
        printf("usage: harbinger %s %s\n\n%s.\n%s%s\n", c->name, c->args, c->help,
               c->more[0] != '\0' ? "\n" : "", c->more);
        if (c->options != 0) {
            print_options(c->options);
            puts("");
        }
    }
    print_options(CLI_ANY);
    puts("\nHARBINGER_CONNECT, HARBINGER_TOKEN_FILE and HARBINGER_CA_FILE in the environment stand "
         "for these options.\n"
         "Exit status: 0 done, 1 failed or refused, 2 usage, 3 no connection or no answer, 4 no "
         "such dead letter.");
    return CLI_OK;
}

int cli_usage(const struct cli *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("harbinger: ", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    if (c->command != NULL)
        fprintf(stderr, "\nusage: harbinger %s %s\n", c->command->name, c->command->args);
    else
        fputs("\nharbinger --help says what there is\n", stderr);
    return CLI_USAGE;
}

int cli_error(const struct hb_rpc_error *e)
{
    fprintf(stderr, "harbinger: %s\n", e->text);
    switch (e->status) {
    case HB_RPC_UNAVAILABLE:
    case HB_RPC_DEADLINE_EXCEEDED: return CLI_UNREACHABLE;
    case HB_RPC_NOT_FOUND: return CLI_NOT_FOUND;
    default: return CLI_FAILED;
    }
}

static bool take_number(const char *text, uint32_t *out)
{
    uint64_t n;
    if (num_parse_u64(text, strlen(text), &n) < 0 || n > INT32_MAX)
        return false;
    *out = (uint32_t)n;
    return true;
}

static bool take_duration(const char *text, int64_t *out_ms)
{
    mono_t ns;
    if (num_parse_duration(text, strlen(text), &ns) < 0 || ns < MONO_MS)
        return false;
    *out_ms = ns / MONO_MS;
    return true;
}

/* Seconds, with or without their unit. */
static bool take_seconds(const char *text, int64_t *out_ms)
{
    uint32_t s;
    if (!take_number(text, &s))
        return take_duration(text, out_ms);
    *out_ms = (int64_t)s * 1000;
    return s > 0;
}

/* False when the value is not of the option's kind. */
static bool take_option(struct line *l, const struct option_row *o, const char *value)
{
    struct cli *c = &l->cli;
    const char *n = o->name;
    for (unsigned bit = 0; bit < 32; bit++) {
        if (o->who == 1U << bit)
            l->given_name[bit] = n;
    }
    l->given |= o->who;
    if (strcmp(n, "connect") == 0)
        c->client.address = value;
    else if (strcmp(n, "token-file") == 0)
        c->client.token_file = value;
    else if (strcmp(n, "ca-file") == 0)
        c->client.ca_file = value;
    else if (strcmp(n, "server-name") == 0)
        c->client.server_name = value;
    else if (strcmp(n, "timeout") == 0)
        return take_duration(value, &c->client.timeout_ms);
    else if (strcmp(n, "watch") == 0)
        return take_seconds(value != NULL ? value : "2", &c->watch_ms);
    else if (strcmp(n, "limit") == 0)
        return (c->limited = take_number(value, &c->limit)) && c->limit > 0;
    else if (strcmp(n, "offset") == 0)
        return take_number(value, &c->offset);
    else {
        l->help |= strcmp(n, "help") == 0;
        l->version |= strcmp(n, "version") == 0;
        c->json |= strcmp(n, "json") == 0;
        c->all |= strcmp(n, "all") == 0;
        c->yes |= strcmp(n, "yes") == 0;
        c->wait |= strcmp(n, "wait") == 0;
    }
    return true;
}

/* The command that the words begin with; sets how many of them it has. */
static const struct cli_command *find_command(char **words, int n, int *n_used)
{
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        const char *second = strchr(c->name, ' ');
        size_t n_first = second != NULL ? (size_t)(second - c->name) : strlen(c->name);
        *n_used = second != NULL ? 2 : 1;
        if (n >= *n_used && strlen(words[0]) == n_first &&
            memcmp(words[0], c->name, n_first) == 0 &&
            (second == NULL || strcmp(words[1], second + 1) == 0))
            return c;
    }
    return NULL;
}

/* The second words of the commands that begin with this one, "" when there are none. */
static void list_seconds(const char *first, char *out, size_t size)
{
    size_t n = 0, n_first = strlen(first);
    out[0] = '\0';
    for (const struct cli_command *c = cli_commands; c->name != NULL && n < size; c++)
        if (strncmp(c->name, first, n_first) == 0 && c->name[n_first] == ' ')
            n += (size_t)snprintf(out + n, size - n, "%s%s", n > 0 ? ", " : "",
                                  c->name + n_first + 1);
}

static int no_such_command(const struct cli *c, char **words, int n)
{
    char seconds[128];
    list_seconds(words[0], seconds, sizeof seconds);
    if (seconds[0] != '\0')
        return cli_usage(c, "'%s' needs one of: %s", words[0], seconds);
    return cli_usage(c, "there is no command '%s%s%s'", words[0], n > 1 ? " " : "",
                     n > 1 ? words[1] : "");
}

/* What stands after the options: command and operand. */
static int take_words(struct line *l, char **words, int n)
{
    struct cli *c = &l->cli;
    int n_used = 0;
    if (n == 0) {
        if (l->help || l->version)
            return CLI_OK;
        print_commands(stderr);
        return CLI_USAGE;
    }
    c->command = find_command(words, n, &n_used);
    if (c->command == NULL)
        return no_such_command(c, words, n);
    if (l->help)
        return CLI_OK;
    unsigned wrong = l->given & ~(c->command->options | CLI_ANY);
    for (unsigned bit = 0; bit < 32; bit++) {
        if ((wrong & 1U << bit) != 0)
            return cli_usage(c, "%s does not take --%s", c->command->name, l->given_name[bit]);
    }
    int n_ids = n - n_used;
    if (n_ids > (c->command->id == CLI_NO_ID ? 0 : 1))
        return cli_usage(c, "unexpected argument '%s'", words[n - 1]);
    if (n_ids < 1 && c->command->id == CLI_MUST_ID)
        return cli_usage(c, "which dead letter?");
    c->id = n_ids > 0 ? words[n_used] : NULL;
    if (c->id != NULL && c->id[0] == '\0') /* to the server it would mean all of them */
        return cli_usage(c, "an id is not empty");
    return CLI_OK;
}

static int parse(struct line *l, int argc, char **argv)
{
    struct option table[N_OPTIONS + 1] = {0};
    for (int i = 0; i < N_OPTIONS; i++) {
        const char *arg = options[i].arg;
        table[i].name = options[i].name;
        table[i].has_arg = arg == NULL     ? no_argument
                           : arg[0] == '=' ? optional_argument
                                           : required_argument;
    }
    int c, which = 0;
    while ((c = getopt_long(argc, argv, "h", table, &which)) != -1) {
        if (c == 'h')
            l->help = true;
        else if (c != 0)
            return CLI_USAGE; /* getopt_long has said what is wrong */
        else if (!take_option(l, &options[which], optarg))
            return cli_usage(&l->cli, "--%s: '%s' is not of the form that it takes",
                             options[which].name, optarg);
    }
    return take_words(l, argv + optind, argc - optind);
}

static const char *from_environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : otherwise;
}

static int run(struct cli *c)
{
    c->peer = peer_new(&c->client);
    if (c->peer == NULL) {
        fputs("harbinger: out of memory\n", stderr);
        return CLI_FAILED;
    }
    int code = c->command->run(c);
    peer_free(c->peer);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("harbinger: standard output");
        return CLI_FAILED;
    }
    return code;
}

int main(int argc, char **argv)
{
    int local = local_main(argc, argv);
    if (local >= 0)
        return local;
    struct line l = {.cli.client = {
                         .address = from_environment("HARBINGER_CONNECT", DEFAULT_ADDRESS),
                         .token_file = from_environment("HARBINGER_TOKEN_FILE", NULL),
                         .ca_file = from_environment("HARBINGER_CA_FILE", NULL),
                     }};
    int code = parse(&l, argc, argv);
    if (code != CLI_OK)
        return code;
    if (l.help)
        return print_help(l.cli.command);
    if (l.version) {
        puts("harbinger " HARBINGER_VERSION);
        return CLI_OK;
    }
    signal(SIGPIPE, SIG_IGN); /* a reader that went is an error of the output */
    return run(&l.cli);
}
