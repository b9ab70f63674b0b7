/* The link, consumer, publisher and topology against a live RabbitMQ: HARBINGER_TEST_AMQP is its
 * address, HARBINGER_TEST_NODE_DIR the node's folder; tests/lib/with-rabbit sets both. */
#include "amqp/consumer.h"
#include "amqp/link.h"
#include "amqp/publisher.h"
#include "amqp/topology.h"
#include "amqp/wire.h"
#include "base/err.h"
#include "lib/testmain.h"

#include <event2/event.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 5000 };

/* Everything that one test may hold; callbacks count. */
struct rig {
    struct event_base *base;
    struct link *link;
    struct consumer *consumer;
    struct publisher *publisher;
    struct topology *topology;

    int n_link_up, n_link_down, n_stopped, n_blocked;
    bool blocked;
    struct loss link_why;

    int n_consumer_up, n_consumer_down, n_deliveries;
    struct loss consumer_why;
    struct consumer_tag tags[MOST];
    bool redelivered[MOST];
    struct message *messages[MOST];

    int n_publisher_up, n_publisher_down;
    struct loss publisher_why;
    int n_confirmed, n_returned, n_nacked, n_lost;
    uint16_t return_code;
    uintptr_t returned;      /* the last one */
    uintptr_t settled[MOST]; /* cookies in the order of their callbacks */
    int n_settled;

    int n_reports;
    enum topology_result result;
    char problems[2000], notes[2000];
    char warnings[1024];

    int password_bytes;
    bool free_in_callback;
};

static void log_line(void *ctx, enum log_level level, const char *event, const char *fields)
{
    (void)ctx;
    fprintf(stderr, "# %s %s %s\n", log_level_name(level), event, fields);
}

static const struct log_sink sink = {.write = log_line, .level = LOG_INFO};

static const char *broker(void)
{
    const char *uri = getenv("HARBINGER_TEST_AMQP");
    ck_assert_ptr_nonnull(uri);
    return uri;
}

/* The loop runs until `what` holds, at most 20 s. */
static bool tick(struct rig *r)
{
    struct timeval tv = {0, 20000};
    event_base_loopexit(r->base, &tv);
    event_base_dispatch(r->base);
    return true;
}

