/*
 * faultproxy HOST PORT: relays TCP connections and does to them what networks do.
 *
 * Listens on a free loopback port and prints "port N". Then each line on standard input is a
 * command, answered by one line: "ok", or "error: ..." with nothing changed. The program ends with
 * its input.
 *
 *   hold WHO DIR          neither reads nor writes: what comes waits in the kernel
 *   drop WHO DIR          reads and throws away
 *   resume WHO DIR        relays again, from here on
 *   hole WHO              drops both ways and hides every close: a silent black hole
 *   cut WHO DIR N HOW     relays N more bytes, then closes both sides
 *   rate WHO DIR N        at most N bytes a second (0: no limit)
 *   delay WHO DIR MS      each piece waits that long
 *   close WHO HOW         closes both sides now
 *   refuse on|off         new connections are closed at once
 *   list                  "ok", then ID:PORT:UP:DOWN for each connection, PORT being our end's
 *                         towards the target, UP and DOWN the bytes relayed so far
 *
 * WHO is a connection's number (1 is the first accepted) or `all`, which means later ones too. DIR
 * is up (to the target), down or both. HOW is rst or fin.
 */
#include "base/list.h"
#include "base/mono.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { UP, DOWN, BOTH };
enum mode { RELAY, HOLD, DROP };

#define PIECE_BYTES     16384u
#define QUEUE_BYTES     (256u * 1024) /* per direction; beyond it the sender waits */
#define MAX_CONNECTIONS 64
#define NO_CUT          UINT64_MAX
#define RATE_TICK       (10 * MONO_MS)

struct rules {
    enum mode mode;
    uint64_t rate; /* bytes a second, 0 = no limit */
    mono_t delay_for;
    uint64_t cut_after; /* bytes still to relay, or NO_CUT */
    bool cut_rst;
};

struct piece {
    struct list node;
    mono_t due_at;
    size_t n, used;
    char data[PIECE_BYTES];
};

struct flow {
    struct rules rules;
    int from, to;
    struct list pieces;
    size_t queued;
    bool eof;      /* `from` has closed */
    bool eof_sent; /* and `to` was told */
    uint64_t n_relayed;
    uint64_t credit; /* bytes that the rate allows now */
    mono_t credited_at;
};

struct connection {
    struct list node;
    uint64_t id;
    unsigned port; /* of our end towards the target */
    bool hidden;   /* a black hole: a close is not passed on */
    bool doomed, doomed_rst;
    struct flow flow[2];
};

struct proxy {
    int listener;
    struct sockaddr_in target;
    struct list connections;
    int n_connections;
    uint64_t n_accepted;
    bool refuse;
    struct rules rules[2]; /* for new connections */
    char line[256];        /* of standard input, as far as it has come */
    size_t n_line;
};

static const struct rules plain = {.cut_after = NO_CUT};

static mono_t clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * MONO_S + t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "faultproxy: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* --- connections --- */

static void flow_init(struct flow *f, const struct rules *rules, int from, int to)
{
    *f = (struct flow){.rules = *rules, .from = from, .to = to};
    list_init(&f->pieces);
}

static void flow_clear(struct flow *f)
{
    struct list *node;
    while ((node = list_first(&f->pieces)) != NULL) {
        list_remove(node);
        free(LIST_ENTRY(node, struct piece, node));
    }
    f->queued = 0;
}

static void connection_close(struct proxy *p, struct connection *c)
{
    int fds[] = {c->flow[UP].from, c->flow[UP].to};
    for (int i = 0; i < 2; i++) {
        struct linger now = {.l_onoff = 1, .l_linger = 0}; /* close sends RST */
        if (c->doomed_rst)
            setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(fds[i]);
        flow_clear(&c->flow[i]);
    }
    list_remove(&c->node);
    free(c);
    p->n_connections--;
}

static void doom(struct connection *c, bool rst)
{
    c->doomed = true;
    c->doomed_rst = rst;
}

