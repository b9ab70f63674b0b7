/*
 * flood PUBLISH-URI INTAKE CONSUME-URI WORK COUNT [NAME=NUMBER]...
 *
 * One publisher and several workers on librabbitmq's own blocking client, which measure: nothing of
 * what is tested takes part.
 *
 *   workers=4    processes that take and ack one message after another, prefetch=1
 *   publish=1    0: the messages are there already (flood ... only=1 has put them there)
 *   only=0       1: publish and confirm, no workers
 *   rate=0       messages a second; 0: as fast as the two limits allow
 *   window=1000  unconfirmed messages at a time
 *   limit=1000   messages at a time that no worker has acked
 *   bytes=256    of a body
 *   types=1      different headers job_type
 *   priorities=0 different priorities; 0: none is set
 *   cpu=PID      also measures that process (up to 4)
 *
 * Prints one line of JSON. Each message must come out: `again` counts those that came more than
 * once. A latency is the time from just before the publish to receipt.
 */
#include <amqp_tcp_socket.h>
#include <dirent.h>
#include <err.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define MUST(x) ((x) ? (void)0 : errx(1, "failed: %s", #x))

enum { MAX_CPU = 4, MAX_WORKERS = 256, IDLE_S = 60 };

struct options {
    const char *publish_uri, *intake, *consume_uri, *work;
    uint64_t count, workers, prefetch, publish, only, rate, window, limit, bytes, types, priorities;
    uint64_t cpu[MAX_CPU];
    unsigned n_cpu;
};

/* What a body begins with. */
struct stamp {
    uint64_t number;
    int64_t sent_at;
};

/* Between the processes. */
struct shared {
    atomic_uint_fast64_t done, ready;
    atomic_int_fast64_t first_at, last_at;
    _Atomic uint8_t *times_seen; /* of each message */
    int64_t *latency;
    double worker_us[MAX_WORKERS];
    int wake; /* an eventfd: more are done */
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *share(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(p != MAP_FAILED);
    return p;
}

static double own_cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* CPU time of another process, all its threads that live. */
static double cpu_us_of(uint64_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRIu64 "/task", pid);
    DIR *tasks = opendir(path);
    double sum = 0;
    if (tasks == NULL)
        err(1, "%s", path);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char file[PATH_MAX];
        uint64_t ns = 0;
        snprintf(file, sizeof file, "%s/%s/schedstat", path, task->d_name);
        FILE *in = task->d_name[0] != '.' ? fopen(file, "r") : NULL;
        if (in != NULL && fscanf(in, "%" SCNu64, &ns) == 1)
            sum += (double)ns / 1e3;
        if (in != NULL)
            fclose(in);
    }
    closedir(tasks);
    return sum;
}

static amqp_connection_state_t open_link(const char *uri)
{
    struct amqp_connection_info to;
    char *copy = strdup(uri); /* `to` points into it */
    amqp_connection_state_t c = amqp_new_connection();
    MUST(copy != NULL && c != NULL);
    MUST(amqp_parse_url(copy, &to) == 0);
    MUST(amqp_socket_open(amqp_tcp_socket_new(c), to.host, to.port) == 0);
    amqp_rpc_reply_t r =
        amqp_login(c, to.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, to.user, to.password);
    MUST(r.reply_type == AMQP_RESPONSE_NORMAL);
    MUST(amqp_channel_open(c, 1));
    free(copy);
    return c;
}

/* ---- workers ---- */

static void note(struct shared *s, const struct options *o, const amqp_bytes_t *body)
{
    struct stamp stamp;
    int64_t now = now_ns(), none = 0;
    MUST(body->len >= sizeof stamp);
    memcpy(&stamp, body->bytes, sizeof stamp);
    MUST(stamp.number < o->count);
    atomic_compare_exchange_strong(&s->first_at, &none, now);
    atomic_store(&s->last_at, now);
    if (atomic_fetch_add(&s->times_seen[stamp.number], 1) != 0)
        return;
    s->latency[stamp.number] = now - stamp.sent_at;
    uint64_t done = atomic_fetch_add(&s->done, 1) + 1;
    if (done % (o->limit / 8 + 1) == 0 || done == o->count)
        MUST(write(s->wake, &(uint64_t){1}, 8) == 8);
}