#define WAIT_UNTIL(r, what)                                 \
    do {                                                    \
        int left_ = 1000;                                   \
        while (!(what) && left_-- > 0 && tick(r))           \
            ;                                               \
        ck_assert_msg((what), "waited in vain for " #what); \
    } while (0)

static void run_for(struct rig *r, int ms)
{
    for (; ms > 0; ms -= 20)
        tick(r);
}

/* rabbitmqctl; the loop stands still meanwhile, which is as good as a slow machine. */
static void ctl(const char *args)
{
    char command[600];
    const char *dir = getenv("HARBINGER_TEST_NODE_DIR");
    ck_assert_ptr_nonnull(dir);
    snprintf(command, sizeof command, "'%s/rabbit-node' ctl '%s' %s > /dev/null 2>&1", TEST_LIB,
             dir, args);
    int status = system(command);
    ck_assert_msg(status == 0, "%s: %d", command, status);
}

static pid_t broker_pid(void)
{
    char path[300];
    int pid = 0;
    snprintf(path, sizeof path, "%s/broker.pid", getenv("HARBINGER_TEST_NODE_DIR"));
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%d", &pid), 1);
    fclose(f);
    return pid;
}

/* Callbacks. */

static void on_link_up(void *ctx)
{
    ((struct rig *)ctx)->n_link_up++;
}

static void on_link_down(void *ctx, const struct loss *why)
{
    struct rig *r = ctx;
    r->n_link_down++;
    r->link_why = *why;
}

static void on_blocked(void *ctx, bool blocked, const char *reason)
{
    struct rig *r = ctx;
    (void)reason;
    r->blocked = blocked;
    r->n_blocked++;
}

static void on_stopped(void *ctx)
{
    ((struct rig *)ctx)->n_stopped++;
}

static void on_delivery(void *ctx, struct consumer_tag tag, bool redelivered, struct message *m)
{
    struct rig *r = ctx;
    ck_assert_int_lt(r->n_deliveries, MOST);
    r->tags[r->n_deliveries] = tag;
    r->redelivered[r->n_deliveries] = redelivered;
    r->messages[r->n_deliveries++] = m;
}

static void on_consumer_up(void *ctx)
{
    ((struct rig *)ctx)->n_consumer_up++;
}

static void on_consumer_down(void *ctx, const struct loss *why)
{
    struct rig *r = ctx;
    r->n_consumer_down++;
    r->consumer_why = *why;
    if (r->free_in_callback) {
        consumer_free(r->consumer);
        r->consumer = NULL;
    }
}

static void settled(struct rig *r, void *cookie)
{
    ck_assert_int_lt(r->n_settled, MOST);
    r->settled[r->n_settled++] = (uintptr_t)cookie;
}

static void on_confirmed(void *ctx, void *cookie)
{
    struct rig *r = ctx;
    r->n_confirmed++;
    settled(r, cookie);
}

static void on_returned(void *ctx, void *cookie, uint16_t code, struct text why)
{
    struct rig *r = ctx;
    (void)why;
    r->n_returned++;
    r->return_code = code;
    r->returned = (uintptr_t)cookie;
    settled(r, cookie);
}

static void on_nacked(void *ctx, void *cookie)
{
    struct rig *r = ctx;
    r->n_nacked++;
    settled(r, cookie);
}

static void on_lost(void *ctx, void *cookie, const struct loss *why)
{
    struct rig *r = ctx;
    (void)why;
    r->n_lost++;
    settled(r, cookie);
    if (r->free_in_callback) {
        publisher_free(r->publisher);
        consumer_free(r->consumer); /* the link goes last */
        r->publisher = NULL;
        r->consumer = NULL;
        link_free(r->link);
        r->link = NULL;
    }
}

static void on_publisher_up(void *ctx)
{
    ((struct rig *)ctx)->n_publisher_up++;
}

static void on_publisher_down(void *ctx, const struct loss *why)
{
    struct rig *r = ctx;
    r->n_publisher_down++;
    r->publisher_why = *why;
}

static void on_report(void *ctx, const struct topology_report *report)
{
    struct rig *r = ctx;
    r->n_reports++;
    r->result = report->result;
    snprintf(r->problems, sizeof r->problems, "%s", report->problems);
    snprintf(r->notes, sizeof r->notes, "%s", report->notes);
    snprintf(r->warnings, sizeof r->warnings, "%s", report->warnings);
    topology_free(r->topology);
    r->topology = NULL;
}

/* Making and ending. */

static int new_link(struct rig *r, const char *uri)
{
    struct link_options options = {
        .name = "test",
        .instance = "1",
        .uris = &uri,
        .n_uris = 1,
        .backoff_min_for = 20 * MONO_MS,
        .refused_backoff_for = 10 * MONO_S,
        .heartbeat_s = 2,
        .seed = 1,
        .on_up = on_link_up,
        .on_down = on_link_down,
        .on_blocked = on_blocked,
        .on_stopped = on_stopped,
        .ctx = r,
    };
    struct err e;
    return link_new(r->base, &sink, &options, &r->link, &e);
}

static struct rig *rig_new(void)
{
    struct rig *r = calloc(1, sizeof *r);
    ck_assert_ptr_nonnull(r);
    r->base = event_base_new();
    ck_assert_ptr_nonnull(r->base);
    return r;
}

static struct rig *rig_up(void)
{
    struct rig *r = rig_new();
    ck_assert_int_eq(new_link(r, broker()), 0);
    link_start(r->link);
    WAIT_UNTIL(r, r->n_link_up == 1);
    return r;
}

static void rig_free(struct rig *r)
{
    for (int i = 0; i < r->n_deliveries; i++)
        message_free(r->messages[i]);
    topology_free(r->topology);
    consumer_free(r->consumer);
    publisher_free(r->publisher);
    if (r->link != NULL) {
        link_stop(r->link);
        WAIT_UNTIL(r, r->n_stopped == 1);
        ck_assert(link_is_stopped(r->link));
    }
    link_free(r->link);
    event_base_free(r->base);
    free(r);
}

static void run_topology(struct rig *r, enum topology_mode mode, const struct topology_object *o,
                         size_t n)
{
    struct topology_job job = {
        .mode = mode, .objects = o, .n_objects = n, .done = on_report, .ctx = r};
    int before = r->n_reports;
    ck_assert_int_eq(topology_run(r->link, &job, &r->topology), 0);
    ck_assert_int_eq(r->n_reports, before);
    WAIT_UNTIL(r, r->n_reports == before + 1);
}

static void make_queue(struct rig *r, const char *name)
{
    struct topology_object o = {.kind = TOPOLOGY_QUEUE, .name = name};
    run_topology(r, TOPOLOGY_DECLARE, &o, 1);
    ck_assert_int_eq(r->result, TOPOLOGY_OK);
}

static void new_publisher(struct rig *r, uint32_t window, mono_t confirm_timeout_for)
{
    struct publisher_options options = {
        .name = "out",
        .window_messages = window,
        .window_bytes = 8 << 20,
        .backoff_min_for = 20 * MONO_MS,
        .confirm_timeout_for = confirm_timeout_for,
        .on_confirmed = on_confirmed,
        .on_returned = on_returned,
        .on_nacked = on_nacked,
        .on_lost = on_lost,
        .on_up = on_publisher_up,
        .on_down = on_publisher_down,
        .ctx = r,
    };
    ck_assert_int_eq(publisher_new(r->link, &options, &r->publisher), 0);
}

static void start_publisher(struct rig *r, uint32_t window)
{
    new_publisher(r, window, 5 * MONO_S);
    WAIT_UNTIL(r, r->n_publisher_up == 1);
}

static void start_consumer(struct rig *r, const char *queue, uint16_t prefetch)
{
    struct consumer_options options = {
        .queue = queue,
        .prefetch = prefetch,
        .backoff_min_for = 20 * MONO_MS,
        .on_delivery = on_delivery,
        .on_up = on_consumer_up,
        .on_down = on_consumer_down,
        .ctx = r,
    };
    ck_assert_int_eq(consumer_new(r->link, &options, &r->consumer), 0);
    WAIT_UNTIL(r, r->n_consumer_up == 1);
}

static const char plain_props[] = "\x10\0\2"; /* delivery mode 2 */

static int try_publish(struct rig *r, const char *queue, struct text props, uintptr_t cookie)
{
    struct publish p = {.exchange = text_of(""),
                        .routing_key = text_of(queue),
                        .props = props,
                        .body = text_of("hello"),
                        .cookie = (void *)cookie};
    return publisher_publish(r->publisher, &p);
}

static void publish(struct rig *r, const char *queue, uintptr_t cookie)
{
    ck_assert_int_eq(try_publish(r, queue, (struct text){plain_props, 3}, cookie), 0);
}

/* The tests. */

/* It logs in, keeps up over several heartbeats, and stops politely. */
START_TEST(a_link_comes_up_stays_up_and_stops)
{
    struct rig *r = rig_up();
    ck_assert_str_eq(link_state_name(r->link), "up");
    ck_assert(!link_is_stopped(r->link));
    ck_assert_ptr_null(strstr(link_peer(r->link), "guest:"));
    struct link_stats before, after;
    link_stats(r->link, &before);
    run_for(r, 6500);
    link_stats(r->link, &after);
    ck_assert_int_eq(r->n_link_down, 0);
    ck_assert_uint_ge(after.bytes_in - before.bytes_in, 8 * 3);
    ck_assert_uint_ge(after.bytes_out - before.bytes_out, 8 * 3);
    rig_free(r);
}
END_TEST

/* A wrong password and a missing virtual host are refusals: said in the broker's words, tried again
 * after long. */
START_TEST(refusals_say_why_and_wait)
{
    const char *at = strchr(broker(), '@');
    char uri[200];
    for (int i = 0; i < 2; i++) {
        struct rig *r = rig_new();
        snprintf(uri, sizeof uri,
                 i == 0 ? "amqp://guest:wrong%s" : "amqp://guest:guest%.16snowhere", at);
        if (i == 1) {
            snprintf(uri, sizeof uri, "amqp://guest:guest%s", at);
            strcpy(strrchr(uri, '/'), "/nowhere");
        }
        ck_assert_int_eq(new_link(r, uri), 0);
        link_start(r->link);
        WAIT_UNTIL(r, r->n_link_down == 1);
        ck_assert_int_eq(r->link_why.kind, LOSS_ACCESS);
        ck_assert_int_eq(r->link_why.code, i == 0 ? 403 : 530);
        run_for(r, 1000);
        ck_assert_int_eq(r->n_link_down, 1);
        ck_assert_str_eq(link_state_name(r->link), "waiting");
        rig_free(r);
    }
}
END_TEST

static int fixed_password(void *ctx, struct buf *out)
{
    struct rig *r = ctx;
    for (int i = 0; i < r->password_bytes; i++)
        if (buf_append(out, "p", 1) < 0)
            return ERR_NOMEM;
    return buf_append(out, "", 1);
}

/* A long password is sent whole (RabbitMQ then refuses a wrong one); one over the limit is refused
 * here, in words. */
START_TEST(a_password_is_never_cut)
{
    for (int more = 0; more < 2; more++) {
        struct rig *r = rig_new();
        const char *uri = broker();
        struct link_options options = {
            .name = "test",
            .uris = &uri,
            .n_uris = 1,
            .password = fixed_password,
            .on_down = on_link_down,
            .on_stopped = on_stopped,
            .ctx = r,
        };
        struct err e;
        r->password_bytes = 3072 + more;
        ck_assert_int_eq(link_new(r->base, &sink, &options, &r->link, &e), 0);
        link_start(r->link);
        WAIT_UNTIL(r, r->n_link_down == 1);
        ck_assert_int_eq(r->link_why.kind, LOSS_ACCESS);
        ck_assert_int_eq(r->link_why.code, more ? 0 : 403);
        ck_assert_int_eq(strstr(r->link_why.text, "3072 bytes") != NULL, more);
        rig_free(r);
    }
}
END_TEST

/* Nobody listens, the name does not exist, or the other side is mute: each is told, and the
 * failover list moves on. */
START_TEST(the_failover_list_is_walked)
{
    struct rig *r = rig_new();
    const char *uris[] = {"amqp://127.0.0.1:1", "amqp://no-such-host.invalid", broker()};
    struct link_options options = {
        .name = "test",
        .uris = uris,
        .n_uris = 3,
        .backoff_min_for = 20 * MONO_MS,
        .connect_timeout_for = 2 * MONO_S,
        .on_up = on_link_up,
        .on_down = on_link_down,
        .on_stopped = on_stopped,
        .ctx = r,
    };
    struct err e;
    ck_assert_int_eq(link_new(r->base, &sink, &options, &r->link, &e), 0);
    link_start(r->link);
    WAIT_UNTIL(r, r->n_link_up == 1);
    ck_assert_int_eq(r->n_link_down, 2);
    rig_free(r);
}
END_TEST

/* A listening socket on a port of its own; the kernel accepts, nobody answers. */
static int mute_server(char *uri, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, n), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    snprintf(uri, size, "amqp://127.0.0.1:%u?connection_timeout=300", ntohs(a.sin_port));
    return fd;
}

