#include "trace/trace.h"

#include "base/buf.h"
#include "lib/testmain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char path[64];

/* A new name for each test's file; Check forks, so they do not meet. */
static const char *file(const char *suffix)
{
    snprintf(path, sizeof path, "/tmp/harbinger-trace-%d%s", (int)getpid(), suffix);
    return path;
}

static struct buf slurp(const char *name)
{
    struct buf b = {0};
    FILE *f = fopen(name, "rb");
    ck_assert_ptr_nonnull(f);
    char piece[4096];
    size_t n;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        ck_assert_int_eq(buf_append(&b, piece, n), 0);
    fclose(f);
    return b;
}

/* Job i of the traces here: keys and producers come back, some jobs have sizes, some are together. */
static struct trace_job job(unsigned i)
{
    return (struct trace_job){.arrival_us = (int64_t)(i / 3) * 1000,
                              .duration_us = i % 7 == 0 ? 0 : (int64_t)i * i,
                              .size = i % 2 == 0 ? (uint64_t)i << 33 : TRACE_NO_SIZE,
                              .key = i < 20 ? i : i % 20,
                              .producer = i % 5 == 0 ? TRACE_NO_PRODUCER : i % 5 - 1};
}

static void write_jobs(const char *name, unsigned n)
{
    struct trace_writer *w;
    struct err e;
    ck_assert_int_eq(trace_create(&w, name, &e), 0);
    for (unsigned i = 0; i < n; i++) {
        struct trace_job j = job(i);
        char key[32];
        uint32_t index;
        snprintf(key, sizeof key, "key/%u", j.key);
        ck_assert_int_eq(trace_add_key(w, text_of(key), &index, &e), 0);
        ck_assert_uint_eq(index, j.key);
        if (j.producer != TRACE_NO_PRODUCER) {
            snprintf(key, sizeof key, "p%u", j.producer);
            ck_assert_int_eq(trace_add_producer(w, text_of(key), &index, &e), 0);
            ck_assert_uint_eq(index, j.producer);
        }
        ck_assert_int_eq(trace_write(w, &j, &e), 0);
    }
    ck_assert_int_eq(trace_finish(w, &e), 0);
}

static void expect_jobs(struct trace_reader *r, unsigned n)
{
    struct err e = {0};
    struct trace_job j;
    char key[32];
    for (unsigned i = 0; i < n; i++) {
        struct trace_job want = job(i);
        ck_assert_int_eq(trace_next(r, &j, &e), 1);
        ck_assert_int_eq(j.arrival_us, want.arrival_us);
        ck_assert_int_eq(j.duration_us, want.duration_us);
        ck_assert_uint_eq(j.size, want.size);
        ck_assert_uint_eq(j.key, want.key);
        ck_assert_uint_eq(j.producer, want.producer);
        snprintf(key, sizeof key, "key/%u", j.key);
        ck_assert(text_equal(trace_key(r, j.key), text_of(key)));
    }
    ck_assert_int_eq(trace_next(r, &j, &e), 0);
    ck_assert_int_eq(trace_next(r, &j, &e), 0);
}

/* What is written is read, plain and packed, and a second time. */
START_TEST(what_is_written_is_read_twice)
{
    static const char *const suffixes[] = {".hbt", ".hbt.gz"};
    for (size_t k = 0; k < ARRAY_SIZE(suffixes); k++) {
        struct trace_reader *r;
        struct err e;
        write_jobs(file(suffixes[k]), 20000);
        ck_assert_int_eq(trace_open(&r, path, &e), 0);
        expect_jobs(r, 20000);
        ck_assert_int_eq(trace_rewind(r, &e), 0);
        expect_jobs(r, 20000);
        ck_assert_uint_eq(trace_n_keys(r), 20);
        ck_assert_uint_eq(trace_n_producers(r), 4);
        ck_assert(text_equal(trace_producer(r, 3), text_of("p3")));
        trace_close(r);
        struct buf b = slurp(path);
        ck_assert_int_eq((uint8_t)b.p[0] == 0x1f, k == 1);
        buf_fini(&b);
        unlink(path);
    }
}
END_TEST

/* Nothing in the file depends on the moment: same jobs, same bytes. */
START_TEST(same_jobs_are_the_same_bytes)
{
    write_jobs(file(".hbt.gz"), 1000);
    struct buf a = slurp(path);
    write_jobs(path, 1000);
    struct buf b = slurp(path);
    unlink(path);
    ck_assert(a.n == b.n && memcmp(a.p, b.p, a.n) == 0);
    buf_fini(&a);
    buf_fini(&b);
}
END_TEST