/* Ends when all are done, which it sees at least once a second. */
static void work(struct shared *s, const struct options *o, unsigned index)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    amqp_connection_state_t c = open_link(o->consume_uri);
    MUST(amqp_basic_qos(c, 1, 0, (uint16_t)o->prefetch, 0));
    amqp_basic_consume(c, 1, amqp_cstring_bytes(o->work), amqp_empty_bytes, 0, 0, 0,
                       amqp_empty_table);
    MUST(amqp_get_rpc_reply(c).reply_type == AMQP_RESPONSE_NORMAL);
    double before = own_cpu_us();
    atomic_fetch_add(&s->ready, 1);
    while (atomic_load(&s->done) < o->count) {
        amqp_envelope_t job;
        amqp_maybe_release_buffers(c);
        amqp_rpc_reply_t r = amqp_consume_message(c, &job, &(struct timeval){0, 200000}, 0);
        if (r.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
            r.library_error == AMQP_STATUS_TIMEOUT)
            continue;
        if (r.reply_type != AMQP_RESPONSE_NORMAL)
            errx(1, "consume: %s", amqp_error_string2(r.library_error));
        note(s, o, &job.message.body);
        MUST(amqp_basic_ack(c, 1, job.delivery_tag, 0) == AMQP_STATUS_OK);
        amqp_destroy_envelope(&job);
    }
    s->worker_us[index] = own_cpu_us() - before;
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    _exit(0);
}

static void start_workers(struct shared *s, const struct options *o, pid_t *pids)
{
    for (unsigned i = 0; i < o->workers; i++) {
        pids[i] = fork();
        MUST(pids[i] >= 0);
        if (pids[i] == 0)
            work(s, o, i);
    }
}

/* ---- the publisher ---- */

/* Which of the messages 1..count are confirmed. */
struct confirms {
    bool *done;
    uint64_t n_done, all_up_to;
};

static void confirm(struct confirms *t, uint64_t tag)
{
    t->n_done += !t->done[tag];
    t->done[tag] = true;
}

/* Reads the confirms that are there. */
static void read_confirms(amqp_connection_state_t c, struct confirms *t)
{
    for (;;) {
        amqp_frame_t frame;
        amqp_maybe_release_buffers(c);
        int r = amqp_simple_wait_frame_noblock(c, &frame, &(struct timeval){0, 0});
        if (r == AMQP_STATUS_TIMEOUT)
            return;
        MUST(r == AMQP_STATUS_OK && frame.frame_type == AMQP_FRAME_METHOD);
        if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
            errx(1, "%s instead of a confirm", amqp_method_name(frame.payload.method.id));
        const amqp_basic_ack_t *ack = frame.payload.method.decoded;
        if (ack->multiple)
            while (t->all_up_to < ack->delivery_tag)
                confirm(t, ++t->all_up_to);
        else
            confirm(t, ack->delivery_tag);
    }
}

/* Until a confirm comes or more is done. */
static void wait_for_news(amqp_connection_state_t c, struct shared *s)
{
    uint64_t ignored;
    struct pollfd fds[] = {{amqp_get_sockfd(c), POLLIN, 0}, {s->wake, POLLIN, 0}};
    int n = poll(fds, 2, IDLE_S * 1000);
    if (n == 0)
        errx(1, "nothing for %d s: %" PRIuFAST64 " done", IDLE_S, atomic_load(&s->done));
    if (fds[1].revents != 0)
        MUST(read(s->wake, &ignored, sizeof ignored) == sizeof ignored);
}