/* One limit over the whole handshake: a peer that accepts and says nothing is given up; stopping
 * meanwhile is at once. */
START_TEST(a_mute_peer_is_given_up)
{
    struct rig *r = rig_new();
    char uri[100];
    int fd = mute_server(uri, sizeof uri);
    ck_assert_int_eq(new_link(r, uri), 0);
    link_start(r->link);
    WAIT_UNTIL(r, r->n_link_down >= 1);
    ck_assert_int_eq(r->link_why.kind, LOSS_TIMEOUT);
    WAIT_UNTIL(r, strcmp(link_state_name(r->link), "connecting") == 0);
    rig_free(r);
    close(fd);
}
END_TEST

/* Who answers in another protocol is not believed. */
START_TEST(another_protocol_is_refused)
{
    struct rig *r = rig_new();
    char uri[100];
    int fd = mute_server(uri, sizeof uri);
    ck_assert_int_eq(new_link(r, uri), 0);
    link_start(r->link);
    WAIT_UNTIL(r, strcmp(link_state_name(r->link), "connecting") == 0);
    int peer = accept(fd, NULL, NULL);
    ck_assert_int_ge(peer, 0);
    ck_assert_int_eq(write(peer, "HTTP/1.1 400 Bad\r\n", 18), 18);
    WAIT_UNTIL(r, r->n_link_down >= 1);
    ck_assert_int_eq(r->link_why.kind, LOSS_PROTOCOL);
    close(peer);
    close(fd);
    rig_free(r);
}
END_TEST

/* A frozen broker is noticed by its missing heartbeats; awake, it is found again, and what was
 * unconfirmed was reported lost. */
