/* harbingerd: command line, configuration, exit code. */
#include "amqp/uri.h"
#include "base/err.h"
#include "conf/conf.h"
#include "conf/conf_doc.h"
#include "sidecar/amqp_workers.h"
#include "sidecar/daemon.h"

#include <harbinger/version.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, MAX_SETS = 64 };

enum action { RUN, CHECK, PRINT_CONFIG, PRINT_DEFAULTS, HELP, VERSION, USAGE };

struct arguments {
    enum action action;
    const char *conf_path;
    const char *sets[MAX_SETS];
    size_t n_sets;
};

static const char usage[] =
    "usage: harbingerd [-c FILE] [--set KEY=VALUE]... [--check | --print-config]\n"
    "       harbingerd --print-defaults | --help | --version\n";

static const char help[] =
    "\nA sidecar for RabbitMQ: takes messages from an intake queue, learns how long each kind "
    "takes, and\n"
    "publishes them into a priority queue so that the shortest expected work is served first.\n"
    "With backend: harbinger it holds them itself and serves workers over gRPC; a message is acked "
    "to RabbitMQ\nwhen a worker has acked it. What clients submit over gRPC is in memory alone: a "
    "restart loses it.\n\n"
    "  -c, --config FILE    configuration, YAML; without it the built-in defaults\n"
    "      --set KEY=VALUE  overrides one option, e.g. --set mode=static; may be repeated\n"
    "      --check          reads the configuration, says what is wrong, exits\n"
    "      --print-config   prints the effective configuration, exits\n"
    "      --print-defaults prints the built-in configuration with its comments, exits\n"
    "      --help, --version\n\n"
    "Signals: SIGTERM and SIGINT finish what is under way and exit 0, a second one exits at once; "
    "SIGHUP reads the\n"
    "configuration again. Exit status: 0 stopped as told, 1 failed while running, 2 usage or "
    "configuration.\n\n"
    "Options and their defaults:\n\n";

static struct arguments parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},   {"set", required_argument, NULL, 's'},
        {"check", no_argument, NULL, 'k'},          {"print-config", no_argument, NULL, 'p'},
        {"print-defaults", no_argument, NULL, 'd'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},        {NULL, 0, NULL, 0},
    };
    struct arguments a = {.action = RUN};
    int c;
    while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        switch (c) {
        case 'c': a.conf_path = optarg; break;
        case 's':
            if (a.n_sets == MAX_SETS) {
                fprintf(stderr, "harbingerd: more than %d --set\n", MAX_SETS);
                a.action = USAGE;
                return a;
            }
            a.sets[a.n_sets++] = optarg;
            break;
        case 'k': a.action = CHECK; break;
        case 'p': a.action = PRINT_CONFIG; break;
        case 'd': a.action = PRINT_DEFAULTS; break;
        case 'h': a.action = HELP; break;
        case 'v': a.action = VERSION; break;
        default: a.action = USAGE; return a;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "harbingerd: unexpected argument '%s'\n", argv[optind]);
        a.action = USAGE;
    }
    return a;
}