static void connection_open(struct proxy *p, int client)
{
    int one = 1, target = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct connection *c = calloc(1, sizeof *c);
    if (target < 0 || c == NULL)
        die("a new connection");
    if (p->refuse || p->n_connections == MAX_CONNECTIONS ||
        connect(target, (struct sockaddr *)&p->target, sizeof p->target) != 0) {
        close(client);
        close(target);
        free(c);
        return;
    }
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    getsockname(target, (struct sockaddr *)&own, &size);
    fcntl(target, F_SETFL, O_NONBLOCK);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(target, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->id = ++p->n_accepted;
    c->port = ntohs(own.sin_port);
    flow_init(&c->flow[UP], &p->rules[UP], client, target);
    flow_init(&c->flow[DOWN], &p->rules[DOWN], target, client);
    list_push_back(&p->connections, &c->node);
    p->n_connections++;
}

/* --- relaying --- */

static bool wants_read(const struct flow *f)
{
    return !f->eof && f->rules.mode != HOLD && f->queued < QUEUE_BYTES;
}

static struct piece *due_piece(struct flow *f, mono_t now)
{
    struct list *node = list_first(&f->pieces);
    struct piece *piece = node ? LIST_ENTRY(node, struct piece, node) : NULL;
    return piece && piece->due_at <= now && f->rules.mode == RELAY ? piece : NULL;
}

static bool wants_write(struct flow *f, mono_t now)
{
    return due_piece(f, now) != NULL && (f->rules.rate == 0 || f->credit > 0);
}

static void add_credit(struct flow *f, mono_t now)
{
    uint64_t earned = (uint64_t)(now - f->credited_at) * f->rules.rate / (uint64_t)MONO_S;
    if (f->credited_at == 0) {
        f->credited_at = now;
    } else if (earned > 0) {
        f->credit = earned < f->rules.rate ? earned : f->rules.rate; /* no saving up */
        f->credited_at = now;
    }
}

static void flow_read(struct connection *c, struct flow *f, mono_t now)
{
    struct piece *piece = malloc(sizeof *piece);
    if (piece == NULL)
        die("a piece");
    ssize_t n = recv(f->from, piece->data, sizeof piece->data, MSG_DONTWAIT);
    if (n > 0 && f->rules.mode == RELAY) {
        piece->n = (size_t)n;
        piece->used = 0;
        piece->due_at = mono_add(now, f->rules.delay_for);
        list_push_back(&f->pieces, &piece->node);
        f->queued += piece->n;
        return;
    }
    free(piece);
    if (n == 0)
        f->eof = true;
    else if (n < 0 && errno != EAGAIN && errno != EINTR && c->hidden)
        f->eof = true;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        doom(c, true); /* a reset is passed on as one */
}

static void flow_write(struct connection *c, struct flow *f, mono_t now)
{
    struct piece *piece = due_piece(f, now);
    if (piece == NULL)
        return;
    size_t n = piece->n - piece->used;
    if (f->rules.rate != 0 && n > f->credit)
        n = f->credit;
    if (n > f->rules.cut_after)
        n = f->rules.cut_after;
    ssize_t sent = send(f->to, piece->data + piece->used, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR)
            doom(c, true);
        return;
    }
    piece->used += (size_t)sent;
    f->queued -= (size_t)sent;
    f->n_relayed += (size_t)sent;
    if (f->rules.rate != 0)
        f->credit -= (size_t)sent;
    if (f->rules.cut_after != NO_CUT) {
        f->rules.cut_after -= (size_t)sent;
        if (f->rules.cut_after == 0)
            doom(c, f->rules.cut_rst);
    }
    if (piece->used == piece->n) {
        list_remove(&piece->node);
        free(piece);
    }
}

static void flow_end(struct connection *c, struct flow *f)
{
    if (f->eof && !f->eof_sent && !c->hidden && f->queued == 0 && f->rules.mode != HOLD) {
        shutdown(f->to, SHUT_WR);
        f->eof_sent = true;
    }
}

/* --- commands --- */

static struct connection *next_of(struct proxy *p, struct connection *c)
{
    struct list *node = c ? c->node.next : p->connections.next;
    return node == &p->connections ? NULL : LIST_ENTRY(node, struct connection, node);
}

/* Sets one rule, by the command's name. */
static void rule_apply(struct rules *r, const char *name, uint64_t n, bool rst)
{
    if (strcmp(name, "cut") == 0) {
        r->cut_after = n;
        r->cut_rst = rst;
    } else if (strcmp(name, "rate") == 0) {
        r->rate = n;
    } else if (strcmp(name, "delay") == 0) {
        r->delay_for = (mono_t)n * MONO_MS;
    } else {
        r->mode = strcmp(name, "hold") == 0 ? HOLD : strcmp(name, "resume") == 0 ? RELAY : DROP;
    }
}

struct command {
    const char *name;
    uint64_t id; /* 0 = all */
    int dir;
    uint64_t n;
    bool rst;
};

static void connection_apply(struct connection *c, const struct command *cmd)
{
    if (strcmp(cmd->name, "close") == 0) {
        doom(c, cmd->rst);
        return;
    }
    if (strcmp(cmd->name, "hole") == 0)
        c->hidden = true;
    for (int d = UP; d <= DOWN; d++) {
        if (cmd->dir != BOTH && cmd->dir != d)
            continue;
        rule_apply(&c->flow[d].rules, cmd->name, cmd->n, cmd->rst);
        if (c->flow[d].rules.mode == DROP)
            flow_clear(&c->flow[d]);
    }
}