START_TEST(a_frozen_broker_is_noticed)
{
    struct rig *r = rig_up();
    make_queue(r, "t.frozen");
    start_publisher(r, 50);
    pid_t pid = broker_pid();
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    publish(r, "t.frozen", 1);
    WAIT_UNTIL(r, r->n_link_down == 1);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    ck_assert_int_eq(r->link_why.kind, LOSS_HEARTBEAT);
    ck_assert_int_eq(r->n_lost, 1);
    ck_assert_int_eq(try_publish(r, "t.frozen", (struct text){plain_props, 3}, 2), PUBLISHER_DOWN);
    WAIT_UNTIL(r, r->n_publisher_up == 2);
    publish(r, "t.frozen", 2);
    WAIT_UNTIL(r, r->n_confirmed == 1);
    rig_free(r);
}
END_TEST

/* An opening that gets no answer is given up and tried again; the connection may live on. */
START_TEST(an_unanswered_opening_is_tried_again)
{
    struct rig *r = rig_up();
    pid_t pid = broker_pid();
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    new_publisher(r, 50, 200 * MONO_MS);
    WAIT_UNTIL(r, r->n_publisher_down == 1);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    ck_assert_int_eq(r->publisher_why.kind, LOSS_TIMEOUT);
    WAIT_UNTIL(r, r->n_publisher_up == 1);
    ck_assert_int_eq(r->n_link_down, 0);
    rig_free(r);
}
END_TEST

/* A host's name is resolved without blocking. */
START_TEST(localhost_is_found)
{
    struct rig *r = rig_new();
    char uri[200];
    snprintf(uri, sizeof uri, "amqp://guest:guest@localhost%s", strrchr(broker(), ':'));
    ck_assert_int_eq(new_link(r, uri), 0);
    link_start(r->link);
    WAIT_UNTIL(r, r->n_link_up == 1);
    rig_free(r);
}
END_TEST

/* Stopped while the name is being looked up: the resolver's late answer meets nobody. (What it must
 * not touch is freed memory, which a memory checker sees.) */
START_TEST(stopping_while_resolving_is_safe)
{
    struct rig *r = rig_new();
    ck_assert_int_eq(new_link(r, "amqp://no-such-host.invalid"), 0);
    for (int i = 0; i < 3; i++) {
        link_start(r->link);
        while (strcmp(link_state_name(r->link), "connecting") != 0)
            event_base_loop(r->base, EVLOOP_ONCE);
        event_base_loop(r->base, EVLOOP_ONCE);
        link_stop(r->link);
        ck_assert(!link_is_stopped(r->link));
        WAIT_UNTIL(r, r->n_stopped == i + 1);
        run_for(r, 100);
    }
    r->n_stopped = 0;
    rig_free(r);
}
END_TEST

/* Many publishes through a small window are each confirmed once, and come out of the queue as they
 * went in. */
START_TEST(what_is_confirmed_is_delivered)
{
    struct rig *r = rig_up();
    make_queue(r, "t.flow");
    start_publisher(r, 50);
    int sent = 0;
    while (sent < 1000) {
        int p = try_publish(r, "t.flow", (struct text){plain_props, 3}, (uintptr_t)sent);
        if (p == 0)
            sent++;
        else
            tick(r);
        ck_assert(p == 0 || p == PUBLISHER_FULL);
    }
    WAIT_UNTIL(r, r->n_confirmed == 1000);
    ck_assert_uint_eq(publisher_pending(r->publisher), 0);

    start_consumer(r, "t.flow", 100);
    for (int done = 0; done < 1000;) {
        WAIT_UNTIL(r, r->n_deliveries > done);
        for (; done < r->n_deliveries; done++)
            ck_assert_int_eq(consumer_ack(r->consumer, r->tags[done]), 0);
    }
    ck_assert(text_equal(r->messages[999]->body, text_of("hello")));
    ck_assert_int_eq(props_number(&r->messages[999]->props, PROP_DELIVERY_MODE), 2);
    ck_assert_int_eq(consumer_ack(r->consumer, r->tags[5]), CONSUMER_STALE);
    run_for(r, 100);
    struct topology_object o = {.kind = TOPOLOGY_QUEUE, .name = "t.flow"};
    run_topology(r, TOPOLOGY_CHECK, &o, 1);
    ck_assert_int_eq(r->n_consumer_down, 0);
    rig_free(r);
}
END_TEST

/* Acks that are still gathered when the link is stopped are sent before it closes. */
START_TEST(stopping_sends_the_gathered_acks)
{
    struct rig *r = rig_up();
    make_queue(r, "t.stop");
    start_publisher(r, 50);
    start_consumer(r, "t.stop", 400);
    for (uintptr_t i = 0; i < 20; i++)
        publish(r, "t.stop", i);
    WAIT_UNTIL(r, r->n_deliveries == 20 && r->n_confirmed == 20);
    for (int i = 0; i < 19; i++)
        ck_assert_int_eq(consumer_ack(r->consumer, r->tags[i]), 0);
    link_stop(r->link);
    WAIT_UNTIL(r, r->n_stopped == 1);
    link_start(r->link);
    WAIT_UNTIL(r, r->n_deliveries == 21);
    ck_assert(r->redelivered[20]);
    run_for(r, 200);
    ck_assert_int_eq(r->n_deliveries, 21);
    r->n_stopped = 0;
    rig_free(r);
}
END_TEST

/* No queue: the return is told in place of the confirm, for the right one of several. */
START_TEST(returns_name_the_right_publish)
{
    struct rig *r = rig_up();
    make_queue(r, "t.there");
    start_publisher(r, 50);
    for (uintptr_t i = 0; i < 20; i++)
        publish(r, i % 5 == 3 ? "t.not-there" : "t.there", i);
    WAIT_UNTIL(r, r->n_settled == 20);
    ck_assert_int_eq(r->n_returned, 4);
    ck_assert_int_eq(r->n_confirmed, 16);
    ck_assert_int_eq(r->return_code, 312);
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < i; j++)
            ck_assert_uint_ne(r->settled[i], r->settled[j]);
    run_for(r, 100);
    ck_assert_int_eq(r->n_settled, 20);
    rig_free(r);
}
END_TEST