/* Prints a text that is made from the built-in defaults. */
static int print_made(int (*make)(const struct conf *c, struct buf *out), const struct conf *c)
{
    struct buf out = {0};
    bool done =
        make(c, &out) == 0 && fwrite(out.p, 1, out.n, stdout) == out.n && fflush(stdout) == 0;
    buf_fini(&out);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int print_defaults(int (*make)(const struct conf *c, struct buf *out))
{
    struct conf defaults;
    if (conf_init_defaults(&defaults) < 0)
        return EXIT_FAILURE;
    int status = print_made(make, &defaults);
    conf_fini(&defaults);
    return status;
}

static int check_uris(const struct conf *c, struct conf_errors *errors)
{
    int r = 0;
    for (size_t i = 0; i < c->amqp.uri.n; i++) {
        struct err e = {0};
        struct uri ignored;
        char text[sizeof e.msg + 64], which[48] = "";
        if (uri_parse(c->amqp.uri.v[i], &ignored, &e) == 0)
            continue;
        if (c->amqp.uri.n > 1)
            snprintf(which, sizeof which, "number %zu of the list: ", i + 1);
        snprintf(text, sizeof text, "amqp.uri: %s%s", which, e.msg);
        r = conf_refuse(c, "amqp.uri", text, errors);
    }
    return r;
}

static int check_upstream(const struct conf *c, struct conf_errors *errors)
{
    struct err e = {0};
    struct uri ignored;
    char text[sizeof e.msg + 64];
    if (c->proxy.upstream[0] == '\0' || amqp_workers_upstream(c->proxy.upstream, &ignored, &e) == 0)
        return 0;
    snprintf(text, sizeof text, "proxy.upstream: %s", e.msg);
    return conf_refuse(c, "proxy.upstream", text, errors);
}

static int check_password_file(const struct conf *c, struct conf_errors *errors)
{
    const char *path = c->amqp.password_file;
    char first, text[512];
    if (path[0] == '\0')
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool readable = fd >= 0 && read(fd, &first, 1) >= 0;
    snprintf(text, sizeof text, "amqp.password_file: '%.256s' cannot be read: %s", path,
             strerror(errno));
    if (fd >= 0)
        close(fd);
    return readable ? 0 : conf_refuse(c, "amqp.password_file", text, errors);
}

/* The file, and what the links to RabbitMQ will make of it. Printing needs no secret. */
static int load(const struct arguments *a, struct conf *c)
{
    struct conf_errors errors = {0};
    int r = conf_load_file(a->conf_path, a->sets, a->n_sets, c, &errors);
    if (r == 0) {
        int uris = check_uris(c, &errors);
        int upstream = check_upstream(c, &errors);
        int secret = a->action != PRINT_CONFIG ? check_password_file(c, &errors) : 0;
        r = uris < 0 ? uris : upstream < 0 ? upstream : secret;
        if (r < 0)
            conf_fini(c);
    }
    for (size_t i = 0; i < errors.n && i < CONF_MAX_ERRORS; i++)
        fprintf(stderr, "%s\n", errors.line[i]);
    if (errors.n > CONF_MAX_ERRORS)
        fprintf(stderr, "... and %zu more errors\n", errors.n - CONF_MAX_ERRORS);
    return r;
}

static int run(const struct arguments *a, struct conf *c)
{
    struct err err = {0};
    struct daemon_options options = {
        .conf_path = a->conf_path, .sets = a->sets, .n_sets = a->n_sets};
    struct daemon *d = daemon_new(&options, c, &err);
    if (d == NULL) {
        fprintf(stderr, "harbingerd: %s\n", err.msg);
        return err.code == ERR_CONFIG ? EXIT_USAGE : EXIT_FAILURE;
    }
    int r = daemon_run(d);
    daemon_free(d);
    if (r == 0)
        return EXIT_SUCCESS;
    return r == ERR_CONFIG ? EXIT_USAGE : EXIT_FAILURE;
}

static int with_configuration(const struct arguments *a)
{
    struct conf c;
    if (load(a, &c) < 0)
        return EXIT_USAGE;
    if (a->action == RUN)
        return run(a, &c);
    int status = a->action == PRINT_CONFIG ? print_made(conf_print, &c) : EXIT_SUCCESS;
    if (a->action == CHECK)
        printf("%s: ok\n", a->conf_path != NULL ? a->conf_path : "built-in defaults");
    conf_fini(&c);
    return status;
}

int main(int argc, char **argv)
{
    struct arguments a = parse(argc, argv);
    switch (a.action) {
    case USAGE: fputs(usage, stderr); return EXIT_USAGE;
    case VERSION: puts("harbingerd " HARBINGER_VERSION); return EXIT_SUCCESS;
    case PRINT_DEFAULTS: return print_defaults(conf_print);
    case HELP:
        fputs(usage, stdout);
        fputs(help, stdout);
        return print_defaults(conf_doc_help);
    case RUN:
    case CHECK:
    case PRINT_CONFIG: break;
    }
    return with_configuration(&a);
}
