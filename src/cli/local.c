#include "cli/local.h"

#include "base/num.h"
#include "cli/cli.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static size_t first_word(const char *name)
{
    return strcspn(name, " ");
}

/* Whether the words begin with the command's name; sets how many words that is. */
static bool is_command(const struct local_command *c, int n, char **words, int *n_used)
{
    size_t k = first_word(c->name);
    bool two = c->name[k] == ' ';
    *n_used = two ? 2 : 1;
    return n >= *n_used && strlen(words[0]) == k && memcmp(words[0], c->name, k) == 0 &&
           (!two || strcmp(words[1], c->name + k + 1) == 0);
}

static bool shares_first_word(const struct local_command *c, const char *word)
{
    size_t k = first_word(c->name);
    return strlen(word) == k && memcmp(word, c->name, k) == 0;
}

void local_print_commands(FILE *f)
{
    for (const struct local_command *c = local_commands; c->name != NULL; c++)
        fprintf(f, "  %-15s %s\n", c->name, c->help);
}

static int print_help(const struct local_command *c)
{
    printf("usage: harbinger %s %s\n\n%s.\n%s%s\n", c->name, c->args, c->help,
           c->more[0] != '\0' ? "\n" : "", c->more);
    for (const struct local_option *o = c->options; o->name != NULL; o++) {
        char text[48];
        snprintf(text, sizeof text, "--%s%s%s", o->name, o->arg != NULL ? " " : "",
                 o->arg != NULL ? o->arg : "");
        printf("  %-24s %s\n", text, o->help);
    }
    printf("  %-24s %s\n", "--help", "says this");
    return CLI_OK;
}

/* "harbinger trace" alone: what there is of it. */
static int print_family(const char *word, bool asked)
{
    FILE *f = asked ? stdout : stderr;
    fprintf(f, "usage: harbinger %s COMMAND [OPTION]... (--help after a command says more)\n\n",
            word);
    for (const struct local_command *c = local_commands; c->name != NULL; c++)
        if (shares_first_word(c, word))
            fprintf(f, "  %-15s %s\n", c->name, c->help);
    return asked ? CLI_OK : CLI_USAGE;
}

int local_usage(const struct local *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("harbinger: ", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\nusage: harbinger %s %s\n", l->command->name, l->command->args);
    return CLI_USAGE;
}

int local_failed(const struct err *e)
{
    fputs("harbinger: ", stderr);
    for (const char *p = e->msg; *p != '\0'; p++) /* names from a file may hold anything */
        fputc(iscntrl((unsigned char)*p) ? '?' : *p, stderr);
    fputc('\n', stderr);
    return CLI_FAILED;
}

int local_failed_file(const char *path)
{
    struct err e;
    err_set(&e, ERR_SYSTEM, "%s: %s", path, strerror(errno));
    return local_failed(&e);
}

static int row_of(const struct local *l, const char *option)
{
    for (int i = 0; l->command->options[i].name != NULL; i++)
        if (strcmp(l->command->options[i].name, option) == 0)
            return i;
    assert(!"the command has such an option");
    return 0;
}

const char *local_text(const struct local *l, const char *option, const char *otherwise)
{
    const char *value = l->values[row_of(l, option)];
    return value != NULL ? value : otherwise;
}

bool local_given(const struct local *l, const char *option)
{
    return l->values[row_of(l, option)] != NULL;
}

bool local_number(const struct local *l, const char *option, uint64_t min, uint64_t max,
                  uint64_t *inout)
{
    const char *text = local_text(l, option, NULL);
    uint64_t n;
    if (text == NULL)
        return true;
    if (num_parse_u64(text, strlen(text), &n) < 0 || n < min || n > max) {
        local_usage(l, "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, option,
                    text, min, max);
        return false;
    }
    *inout = n;
    return true;
}

/* -1 when the options are right. */
static int parse(struct local *l, int argc, char **argv)
{
    struct option table[LOCAL_OPTIONS_MAX + 2] = {0};
    int n = 0, c, which = 0;
    for (; l->command->options[n].name != NULL; n++) {
        assert(n < LOCAL_OPTIONS_MAX);
        table[n].name = l->command->options[n].name;
        table[n].has_arg = l->command->options[n].arg != NULL ? required_argument : no_argument;
    }
    table[n].name = "help";
    optind = 0; /* anew, for words that begin elsewhere */
    while ((c = getopt_long(argc, argv, "h", table, &which)) != -1) {
        if (c == 'h' || (c == 0 && which == n))
            return print_help(l->command);
        if (c != 0)
            return CLI_USAGE; /* getopt_long has said what is wrong */
        l->values[which] = optarg != NULL ? optarg : "";
    }
    l->operands = argv + optind;
    l->n_operands = argc - optind;
    return -1;
}

static int run(const struct local_command *command, int argc, char **argv)
{
    struct local l = {.command = command};
    int code = parse(&l, argc, argv);
    if (code < 0) {
        signal(SIGPIPE, SIG_IGN); /* a reader that went is an error of the output */
        code = command->run(&l);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("harbinger: standard output");
        return CLI_FAILED;
    }
    return code;
}

int local_main(int argc, char **argv)
{
    if (argc < 2)
        return -1;
    bool family = false;
    for (const struct local_command *c = local_commands; c->name != NULL; c++) {
        int n_used;
        if (is_command(c, argc - 1, argv + 1, &n_used)) {
            argv[n_used] = argv[0]; /* getopt_long begins its messages with it */
            return run(c, argc - n_used, argv + n_used);
        }
        family |= shares_first_word(c, argv[1]);
    }
    if (!family)
        return -1;
    bool asked = argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0);
    if (argc > 2 && !asked)
        fprintf(stderr, "harbinger: there is no command '%s %s'\n", argv[1], argv[2]);
    return print_family(argv[1], asked);
}