/* With a token in x-harbinger-id equal bodies are told apart. */
START_TEST(returns_are_matched_by_token)
{
    struct rig *r = rig_up();
    start_publisher(r, 50);
    struct props none = {0};
    for (uintptr_t i = 0; i < 10; i++) {
        struct buf props = {0};
        char id[8];
        snprintf(id, sizeof id, "id-%d", (int)i);
        struct header h = header_text("x-harbinger-id", text_of(id));
        struct props_edit edit = {.priority = 1, .add = &h, .n_add = 1};
        ck_assert_int_eq(props_edit(&none, &edit, &props), 0);
        struct publish p = {.exchange = text_of(""),
                            .routing_key = text_of("t.not-there"),
                            .props = {props.p, props.n},
                            .body = text_of("same"),
                            .token = text_of(id),
                            .cookie = (void *)i};
        ck_assert_int_eq(publisher_publish(r->publisher, &p), 0);
        buf_fini(&props);
    }
    WAIT_UNTIL(r, r->n_settled == 10);
    ck_assert_int_eq(r->n_returned, 10);
    for (uintptr_t i = 0; i < 10; i++)
        ck_assert_uint_eq(r->settled[i], i);
    rig_free(r);
}
END_TEST

/* A foreign x-harbinger-id that repeats one of ours does not take the return for it. */
START_TEST(a_foreign_token_takes_no_other_return)
{
    struct rig *r = rig_up();
    make_queue(r, "t.token");
    start_publisher(r, 50);
    struct props none = {0};
    struct buf props = {0};
    struct header h = header_text("x-harbinger-id", text_of("id"));
    struct props_edit edit = {.priority = 1, .add = &h, .n_add = 1};
    ck_assert_int_eq(props_edit(&none, &edit, &props), 0);
    struct publish p = {.exchange = text_of(""),
                        .routing_key = text_of("t.token"),
                        .props = {props.p, props.n},
                        .body = text_of("ours"),
                        .token = text_of("id"),
                        .cookie = (void *)1};
    ck_assert_int_eq(publisher_publish(r->publisher, &p), 0);
    p.routing_key = text_of("t.not-there");
    p.token = (struct text){0};
    p.cookie = (void *)2;
    ck_assert_int_eq(publisher_publish(r->publisher, &p), 0);
    WAIT_UNTIL(r, r->n_settled == 2);
    ck_assert_int_eq(r->n_returned, 1);
    ck_assert_uint_eq(r->returned, 2);
    buf_fini(&props);
    rig_free(r);
}
END_TEST

/* A full queue with reject-publish nacks what does not fit. */
START_TEST(a_full_queue_nacks)
{
    struct rig *r = rig_up();
    const struct topology_arg args[] = {{.name = "x-max-length", .number = 5},
                                        {.name = "x-overflow", .text = "reject-publish"}};
    struct topology_object o = {
        .kind = TOPOLOGY_QUEUE, .name = "t.small", .args = args, .n_args = 2};
    run_topology(r, TOPOLOGY_DECLARE, &o, 1);
    start_publisher(r, 50);
    for (uintptr_t i = 0; i < 10; i++) {
        publish(r, "t.small", i);
        WAIT_UNTIL(r, r->n_settled == (int)i + 1);
    }
    ck_assert_int_ge(r->n_nacked, 4);
    ck_assert_int_eq(r->n_nacked + r->n_confirmed, 10);
    rig_free(r);
}
END_TEST

/* A missing exchange costs the channel: everything under way is lost in order, and the publisher
 * comes back. */
START_TEST(a_missing_exchange_costs_the_channel_only)
{
    struct rig *r = rig_up();
    start_publisher(r, 50);
    for (uintptr_t i = 0; i < 3; i++) {
        struct publish p = {.exchange = text_of("t.no-exchange"),
                            .routing_key = text_of("k"),
                            .props = {plain_props, 3},
                            .body = text_of("x"),
                            .cookie = (void *)i};
        ck_assert_int_eq(publisher_publish(r->publisher, &p), 0);
    }
    WAIT_UNTIL(r, r->n_publisher_down == 1);
    ck_assert_int_eq(r->publisher_why.kind, LOSS_CHANNEL);
    ck_assert_int_eq(r->publisher_why.code, 404);
    ck_assert_int_eq(r->n_lost, 3);
    for (uintptr_t i = 0; i < 3; i++)
        ck_assert_uint_eq(r->settled[i], i);
    WAIT_UNTIL(r, r->n_publisher_up == 2);
    ck_assert_int_eq(r->n_link_down, 0);
    rig_free(r);
}
END_TEST

/* Our channel.close and the broker's cross: both are answered, and the connection lives on. */
START_TEST(crossing_closes_cost_the_channel_only)
{
    struct rig *r = rig_up();
    start_publisher(r, 50);
    for (int i = 0; i < 2; i++) {
        struct publish p = {.exchange = text_of("t.no-exchange"),
                            .routing_key = text_of("k"),
                            .props = {plain_props, 3},
                            .body = text_of("x")};
        ck_assert_int_eq(publisher_publish(r->publisher, &p), 0);
        publisher_free(r->publisher);
        r->n_publisher_up = 0;
        start_publisher(r, 50);
    }
    run_for(r, 200);
    ck_assert_int_eq(r->n_link_down, 0);
    rig_free(r);
}
END_TEST

/* A forced close is an ordinary loss: link, consumer and publisher come back, old tags are stale,
 * what was unsettled comes again. */