static int read_all(const void *bytes, size_t n, struct err *e)
{
    struct trace_reader *r;
    struct trace_job j;
    int f = trace_open_bytes(&r, "input", bytes, n, e);
    if (f < 0)
        return f;
    do
        f = trace_next(r, &j, e);
    while (f == 1);
    struct err again = {0};
    ck_assert_int_eq(trace_next(r, &j, &again), f); /* it stays so */
    trace_close(r);
    return f;
}

/* Each shorter file, plain or packed, is told as cut off or damaged, never as a shorter trace. */
START_TEST(every_cut_is_noticed)
{
    static const char *const suffixes[] = {".hbt", ".hbt.gz"};
    for (size_t k = 0; k < ARRAY_SIZE(suffixes); k++) {
        struct err e;
        write_jobs(file(suffixes[k]), 60);
        struct buf b = slurp(path);
        unlink(path);
        ck_assert_int_eq(read_all(b.p, b.n, &e), 0);
        for (size_t n = 0; n < b.n; n++) {
            char *exact = malloc(n + 1);
            memcpy(exact, b.p, n);
            ck_assert_msg(read_all(exact, n, &e) == ERR_CORRUPT, "cut at %zu of %zu", n, b.n);
            ck_assert_msg(strncmp(e.msg, "input: ", 7) == 0, "%s", e.msg);
            free(exact);
        }
        buf_fini(&b);
    }
}
END_TEST

/* Each single damaged byte is noticed: the checksum is over all of them. */
START_TEST(every_changed_byte_is_noticed)
{
    struct err e;
    write_jobs(file(".hbt"), 60);
    struct buf b = slurp(path);
    unlink(path);
    for (size_t i = 0; i < b.n; i++) {
        b.p[i] ^= 0x20;
        ck_assert_msg(read_all(b.p, b.n, &e) == ERR_CORRUPT, "byte %zu", i);
        b.p[i] ^= 0x20;
    }
    buf_fini(&b);
}
END_TEST

/* The message has the file and the byte where reading ended. */
START_TEST(messages_name_the_place)
{
    static const char version2[] = "HBTRACE\x02";
    static const struct {
        const char *bytes;
        size_t n;
        const char *message;
    } cases[] = {
        {"hello, world", 12, "input: this is no trace; `harbinger trace convert` makes one"},
        {version2, 8, "input: a trace of version 2, this Harbinger reads version 1"},
        {"HBTRACE\x01\x03\x00\x00\x01", 12, "input: byte 12: the trace is cut off"},
        {"HBTRACE\x01\x41", 9, "input: byte 9: a record of unknown kind"},
        {"HBTRACE\x01\x01\x00\x00\x05", 12, "input: byte 12: a text that is not defined"},
        {"HBTRACE\x01\x03\x00\x00\x01\x07", 13,
         "input: byte 12: a text that is none, or was there before"},
        {"HBTRACE\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 19,
         "input: byte 19: a number of more than 64 bits"},
        {"HBTRACE\x01\x01\xff\xff\xff\xff\xff\xff\xff\x7f\x00", 18,
         "input: byte 17: a time of more than 100 years"},
        {"PK\x03\x04xxxx", 8, "input: this is a zip archive; only gzip is read directly"},
    };
    for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
        struct err e = {0};
        ck_assert_int_lt(read_all(cases[k].bytes, cases[k].n, &e), 0);
        ck_assert_str_eq(e.msg, cases[k].message);
    }
    struct trace_reader *r;
    struct err e;
    ck_assert_int_eq(trace_open(&r, "/nonexistent/x.hbt", &e), ERR_SYSTEM);
    ck_assert_str_eq(e.msg, "/nonexistent/x.hbt: No such file or directory");
}
END_TEST