static void publish_one(amqp_connection_state_t c, const struct options *o, uint64_t n, char *body)
{
    char type[24];
    snprintf(type, sizeof type, "k%" PRIu64, n % o->types);
    amqp_table_entry_t header = {
        amqp_cstring_bytes("job_type"),
        {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(type)}};
    amqp_basic_properties_t p = {._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG,
                                 .delivery_mode = 2,
                                 .headers = {1, &header}};
    if (o->priorities > 0) {
        p._flags |= AMQP_BASIC_PRIORITY_FLAG;
        p.priority = (uint8_t)(n % o->priorities);
    }
    struct stamp stamp = {n, now_ns()};
    memcpy(body, &stamp, sizeof stamp);
    int r = amqp_basic_publish(c, 1, amqp_empty_bytes, amqp_cstring_bytes(o->intake), 0, 0, &p,
                               (amqp_bytes_t){o->bytes, body});
    if (r != AMQP_STATUS_OK)
        errx(1, "publish: %s", amqp_error_string2(r));
}

static void wait_for_turn(const struct options *o, uint64_t n, int64_t started)
{
    if (o->rate == 0)
        return;
    int64_t due = started + (int64_t)(n * 1000000000 / o->rate);
    struct timespec t = {due / 1000000000, due % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        continue;
}

/* Whether so many more may be under way than those that hold the publisher up. */
static bool may_go_on(const struct options *o, struct shared *s, const struct confirms *t,
                      uint64_t n, uint64_t room)
{
    uint64_t in_flight = o->only ? 0 : n - atomic_load(&s->done);
    return n - t->n_done + room < o->window && in_flight + room < o->limit;
}

/* One that is held up goes on with a batch: one message for each confirm would cost much more. */
static void wait_for_room(amqp_connection_state_t c, struct shared *s, const struct options *o,
                          struct confirms *t, uint64_t n)
{
    uint64_t least = o->window < o->limit ? o->window : o->limit;
    if (may_go_on(o, s, t, n, 0))
        return;
    for (read_confirms(c, t); !may_go_on(o, s, t, n, least / 8); read_confirms(c, t))
        wait_for_news(c, s);
}

static void publish_all(amqp_connection_state_t c, struct shared *s, const struct options *o)
{
    struct confirms t = {.done = calloc(o->count + 1, sizeof *t.done)};
    char *body = calloc(1, o->bytes);
    MUST(t.done != NULL && body != NULL);
    int64_t started = now_ns();
    for (uint64_t n = 0; n < o->count; n++) {
        wait_for_turn(o, n, started);
        if (o->rate != 0 || n % 64 == 0)
            read_confirms(c, &t);
        wait_for_room(c, s, o, &t, n);
        publish_one(c, o, n, body);
    }
    for (read_confirms(c, &t); t.n_done < o->count; read_confirms(c, &t))
        wait_for_news(c, s);
    free(t.done);
    free(body);
}

/* ---- the whole ---- */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double at_us(const int64_t *sorted, uint64_t n, double share)
{
    uint64_t i = (uint64_t)(share * (double)n);
    return (double)sorted[i < n ? i : n - 1] / 1e3;
}

static void reap(pid_t *pids, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        int status;
        MUST(waitpid(pids[i], &status, 0) == pids[i]);
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* A worker that dies is no reason to wait. */
static void wait_done(struct shared *s, const struct options *o)
{
    while (atomic_load(&s->done) < o->count) {
        struct pollfd fd = {s->wake, POLLIN, 0};
        uint64_t ignored;
        int n = poll(&fd, 1, IDLE_S * 1000);
        if (n == 0)
            errx(1, "nothing for %d s: %" PRIuFAST64 " done", IDLE_S, atomic_load(&s->done));
        MUST(n < 0 || read(s->wake, &ignored, sizeof ignored) == sizeof ignored);
    }
}

static void report(struct shared *s, const struct options *o, double publisher_us,
                   const double *cpu_us)
{
    uint64_t again = 0;
    double workers_us = 0, count = (double)o->count;
    double seconds = (double)(atomic_load(&s->last_at) - atomic_load(&s->first_at)) / 1e9;
    for (uint64_t i = 0; i < o->count; i++)
        again += s->times_seen[i] > 1;
    for (uint64_t i = 0; i < o->workers; i++)
        workers_us += s->worker_us[i];
    qsort(s->latency, o->count, sizeof *s->latency, by_value);
    printf("{\"messages\": %" PRIu64 ", \"again\": %" PRIu64 ", \"seconds\": %.4f, "
           "\"per_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"publisher_us\": %.2f, "
           "\"workers_us\": %.2f, \"cpu_us\": [",
           o->count, again, seconds, count / seconds, at_us(s->latency, o->count, 0.5),
           at_us(s->latency, o->count, 0.99), publisher_us / count, workers_us / count);
    for (unsigned i = 0; i < o->n_cpu; i++)
        printf("%s%.2f", i == 0 ? "" : ", ", cpu_us[i] / count);
    printf("]}\n");
}

static void run(const struct options *o)
{
    pid_t pids[MAX_WORKERS];
    double cpu_us[MAX_CPU];
    struct shared *s = share(sizeof *s);
    s->times_seen = share(o->count);
    s->latency = share(o->count * sizeof *s->latency);
    s->wake = eventfd(0, EFD_CLOEXEC);
    MUST(s->wake >= 0);
    amqp_connection_state_t c = open_link(o->publish_uri);
    MUST(amqp_confirm_select(c, 1));
    for (unsigned i = 0; i < o->n_cpu; i++)
        cpu_us[i] = cpu_us_of(o->cpu[i]);
    double publisher_us = own_cpu_us();
    if (!o->only)
        start_workers(s, o, pids);
    while (!o->only && o->publish && atomic_load(&s->ready) < o->workers)
        MUST(poll(NULL, 0, 1) == 0);
    if (o->publish)
        publish_all(c, s, o);
    publisher_us = own_cpu_us() - publisher_us;
    if (!o->only) {
        wait_done(s, o);
        for (unsigned i = 0; i < o->n_cpu; i++)
            cpu_us[i] = cpu_us_of(o->cpu[i]) - cpu_us[i];
        reap(pids, o->workers);
        report(s, o, publisher_us, cpu_us);
    }
    amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    MUST(amqp_destroy_connection(c) == 0);
}

/* ---- arguments ---- */

static bool option(struct options *o, const char *arg)
{
    const struct {
        const char *name;
        uint64_t *value;
    } known[] = {{"workers=", &o->workers},  {"prefetch=", &o->prefetch},
                 {"publish=", &o->publish},  {"only=", &o->only},
                 {"rate=", &o->rate},        {"window=", &o->window},
                 {"limit=", &o->limit},      {"bytes=", &o->bytes},
                 {"types=", &o->types},      {"priorities=", &o->priorities},
                 {"cpu=", &o->cpu[o->n_cpu]}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].name);
        char *end;
        if (strncmp(arg, known[i].name, n) != 0)
            continue;
        *known[i].value = strtoull(arg + n, &end, 10);
        o->n_cpu += known[i].value == &o->cpu[o->n_cpu];
        return end != arg + n && *end == '\0';
    }
    return false;
}

static bool valid(const struct options *o)
{
    return o->count > 0 && o->workers > 0 && o->workers <= MAX_WORKERS && o->types > 0 &&
           o->window > 0 && o->limit > 0 && o->bytes >= sizeof(struct stamp);
}

int main(int argc, char **argv)
{
    struct options o = {.workers = 4, .prefetch = 1, .publish = 1, .window = 1000};
    o.limit = 1000;
    o.bytes = 256;
    o.types = 1;
    bool good = argc >= 6;
    for (int i = 6; i < argc; i++)
        good = good && o.n_cpu < MAX_CPU && option(&o, argv[i]);
    if (good) {
        o.publish_uri = argv[1];
        o.intake = argv[2];
        o.consume_uri = argv[3];
        o.work = argv[4];
        o.count = strtoull(argv[5], NULL, 10);
    }
    if (!good || !valid(&o)) {
        fprintf(stderr,
                "usage: flood PUBLISH-URI INTAKE CONSUME-URI WORK COUNT [NAME=NUMBER]...\n");
        return 2;
    }
    run(&o);
    return 0;
}