START_TEST(a_forced_close_is_survived)
{
    struct rig *r = rig_up();
    make_queue(r, "t.forced");
    start_publisher(r, 50);
    start_consumer(r, "t.forced", 10);
    publish(r, "t.forced", 1);
    WAIT_UNTIL(r, r->n_confirmed == 1 && r->n_deliveries == 1);
    ctl("close_all_connections bye");
    WAIT_UNTIL(r, r->n_consumer_up == 2 && r->n_publisher_up == 2 && r->n_deliveries == 2);
    ck_assert_int_eq(r->link_why.kind, LOSS_CONNECTION);
    ck_assert_int_eq(r->link_why.code, 320);
    ck_assert(!loss_is_refusal(&r->link_why));
    ck_assert_int_eq(r->n_link_up, 2);
    ck_assert_int_eq(consumer_ack(r->consumer, r->tags[0]), CONSUMER_STALE);
    ck_assert(r->redelivered[1]);
    ck_assert_int_eq(consumer_ack(r->consumer, r->tags[1]), 0);
    run_for(r, 200);
    ck_assert_int_eq(r->n_consumer_down, 1);
    rig_free(r);
}
END_TEST

/* A deleted queue cancels the consumer, which says so once and comes back when the queue does. */
START_TEST(a_deleted_queue_is_seen_and_awaited)
{
    struct rig *r = rig_up();
    make_queue(r, "t.deleted");
    start_consumer(r, "t.deleted", 10);
    ctl("delete_queue t.deleted");
    WAIT_UNTIL(r, r->n_consumer_down == 1);
    ck_assert_int_eq(r->consumer_why.kind, LOSS_CANCEL);
    run_for(r, 300);
    ck_assert_int_eq(r->n_consumer_down, 1);
    make_queue(r, "t.deleted");
    WAIT_UNTIL(r, r->n_consumer_up == 2);
    ck_assert_int_eq(r->n_link_down, 0);
    rig_free(r);
}
END_TEST

/* Paused, nothing comes, and what is held can still be settled; resumed, it goes on. */
START_TEST(a_paused_consumer_keeps_what_it_holds)
{
    struct rig *r = rig_up();
    make_queue(r, "t.paused");
    start_publisher(r, 50);
    start_consumer(r, "t.paused", 2);
    for (uintptr_t i = 0; i < 6; i++)
        publish(r, "t.paused", i);
    WAIT_UNTIL(r, r->n_deliveries == 2);
    consumer_pause(r->consumer);
    WAIT_UNTIL(r, strcmp(consumer_state_name(r->consumer), "paused") == 0);
    ck_assert_int_eq(consumer_ack(r->consumer, r->tags[0]), 0);
    ck_assert_int_eq(consumer_nack(r->consumer, r->tags[1], true), 0);
    run_for(r, 200);
    ck_assert_int_eq(r->n_deliveries, 2);
    consumer_resume(r->consumer);
    WAIT_UNTIL(r, r->n_deliveries == 4);
    ck_assert_int_eq(r->n_consumer_down, 0);
    for (int i = 2; i < 7; i++) {
        WAIT_UNTIL(r, r->n_deliveries > i);
        ck_assert_int_eq(consumer_ack(r->consumer, r->tags[i]), 0);
    }
    rig_free(r);
}
END_TEST

/* Another prefetch holds from the next basic.consume on: after a resume, and after a loss. */
START_TEST(prefetch_changes_with_the_next_consume)
{
    struct rig *r = rig_up();
    make_queue(r, "t.prefetch");
    start_publisher(r, 50);
    start_consumer(r, "t.prefetch", 8);
    consumer_set_prefetch(r->consumer, 3);
    for (uintptr_t i = 0; i < 20; i++)
        publish(r, "t.prefetch", i);
    WAIT_UNTIL(r, r->n_deliveries == 8);
    consumer_pause(r->consumer);
    WAIT_UNTIL(r, strcmp(consumer_state_name(r->consumer), "paused") == 0);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(consumer_ack(r->consumer, r->tags[i]), 0);
    consumer_resume(r->consumer);
    WAIT_UNTIL(r, r->n_deliveries == 11);
    run_for(r, 200);
    ck_assert_int_eq(r->n_deliveries, 11);
    consumer_set_prefetch(r->consumer, 5);
    struct loss why = {.kind = LOSS_CLOSED};
    link_abort(r->link, &why);
    WAIT_UNTIL(r, r->n_deliveries == 16);
    run_for(r, 200);
    ck_assert_int_eq(r->n_deliveries, 16);
    rig_free(r);
}
END_TEST

/* During an alarm the publishing link hears of it, loses nothing, and goes on after. */
START_TEST(an_alarm_blocks_and_unblocks)
{
    struct rig *r = rig_up();
    make_queue(r, "t.alarm");
    start_publisher(r, 50);
    ctl("set_vm_memory_high_watermark 0.00001");
    publish(r, "t.alarm", 1);
    WAIT_UNTIL(r, r->blocked);
    ck_assert(link_is_blocked(r->link));
    run_for(r, 6000); /* heartbeats and the confirm timeout pass */
    ck_assert_int_eq(r->n_link_down, 0);
    ck_assert_int_eq(r->n_confirmed, 0);
    ctl("set_vm_memory_high_watermark 0.4");
    WAIT_UNTIL(r, !r->blocked && r->n_confirmed == 1);
    rig_free(r);
}
END_TEST

/* Arguments that nobody configured do not hide what matters: behind them the priority is still
 * compared, and a stream is refused where a queue of any kind is welcome. */