/* Returns false when no such connection exists. */
static bool command_apply(struct proxy *p, const struct command *cmd)
{
    bool found = cmd->id == 0;
    for (struct connection *c = next_of(p, NULL); c; c = next_of(p, c)) {
        if (cmd->id != 0 && cmd->id != c->id)
            continue;
        connection_apply(c, cmd);
        found = true;
    }
    for (int d = UP; d <= DOWN && cmd->id == 0 && strcmp(cmd->name, "close") != 0; d++)
        if (cmd->dir == BOTH || cmd->dir == d)
            rule_apply(&p->rules[d], cmd->name, cmd->n, cmd->rst);
    return found;
}

static bool parse_n(const char *word, uint64_t *out)
{
    return word != NULL && num_parse_u64(word, strlen(word), out) == 0 &&
           *out <= INT64_MAX / MONO_S;
}

static bool parse_how(const char *word, bool *rst)
{
    *rst = word != NULL && strcmp(word, "rst") == 0;
    return *rst || (word != NULL && strcmp(word, "fin") == 0);
}

/* Which words a command takes after WHO: d = DIR, n = a number, h = HOW. */
static const struct {
    const char *name, *words;
} grammar[] = {
    {"hold", "d"},  {"drop", "d"},  {"resume", "d"}, {"hole", ""},
    {"cut", "dnh"}, {"rate", "dn"}, {"delay", "dn"}, {"close", "h"},
};

static bool parse_word(struct command *cmd, char kind, const char *word)
{
    static const char *const dirs[] = {"up", "down", "both"};
    if (kind == 'n')
        return parse_n(word, &cmd->n);
    if (kind == 'h')
        return parse_how(word, &cmd->rst);
    for (cmd->dir = UP; cmd->dir <= BOTH; cmd->dir++)
        if (word != NULL && strcmp(word, dirs[cmd->dir]) == 0)
            return true;
    return false;
}

static bool parse(char *line, struct command *cmd)
{
    char *rest, *name = strtok_r(line, " ", &rest);
    for (size_t i = 0; name != NULL && i < ARRAY_SIZE(grammar); i++) {
        if (strcmp(name, grammar[i].name) != 0)
            continue;
        *cmd = (struct command){.name = grammar[i].name, .dir = BOTH};
        const char *who = strtok_r(NULL, " ", &rest);
        if (who == NULL || (strcmp(who, "all") != 0 && (!parse_n(who, &cmd->id) || cmd->id == 0)))
            return false;
        for (const char *kind = grammar[i].words; *kind; kind++)
            if (!parse_word(cmd, *kind, strtok_r(NULL, " ", &rest)))
                return false;
        return strtok_r(NULL, " ", &rest) == NULL;
    }
    return false;
}

static void print_list(struct proxy *p)
{
    printf("ok");
    for (struct connection *c = next_of(p, NULL); c; c = next_of(p, c))
        printf(" %llu:%u:%llu:%llu", (unsigned long long)c->id, c->port,
               (unsigned long long)c->flow[UP].n_relayed,
               (unsigned long long)c->flow[DOWN].n_relayed);
    printf("\n");
}

static void command(struct proxy *p, char *line)
{
    struct command cmd;
    if (strcmp(line, "list") == 0) {
        print_list(p);
    } else if (strcmp(line, "refuse on") == 0 || strcmp(line, "refuse off") == 0) {
        p->refuse = line[8] == 'n';
        puts("ok");
    } else if (!parse(line, &cmd)) {
        puts("error: not a command");
    } else {
        puts(command_apply(p, &cmd) ? "ok" : "error: no such connection");
    }
    fflush(stdout);
}

/* Returns false at the end of the input. */
static bool read_commands(struct proxy *p)
{
    ssize_t n = read(STDIN_FILENO, p->line + p->n_line, sizeof p->line - 1 - p->n_line);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    p->n_line += (size_t)n;
    char *end;
    while ((end = memchr(p->line, '\n', p->n_line)) != NULL) {
        *end = '\0';
        size_t used = (size_t)(end + 1 - p->line);
        command(p, p->line);
        memmove(p->line, p->line + used, p->n_line - used);
        p->n_line -= used;
    }
    return p->n_line < sizeof p->line - 1;
}

/* --- the loop --- */