/* A writer refuses what the reader would, says why, and goes on. */
START_TEST(the_writer_refuses_what_is_no_job)
{
    struct trace_writer *w;
    struct err e;
    uint32_t key;
    char long_text[TRACE_NAME_BYTES + 2];
    memset(long_text, 'x', sizeof long_text);
    ck_assert_int_eq(trace_create(&w, file(".hbt"), &e), 0);
    ck_assert_int_eq(trace_add_key(w, text_of(""), &key, &e), ERR_INVALID);
    ck_assert_int_eq(trace_add_key(w, text_of("a\x1f"), &key, &e), ERR_INVALID);
    ck_assert_int_eq(trace_add_key(w, (struct text){long_text, TRACE_NAME_BYTES + 1}, &key, &e),
                     ERR_INVALID);
    ck_assert_str_eq(e.msg, "a key has 1 to 128 bytes and no control character");
    ck_assert_int_eq(trace_add_key(w, (struct text){long_text, TRACE_NAME_BYTES}, &key, &e), 0);
    struct trace_job good = {10, 5, TRACE_NO_SIZE, key, TRACE_NO_PRODUCER};
    struct trace_job bad[] = {
        {-1, 5, TRACE_NO_SIZE, 0, TRACE_NO_PRODUCER},
        {10, -5, TRACE_NO_SIZE, 0, TRACE_NO_PRODUCER},
        {10, TRACE_MAX_US + 1, TRACE_NO_SIZE, 0, TRACE_NO_PRODUCER},
        {10, 5, TRACE_NO_SIZE, 1, TRACE_NO_PRODUCER},
        {10, 5, TRACE_NO_SIZE, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_int_eq(trace_write(w, &bad[i], &e), ERR_INVALID);
    ck_assert_int_eq(trace_write(w, &good, &e), 0);
    good.arrival_us--;
    ck_assert_int_eq(trace_write(w, &good, &e), ERR_INVALID);
    ck_assert_int_eq(trace_finish(w, &e), 0);
    struct buf b = slurp(path);
    unlink(path);
    ck_assert_int_eq(read_all(b.p, b.n, &e), 0);
    buf_fini(&b);
}
END_TEST

/* A writer that is given up leaves no file; a full device is an error. */
START_TEST(what_is_not_complete_does_not_stay)
{
    struct trace_writer *w;
    struct err e;
    ck_assert_int_eq(trace_create(&w, file(".hbt"), &e), 0);
    trace_abandon(w);
    ck_assert_int_eq(access(path, F_OK), -1);
    ck_assert_int_eq(trace_create(&w, "/nonexistent/x.hbt", &e), ERR_SYSTEM);
    if (access("/dev/full", W_OK) == 0) {
        ck_assert_int_eq(trace_create(&w, "/dev/full", &e), 0);
        ck_assert_int_eq(trace_finish(w, &e), ERR_SYSTEM);
        ck_assert_str_eq(e.msg, "/dev/full: No space left on device");
        ck_assert_int_eq(access("/dev/full", F_OK), 0);
    }
}
END_TEST

/* Two gzip files one after the other are one, as gzip(1) has it. */
START_TEST(gzip_members_are_joined)
{
    struct err e;
    write_jobs(file(".hbt"), 60);
    struct buf b = slurp(path);
    size_t half = b.n / 2;
    gzFile f = gzopen(path, "wb");
    ck_assert_int_eq(gzwrite(f, b.p, (unsigned)half), (int)half);
    gzclose(f);
    f = gzopen(path, "ab");
    ck_assert_int_eq(gzwrite(f, b.p + half, (unsigned)(b.n - half)), (int)(b.n - half));
    gzclose(f);
    struct buf packed = slurp(path);
    unlink(path);
    ck_assert_int_eq(read_all(packed.p, packed.n, &e), 0);
    buf_fini(&b);
    buf_fini(&packed);
}
END_TEST

/* A pipe is read once. */
START_TEST(a_pipe_has_no_second_pass)
{
    struct trace_reader *r;
    struct err e;
    int ends[2];
    char name[32];
    write_jobs(file(".hbt"), 60);
    struct buf b = slurp(path);
    unlink(path);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], b.p, b.n), (int)b.n);
    close(ends[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    ck_assert_int_eq(trace_open(&r, name, &e), 0);
    expect_jobs(r, 60);
    ck_assert_int_eq(trace_rewind(r, &e), ERR_INVALID);
    trace_close(r);
    close(ends[0]);
    buf_fini(&b);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {what_is_written_is_read_twice,
                                  same_jobs_are_the_same_bytes,
                                  every_cut_is_noticed,
                                  every_changed_byte_is_noticed,
                                  messages_name_the_place,
                                  the_writer_refuses_what_is_no_job,
                                  what_is_not_complete_does_not_stay,
                                  gzip_members_are_joined,
                                  a_pipe_has_no_second_pass,
                                  NULL};
    return suite_of("trace", tests);
}