START_TEST(other_arguments_do_not_matter_and_hide_nothing)
{
    struct rig *r = rig_up();
    const struct topology_arg rich[] = {{.name = "x-max-priority", .number = 2},
                                        {.name = "x-dead-letter-exchange", .text = ""},
                                        {.name = "x-max-length", .number = 7}};
    const struct topology_arg stream[] = {{.name = "x-queue-type", .text = "stream"}};
    const struct topology_arg two[] = {{.name = "x-max-priority", .number = 2}};
    const struct topology_arg ten[] = {{.name = "x-max-priority", .number = 10}};
    struct topology_object made[] = {
        {.kind = TOPOLOGY_QUEUE, .name = "t.rich", .args = rich, .n_args = 3},
        {.kind = TOPOLOGY_QUEUE, .name = "t.stream", .args = stream, .n_args = 1},
    };
    struct topology_object asked = {
        .kind = TOPOLOGY_QUEUE, .name = "t.rich", .args = two, .n_args = 1};
    run_topology(r, TOPOLOGY_DECLARE, made, 2);
    ck_assert_int_eq(r->result, TOPOLOGY_OK);
    run_topology(r, TOPOLOGY_DECLARE, &asked, 1);
    ck_assert_str_eq(r->problems, "");
    asked.args = ten;
    run_topology(r, TOPOLOGY_DECLARE, &asked, 1);
    ck_assert_str_eq(r->problems, "queue 't.rich' exists with x-max-priority 2, configured 10\n");
    asked =
        (struct topology_object){.kind = TOPOLOGY_QUEUE, .name = "t.rich", .any_arguments = true};
    run_topology(r, TOPOLOGY_DECLARE, &asked, 1);
    ck_assert_str_eq(r->problems, "");
    asked.name = "t.stream";
    run_topology(r, TOPOLOGY_DECLARE, &asked, 1);
    ck_assert_str_eq(r->problems, "queue 't.stream' is a stream, where an ack means nothing and a "
                                  "restart skips messages; use a queue\n");
    rig_free(r);
}
END_TEST

/* An exchange of the user's own may be of any kind; an alternate exchange behind it is found and
 * told. */
START_TEST(users_exchange_may_be_anything_and_its_alternate_is_told)
{
    struct rig *r = rig_up();
    const struct topology_arg alternate[] = {{.name = "alternate-exchange", .text = "t.eater"}};
    struct topology_object made[] = {
        {.kind = TOPOLOGY_EXCHANGE,
         .name = "t.topic",
         .type = "topic",
         .transient = true,
         .args = alternate,
         .n_args = 1},
        {.kind = TOPOLOGY_EXCHANGE, .name = "t.headers", .type = "headers"},
    };
    struct topology_object asked[] = {
        {.kind = TOPOLOGY_EXCHANGE, .name = "t.topic", .must_exist = true},
        {.kind = TOPOLOGY_EXCHANGE, .name = "t.headers", .must_exist = true},
        {.kind = TOPOLOGY_EXCHANGE, .name = "t.missing", .must_exist = true},
    };
    run_topology(r, TOPOLOGY_DECLARE, made, 2);
    ck_assert_int_eq(r->result, TOPOLOGY_OK);
    run_topology(r, TOPOLOGY_DECLARE, asked, 2);
    ck_assert_int_eq(r->result, TOPOLOGY_OK);
    ck_assert_str_eq(r->warnings,
                     "exchange 't.topic' has the alternate exchange 't.eater': what it "
                     "takes counts as delivered\n");
    run_topology(r, TOPOLOGY_DECLARE, asked, 3);
    ck_assert_str_eq(r->problems, "exchange 't.missing' does not exist\n");
    rig_free(r);
}
END_TEST

/* Declare makes what is missing, finds differences in words, and changes nothing that exists; check
 * only asks. */
START_TEST(topology_is_made_checked_and_never_changed)
{
    struct rig *r = rig_up();
    const struct topology_arg two[] = {{.name = "x-max-priority", .number = 2}};
    const struct topology_arg ten[] = {{.name = "x-max-priority", .number = 10}};
    struct topology_object o[] = {
        {.kind = TOPOLOGY_QUEUE, .name = "t.work", .args = two, .n_args = 1},
        {.kind = TOPOLOGY_EXCHANGE, .name = "t.reports", .type = "fanout"},
        {.kind = TOPOLOGY_QUEUE, .name = "t.reports"},
        {.kind = TOPOLOGY_BINDING, .name = "t.reports", .type = "t.reports"},
        {.kind = TOPOLOGY_QUEUE, .name = "t.must", .must_exist = true},
    };
    run_topology(r, TOPOLOGY_CHECK, o, 5);
    ck_assert_int_eq(r->result, TOPOLOGY_PROBLEMS);
    ck_assert_ptr_nonnull(strstr(r->problems, "queue 't.work' does not exist\n"));
    run_topology(r, TOPOLOGY_DECLARE, o, 5);
    ck_assert_int_eq(r->result, TOPOLOGY_PROBLEMS);
    ck_assert_str_eq(r->problems, "queue 't.must' does not exist\n");
    const char *const made[] = {"queue 't.work'", "exchange 't.reports'", "queue 't.reports'"};
    for (int i = 0; i < 3; i++) {
        char note[64];
        snprintf(note, sizeof note, "%s was created\n", made[i]);
        ck_assert_ptr_nonnull(strstr(r->notes, note));
    }
    run_topology(r, TOPOLOGY_DECLARE, o, 4);
    ck_assert_int_eq(r->result, TOPOLOGY_OK);
    ck_assert_ptr_null(strstr(r->notes, "was created"));
    o[0].args = ten;
    o[1].type = "direct";
    o[2].transient = true;
    for (int i = 0; i < 2; i++) {
        run_topology(r, i == 0 ? TOPOLOGY_DECLARE : TOPOLOGY_CHECK, o, 4);
        ck_assert_int_eq(r->result, TOPOLOGY_PROBLEMS);
        ck_assert_str_eq(r->problems,
                         "queue 't.work' exists with x-max-priority 2, configured 10\n"
                         "exchange 't.reports' exists with type fanout, configured direct\n"
                         "queue 't.reports' exists with durable true, configured false\n");
    }
    o[0].any_arguments = true;
    run_topology(r, TOPOLOGY_DECLARE, o, 1);
    ck_assert_int_eq(r->result, TOPOLOGY_OK);
    run_topology(r, TOPOLOGY_OFF, o, 4);
    ck_assert_int_eq(r->result, TOPOLOGY_OK);
    rig_free(r);
}
END_TEST

