/* harbinger status: the levels, the totals, and the AMQP workers. */
#include "cli/cli.h"
#include "client/admin.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The totals, for both forms. */
#define TOTALS(X) \
    X(submitted)  \
    X(refused)    \
    X(acked)      \
    X(nacked) X(retried) X(leases_expired) X(ttl_expired) X(dropped_dead) X(learned) X(censored)

static json_t *client_json(const HarbingerRpc__AmqpClient *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:I, s:I, s:I}", "peer", c->peer, "user",
                     c->user, "product", c->product, "state", c->state, "channels",
                     (json_int_t)c->channels, "consumers", (json_int_t)c->consumers, "window",
                     c->window > 0 ? json_integer((json_int_t)c->window) : json_null(), "in_flight",
                     (json_int_t)c->in_flight, "delivered", (json_int_t)c->delivered, "held_bytes",
                     (json_int_t)c->held_bytes);
}

static int print_json(const HarbingerRpc__StatsResponse *s)
{
    json_t *levels = json_array(), *totals = json_object(), *clients = json_array();
    for (size_t i = 0; i < s->n_amqp_clients; i++)
        json_array_append_new(clients, client_json(s->amqp_clients[i]));
    for (size_t i = 0; i < s->n_levels; i++) {
        const HarbingerRpc__LevelStats *l = s->levels[i];
        json_array_append_new(levels,
                              json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "waiting",
                                        (json_int_t)l->waiting, "promoted", (json_int_t)l->promoted,
                                        "oldest_wait_ms", (json_int_t)l->oldest_wait_ms, "pulls",
                                        (json_int_t)l->pulls, "promotions",
                                        (json_int_t)l->promotions, "clock_ms", l->clock_ms,
                                        "charged_ms", l->charged_ms, "average_ms", l->average_ms));
    }
#define TOTAL_JSON(name) json_object_set_new(totals, #name, json_integer((json_int_t)s->name));
    TOTALS(TOTAL_JSON)
#undef TOTAL_JSON
    json_t *all =
        json_pack("{s:I, s:I, s:I, s:b, s:o, s:o, s:I, s:o}", "waiting", (json_int_t)s->waiting,
                  "in_flight", (json_int_t)s->in_flight, "dead", (json_int_t)s->dead, "draining",
                  (int)s->draining, "levels", levels, "totals", totals, "amqp_connections",
                  (json_int_t)s->amqp_connections, "amqp_clients", clients);
    int r = all != NULL ? json_dumpf(all, stdout, JSON_COMPACT) : -1;
    puts("");
    json_decref(all);
    return r == 0 ? CLI_OK : CLI_FAILED;
}

static void print_level(size_t number, const HarbingerRpc__LevelStats *l)
{
    char age[32] = "-";
    if (l->waiting > 0)
        cli_format_age(l->oldest_wait_ms, age);
    printf("%5zu %10" PRIu64 " %10" PRIu64 " %10s %12" PRIu64 " %10" PRIu64 " %12.1f\n", number,
           l->waiting, l->promoted, age, l->pulls, l->promotions, l->clock_ms);
}

/* What a client says of itself, in a column. */
static void print_text(size_t width, const char *text)
{
    size_t columns = cli_print_text(text, strlen(text), 63);
    printf("%*s", (int)(columns < width ? width - columns + 1 : 1), "");
}

static void print_client(const HarbingerRpc__AmqpClient *c)
{
    char window[16] = "-";
    if (c->window > 0)
        snprintf(window, sizeof window, "%" PRIu32, c->window);
    print_text(24, c->peer);
    print_text(12, c->user);
    print_text(16, c->product);
    print_text(10, c->state);
    printf("%9" PRIu32 " %7s %9" PRIu32 " %10" PRIu64 " %10" PRIu64 "\n", c->consumers, window,
           c->in_flight, c->delivered, c->held_bytes);
}

static void print_clients(const HarbingerRpc__StatsResponse *s)
{
    if (s->amqp_connections == 0)
        return;
    printf("\n%-24s %-12s %-16s %-10s %9s %7s %9s %10s %10s\n", "AMQP client", "user", "product",
           "state", "consumers", "window", "in flight", "delivered", "bytes held");
    for (size_t i = 0; i < s->n_amqp_clients; i++)
        print_client(s->amqp_clients[i]);
    if (s->amqp_connections > s->n_amqp_clients)
        printf("and %" PRIu64 " more\n", s->amqp_connections - s->n_amqp_clients);
}

static int print_table(const struct cli *c, const HarbingerRpc__StatsResponse *s)
{
    printf("%s: %" PRIu64 " waiting, %" PRIu64 " in flight, %" PRIu64 " dead%s\n\n",
           c->client.address, s->waiting, s->in_flight, s->dead, s->draining ? ", draining" : "");
    printf("%5s %10s %10s %10s %12s %10s %12s\n", "level", "waiting", "promoted", "oldest", "pulls",
           "promotions", "clock ms");
    for (size_t i = 0; i < s->n_levels; i++)
        print_level(i, s->levels[i]);
    puts("");
#define TOTAL_LINE(name) printf("%-16s %" PRIu64 "\n", #name, s->name);
    TOTALS(TOTAL_LINE)
#undef TOTAL_LINE
    print_clients(s);
    return CLI_OK;
}

static int print_once(struct cli *c)
{
    HarbingerRpc__StatsResponse *s;
    struct hb_rpc_error e;
    if (admin_stats(c->peer, &s, &e) != HB_RPC_OK)
        return cli_error(&e);
    if (c->watch_ms > 0 && !c->json && isatty(STDOUT_FILENO))
        fputs("\033[H\033[2J", stdout);
    int code = c->json ? print_json(s) : print_table(c, s);
    harbinger_rpc__stats_response__free_unpacked(s, NULL);
    return code;
}

int cli_status(struct cli *c)
{
    int code = print_once(c);
    while (c->watch_ms > 0 && code == CLI_OK && fflush(stdout) == 0) {
        peer_sleep(c->peer, c->watch_ms * MONO_MS);
        code = print_once(c);
    }
    return code;
}