static void watch(struct pollfd *slot, int fd, bool in, bool out)
{
    /* -1 where nothing is wanted: a hang-up would be reported all the same, and for ever. */
    slot->events = (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0));
    slot->fd = slot->events ? fd : -1;
    slot->revents = 0;
}

/* When the flow needs us without any socket event. */
static mono_t flow_deadline(struct flow *f, mono_t now)
{
    struct list *node = list_first(&f->pieces);
    if (node == NULL || f->rules.mode != RELAY)
        return MONO_NEVER;
    mono_t due_at = LIST_ENTRY(node, struct piece, node)->due_at;
    if (due_at > now)
        return due_at;
    return f->rules.rate != 0 && f->credit == 0 ? mono_add(now, RATE_TICK) : MONO_NEVER;
}

/* Fills the slots; returns their number and the earliest deadline. */
static nfds_t prepare(struct proxy *p, struct pollfd *slots, mono_t now, mono_t *deadline)
{
    nfds_t n = 2;
    watch(&slots[0], STDIN_FILENO, true, false);
    watch(&slots[1], p->listener, true, false);
    *deadline = MONO_NEVER;
    for (struct connection *c = next_of(p, NULL); c; c = next_of(p, c)) {
        struct flow *up = &c->flow[UP], *down = &c->flow[DOWN];
        for (int d = UP; d <= DOWN; d++) {
            if (c->flow[d].rules.rate != 0)
                add_credit(&c->flow[d], now);
            *deadline = mono_min(*deadline, flow_deadline(&c->flow[d], now));
        }
        watch(&slots[n++], up->from, wants_read(up), wants_write(down, now));
        watch(&slots[n++], up->to, wants_read(down), wants_write(up, now));
    }
    return n;
}

static void serve(struct connection *c, const struct pollfd *slots, mono_t now)
{
    for (int d = UP; d <= DOWN && !c->doomed; d++) {
        struct flow *f = &c->flow[d];
        if (slots[d].revents & (POLLIN | POLLHUP | POLLERR) && wants_read(f))
            flow_read(c, f, now);
        if (slots[!d].revents & (POLLOUT | POLLHUP | POLLERR) && wants_write(f, now) && !c->doomed)
            flow_write(c, f, now);
        flow_end(c, f);
    }
    if (c->flow[UP].eof_sent && c->flow[DOWN].eof_sent)
        doom(c, false);
}

static void turn(struct proxy *p, bool *running)
{
    struct pollfd slots[2 + 2 * MAX_CONNECTIONS];
    mono_t now = clock_now(), deadline;
    nfds_t n = prepare(p, slots, now, &deadline);
    mono_t wait_for = deadline - now;
    int timeout_ms = deadline == MONO_NEVER ? -1 : (int)(wait_for > 0 ? wait_for / MONO_MS + 1 : 0);
    if (poll(slots, n, timeout_ms) < 0 && errno != EINTR)
        die("poll");
    now = clock_now();
    const struct pollfd *slot = &slots[2];
    for (struct connection *c = next_of(p, NULL); c && slot < slots + n;
         c = next_of(p, c), slot += 2)
        serve(c, slot, now);
    if (slots[0].revents)
        *running = read_commands(p);
    for (struct connection *c = next_of(p, NULL), *next; c; c = next) {
        next = next_of(p, c);
        if (c->doomed)
            connection_close(p, c);
    }
    if (slots[1].revents & POLLIN) {
        int client = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client >= 0)
            connection_open(p, client);
    }
}

static unsigned listen_somewhere(struct proxy *p)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof own;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->listener < 0 || bind(p->listener, (struct sockaddr *)&own, sizeof own) != 0 ||
        listen(p->listener, 64) != 0 ||
        getsockname(p->listener, (struct sockaddr *)&own, &size) != 0)
        die("listen");
    return ntohs(own.sin_port);
}

int main(int argc, char **argv)
{
    struct proxy p = {.rules = {plain, plain}};
    uint64_t port;
    list_init(&p.connections);
    p.target.sin_family = AF_INET;
    if (argc != 3 || inet_pton(AF_INET, argv[1], &p.target.sin_addr) != 1 ||
        num_parse_u64(argv[2], strlen(argv[2]), &port) != 0 || port > UINT16_MAX) {
        fprintf(stderr, "usage: faultproxy IPV4-ADDRESS PORT\n");
        return 2;
    }
    p.target.sin_port = htons((uint16_t)port);
    printf("port %u\n", listen_somewhere(&p));
    fflush(stdout);
    for (bool running = true; running;)
        turn(&p, &running);
    while (!list_empty(&p.connections)) {
        struct connection *c = next_of(&p, NULL);
        connection_close(&p, c);
    }
    return 0;
}