/* Headers nested thousands deep, and headers that fill the frame, pass through byte for byte. */
START_TEST(extreme_headers_pass)
{
    struct rig *r = rig_up();
    make_queue(r, "t.extreme");
    start_publisher(r, 50);
    start_consumer(r, "t.extreme", 10);
    enum { DEPTH = 5000 };
    struct buf deep = {0}, full = {0};
    char head[6] = {0x20, 0};
    wire_put32(head + 2, DEPTH * 7);
    ck_assert_int_eq(buf_append(&deep, head, 6), 0);
    for (int i = 0; i < DEPTH; i++) {
        char level[7] = {1, 'k', 'F'};
        wire_put32(level + 3, (uint32_t)(DEPTH - 1 - i) * 7);
        ck_assert_int_eq(buf_append(&deep, level, 7), 0);
    }
    uint32_t most = 131072 - 8 - 12, value = most - 6 - 2 - 1 - 4;
    static char filling[131072];
    memset(filling, 'f', sizeof filling);
    struct header h = {text_of("f"), 'S', {filling, value}};
    struct props none = {0};
    struct props_edit edit = {.priority = -1, .add = &h, .n_add = 1};
    ck_assert_int_eq(props_edit(&none, &edit, &full), 0);
    ck_assert_uint_eq(full.n, most);
    ck_assert_int_eq(try_publish(r, "t.extreme", (struct text){deep.p, deep.n}, 1), 0);
    ck_assert_int_eq(try_publish(r, "t.extreme", (struct text){full.p, full.n}, 2), 0);
    WAIT_UNTIL(r, r->n_deliveries == 2);
    ck_assert(text_equal(r->messages[0]->props.raw, (struct text){deep.p, deep.n}));
    ck_assert(text_equal(r->messages[1]->props.raw, (struct text){full.p, full.n}));
    ck_assert(!r->messages[0]->props.opaque);
    h.value.n++;
    buf_reset(&full);
    ck_assert_int_eq(props_edit(&none, &edit, &full), 0);
    ck_assert_int_eq(try_publish(r, "t.extreme", (struct text){full.p, full.n}, 3),
                     PUBLISHER_TOO_BIG);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(consumer_ack(r->consumer, r->tags[i]), 0);
    buf_fini(&deep);
    buf_fini(&full);
    rig_free(r);
}
END_TEST

/* A body of many frames comes back whole. */
START_TEST(a_large_body_passes)
{
    enum { BODY = 3000000 };
    struct rig *r = rig_up();
    make_queue(r, "t.large");
    start_publisher(r, 50);
    start_consumer(r, "t.large", 10);
    char *body = malloc(BODY);
    ck_assert_ptr_nonnull(body);
    for (int i = 0; i < BODY; i++)
        body[i] = (char)(i * 7 + i / 251);
    struct publish p = {.exchange = text_of(""),
                        .routing_key = text_of("t.large"),
                        .props = {plain_props, 3},
                        .body = {body, BODY},
                        .cookie = NULL};
    ck_assert_int_eq(publisher_publish(r->publisher, &p), 0);
    WAIT_UNTIL(r, r->n_deliveries == 1 && r->n_confirmed == 1);
    ck_assert_uint_eq(r->messages[0]->body.n, BODY);
    ck_assert_mem_eq(r->messages[0]->body.p, body, BODY);
    ck_assert_int_eq(consumer_ack(r->consumer, r->tags[0]), 0);
    free(body);
    rig_free(r);
}
END_TEST

/* Owners may free anything from inside the callback that tells them of a loss. */
START_TEST(freeing_in_a_callback_is_safe)
{
    struct rig *r = rig_up();
    make_queue(r, "t.free");
    start_publisher(r, 50);
    start_consumer(r, "t.free", 10);
    ctl("set_vm_memory_high_watermark 0.00001");
    for (uintptr_t i = 0; i < 5; i++)
        publish(r, "t.free", i);
    WAIT_UNTIL(r, r->blocked);
    r->free_in_callback = true;
    struct loss why = {.kind = LOSS_CLOSED};
    link_abort(r->link, &why);
    WAIT_UNTIL(r, r->publisher == NULL && r->link == NULL);
    ck_assert_int_eq(r->n_lost, 1);
    run_for(r, 100);
    ctl("set_vm_memory_high_watermark 0.4");
    rig_free(r);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {a_link_comes_up_stays_up_and_stops,
                                  refusals_say_why_and_wait,
                                  a_password_is_never_cut,
                                  the_failover_list_is_walked,
                                  a_mute_peer_is_given_up,
                                  another_protocol_is_refused,
                                  a_frozen_broker_is_noticed,
                                  an_unanswered_opening_is_tried_again,
                                  localhost_is_found,
                                  stopping_while_resolving_is_safe,
                                  what_is_confirmed_is_delivered,
                                  stopping_sends_the_gathered_acks,
                                  returns_name_the_right_publish,
                                  returns_are_matched_by_token,
                                  a_foreign_token_takes_no_other_return,
                                  a_full_queue_nacks,
                                  a_missing_exchange_costs_the_channel_only,
                                  crossing_closes_cost_the_channel_only,
                                  a_forced_close_is_survived,
                                  a_deleted_queue_is_seen_and_awaited,
                                  a_paused_consumer_keeps_what_it_holds,
                                  prefetch_changes_with_the_next_consume,
                                  an_alarm_blocks_and_unblocks,
                                  other_arguments_do_not_matter_and_hide_nothing,
                                  users_exchange_may_be_anything_and_its_alternate_is_told,
                                  topology_is_made_checked_and_never_changed,
                                  extreme_headers_pass,
                                  a_large_body_passes,
                                  freeing_in_a_callback_is_safe,
                                  NULL};
    return suite_of("amqp", tests);
}
