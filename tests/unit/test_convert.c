#include "trace/convert.h"

#include "lib/testmain.h"
#include "trace/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static struct trace_set set;
static struct rows rows;
static struct err error;
static char told[2000]; /* the bad rows, one a line */

static void tell(void *ctx, const char *text)
{
    size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s\n", text);
}

static int convert(const struct convert_options *o, const char *bytes, size_t n)
{
    struct input *in;
    told[0] = '\0';
    rows = (struct rows){.strict = rows.strict, .tell = tell};
    trace_set_init(&set);
    ck_assert_int_eq(input_open_bytes(&in, "log", bytes, n, &error), 0);
    int r = convert_read(&set, in, o, &rows, &error);
    input_close(in);
    return r;
}

static struct convert_options options(const char *format)
{
    struct convert_options o;
    ck_assert(convert_options_for(format, &o));
    return o;
}

/* The jobs as text: "arrival duration key producer size", in microseconds. */
static const char *jobs(void)
{
    static char text[4000];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < set.n; i++) {
        const struct trace_job *j = &set.jobs[i];
        struct text key = set.keys.texts[j->key], producer = text_of("-");
        char size[24] = "-";
        if (j->producer != TRACE_NO_PRODUCER)
            producer = set.producers.texts[j->producer];
        if (j->size != TRACE_NO_SIZE)
            snprintf(size, sizeof size, "%llu", (unsigned long long)j->size);
        n += (size_t)snprintf(text + n, sizeof text - n, "%lld %lld %.*s %.*s %s\n",
                              (long long)j->arrival_us, (long long)j->duration_us, (int)key.n,
                              key.p, (int)producer.n, producer.p, size);
    }
    return text;
}

static void expect(const struct convert_options *o, const char *log, const char *want)
{
    ck_assert_msg(convert(o, log, strlen(log)) == 0, "%s", error.msg);
    ck_assert_str_eq(jobs(), want);
}

static void expect_error(const struct convert_options *o, const char *log, const char *message)
{
    ck_assert_int_lt(convert(o, log, strlen(log)), 0);
    ck_assert_str_eq(error.msg, message);
    trace_set_fini(&set);
}

static char *swf_line(const char *submit, const char *run, const char *processors,
                      const char *status, const char *user, const char *queue)
{
    static char lines[8][160];
    static unsigned at;
    char *out = lines[at++ % 8];
    snprintf(out, 160, "  1 %s 5 %s %s -1 -1 -1 -1 -1 %s %s -1 -1 %s -1 -1 -1\n", submit, run,
             processors, status, user, queue);
    return out;
}

/* Comments are passed over, jobs come in any order, and the first one arrives at 0. */
START_TEST(swf_is_sorted_and_begins_at_0)
{
    char log[1000];
    struct convert_options o = options("swf");
    snprintf(log, sizeof log, "; Version: 2.2\n;\n\n%s%s%s",
             swf_line("100", "7", "1", "1", "3", "2"), swf_line("50", "1.5", "16", "0", "4", "2"),
             swf_line("100", "8", "1", "1", "3", "-1"));
    expect(&o, log, "0 1500000 4/2 - -\n50000000 7000000 3/2 - -\n50000000 8000000 3/-1 - -\n");
    ck_assert_uint_eq(rows.taken, 3);
    trace_set_fini(&set);
    o.serial = true;
    o.key = "queue";
    o.producer = "user";
    o.size = "job";
    expect(&o, log, "0 7000000 2 3 1\n0 8000000 -1 3 1\n");
    ck_assert_uint_eq(rows.skipped[ROW_PARALLEL], 1);
    trace_set_fini(&set);
}
END_TEST

/* What did not run is no job: its run time is not known, or 0, whatever else the row says. A failed or
 * cancelled one that ran is one. */
START_TEST(swf_leaves_out_what_never_ran)
{
    char log[1000];
    struct convert_options o = options("swf");
    snprintf(log, sizeof log, "%s%s%s%s%s%s", swf_line("1", "-1", "1", "0", "3", "2"),
             swf_line("2", "0", "-1", "0", "3", "2"), swf_line("3", "0", "0", "1", "3", "2"),
             swf_line("4", "0", "1", "1", "3", "2"), swf_line("5", "8", "1", "0", "3", "2"),
             swf_line("6", "9", "1", "5", "3", "2"));
    expect(&o, log, "0 8000000 3/2 - -\n1000000 9000000 3/2 - -\n");
    ck_assert_uint_eq(rows.skipped[ROW_NEVER_RAN], 4);
    ck_assert_uint_eq(rows_bad(&rows), 0);
    ck_assert_str_eq(told, "");
    trace_set_fini(&set);
}
END_TEST

/* Bad rows are counted by reason and told with their line. */
START_TEST(swf_tells_bad_rows)
{
    char log[1000];
    struct convert_options o = options("swf");
    snprintf(log, sizeof log, "%s%s%s%s1 2 3\n%s", swf_line("-4", "1", "1", "1", "3", "2"),
             swf_line("1", "-2", "1", "1", "3", "2"), swf_line("nan", "1", "1", "1", "3", "2"),
             swf_line("1e18", "1", "1", "1", "3", "2"), swf_line("2", "1", "1", "1", "3", "2"));
    expect(&o, log, "0 1000000 3/2 - -\n");
    ck_assert_str_eq(told, "log:1: submit '-4': negative\n"
                           "log:2: run '-2': negative\n"
                           "log:3: submit 'nan': not a number\n"
                           "log:4: submit '1e18': out of range\n"
                           "log:5: too few fields\n");
    ck_assert_uint_eq(rows_bad(&rows), 5);
    ck_assert_uint_eq(rows_left_out(&rows), 0);
    trace_set_fini(&set);
    rows.strict = true;
    expect_error(&o, log, "log:1: submit '-4': negative");
    o.key = "user,wealth";
    expect_error(&o, log,
                 "a log in SWF has no field 'wealth'; it has user, group, executable, queue, "
                 "partition and others");
}
END_TEST

/* Arrival is end - duration; some jobs began before the log did. */
START_TEST(azure_arrivals_are_ends_less_durations)
{
    struct convert_options o = options("azure");
    expect(&o, "app,func,end_timestamp,duration\na,f,0.079,0.15\nb,g,0.1,0.02\na,g,1209600.5,0.5\n",
           "0 150000 a/f - -\n151000 20000 b/g - -\n1209600071000 500000 a/g - -\n");
    trace_set_fini(&set);
}
END_TEST

/* A key that is too long for a label on the wire becomes a short one, in each row the same. */
START_TEST(azure_keys_become_labels)
{
    char log[1200], app[65], func[65], hash[24];
    struct convert_options o = options("azure");
    memset(app, 'a', 64);
    memset(func, 'f', 64);
    app[64] = func[64] = '\0';
    snprintf(log, sizeof log,
             "app,func,end_timestamp,duration\r\n%s,%s,1,0.5\r\n%s,%s,2,0.5\r\n%s,%.63s,3,0.5", app,
             func, app, func, app, func);
    ck_assert_int_eq(convert(&o, log, strlen(log)), 0);
    ck_assert_uint_eq(set.n, 3);
    ck_assert_uint_eq(set.keys.n, 2);
    ck_assert_uint_eq(rows.shortened, 2);
    struct text key = set.keys.texts[0];
    snprintf(hash, sizeof hash, "%.*s", (int)key.n, key.p);
    ck_assert_uint_eq(strlen(hash), 17);
    ck_assert_int_eq(hash[0], '~');
    ck_assert_uint_eq(strspn(hash + 1, "0123456789abcdef"), 16);
    ck_assert_uint_eq(set.keys.texts[1].n, 128);
    trace_set_fini(&set);
}
END_TEST

START_TEST(huawei_has_its_columns)
{
    static const char log[] =
        "time_worker,time_frontend,requestID,funcName,runtimeCost,totalCost_frontend,"
        "requestBodySize\n"
        "2591999.9,2592000.5,x,296,0.023637,0.026421,1018\n"
        "2592000.0,2592000.4,y,7,0.001,0.5,0\n"
        ",2592001,z,7,,0.5,0\n";
    struct convert_options o = options("huawei");
    expect(&o, log, "0 1000 7 - 0\n573579 23637 296 - 1018\n");
    ck_assert_str_eq(told, "log:4: runtimeCost '': not a number\n");
    trace_set_fini(&set);
    o.duration = "totalCost_frontend";
    o.size = NULL;
    expect(&o, log, "0 500000 7 - -\n573579 26421 296 - -\n600000 500000 7 - -\n");
    trace_set_fini(&set);
}
END_TEST

/* Harbinger's own result files: nanoseconds and milliseconds; what was not done is left out. */
START_TEST(results_are_read_back)
{
    static const char log[] =
        "seq\tservice\tjob_type\tphase\tplanned_ms\tsubmit_ns\tfirst_start_ns\tstart_ns\tend_ns\t"
        "attempts\thandler_ms\tdone\n"
        "0\tcheckout\tsend_order_email\t0\t35.1\t900123456789\t1\t1\t1\t1\t36.75\t1\n"
        "1\tpartners\tdeliver_webhook\t0\t40\t900123999789\t1\t1\t1\t2\t0\t0\n"
        "2\tcatalog\tresize_image\t4\t17\t900124456789\t1\t1\t1\t1\t17.25\t1\n";
    struct convert_options o = options("results");
    expect(&o, log, "0 36750 send_order_email checkout -\n1000 17250 resize_image catalog -\n");
    ck_assert_uint_eq(rows.skipped[ROW_NOT_DONE], 1);
    trace_set_fini(&set);
}
END_TEST

/* Any table: quoted fields, several columns to a key, other units and separators. */
START_TEST(csv_has_named_columns)
{
    struct convert_options o = options("csv");
    expect(&o, "\xef\xbb\xbfkey,arrival,duration\n\"a \"\"b\"\"\",1,0.5\n",
           "0 500000 a \"b\" - -\n");
    trace_set_fini(&set);
    o = options("csv");
    o.key = "queue,task";
    o.producer = "host";
    o.size = "bytes";
    o.arrival = "at";
    o.duration = "took";
    o.arrival_unit = CONVERT_MS;
    o.duration_unit = CONVERT_US;
    o.separator = ';';
    expect(&o,
           "at;took;queue;task;host;bytes\n"
           "1700000000123.4;15;a/b;\"c;%\";h1;77\n"
           "1700000000123;16;a;b/c;h1;1e3\n",
           "0 16 a/b%2Fc h1 1000\n400 15 a%2Fb/c;%25 h1 77\n");
    trace_set_fini(&set);
}
END_TEST

/* Numbers and dates in one column; a date is a moment whatever the unit of numbers is. */
START_TEST(arrivals_may_be_dates)
{
    struct convert_options o = options("csv");
    o.arrival_unit = CONVERT_MS;
    expect(&o,
           "key,arrival,duration\n"
           "a,2026-12-01T12:39:31.5+01:00,2\n"
           "b,1796125170000,1\n"
           "c,2026-12-01 11:39:30.250,3\n"
           "d,2026-12-01,3\n"
           "e,1960-12-01T00:00:00Z,3\n",
           "0 1000000 b - -\n250000 3000000 c - -\n1500000 2000000 a - -\n");
    ck_assert_uint_eq(rows.skipped[ROW_TIME], 1);
    ck_assert_uint_eq(rows.skipped[ROW_RANGE], 1);
    trace_set_fini(&set);
}
END_TEST

START_TEST(csv_tells_bad_rows)
{
    struct convert_options o = options("csv");
    o.size = "size";
    expect(&o,
           "key,arrival,duration,size\n"
           "a,1,1,-3\n"
           "a,1,inf,3\n"
           "a,-1,1,3\n"
           "a,1,-0.001,3\n"
           ",1,1,3\n"
           "\"a,1,1,3\n"
           "\"a\"b,1,1,3\n"
           "a\tb,1,1,3\n"
           "a,1\n"
           "a,4000000000,1,3\n"
           "a,1,1,1e300\n"
           "a,1,1,x\n"
           "\n"
           "b,1,1,3,and,more\n",
           "0 1000000 b - 3\n");
    ck_assert_uint_eq(rows.taken, 1);
    ck_assert_uint_eq(rows_bad(&rows), 12);
    ck_assert_str_eq(told, "log:2: size '-3': negative\n"
                           "log:3: duration 'inf': not a number\n"
                           "log:4: arrival '-1': negative\n"
                           "log:5: duration '-0.001': negative\n"
                           "log:6: key '': no key\n"
                           "log:7: a quoted field that does not end\n"
                           "log:8: a quoted field that does not end\n"
                           "log:9: a control character in a key or producer\n"
                           "log:10: too few fields\n"
                           "log:11: arrival '4000000000': out of range\n");
    trace_set_fini(&set);
}
END_TEST

/* What makes the whole file useless ends it, with file and line. */
START_TEST(what_is_no_table_is_an_error)
{
    struct convert_options o = options("csv");
    expect_error(&o, "", "log: empty, without a header row");
    expect_error(&o, "a,b\n1,2\n", "log:1: there is no column 'key'; the header has: a, b");
    expect_error(&o, "\"key,arrival\n", "log:1: a quoted field that does not end");
    static const char binary[] = "key,arrival,duration\na,1,\0";
    ck_assert_int_eq(convert(&o, binary, sizeof binary - 1), ERR_INVALID);
    ck_assert_str_eq(error.msg, "log:2: a NUL byte: this is no text");
    trace_set_fini(&set);
    size_t n = LINES_MAX_BYTES + 100;
    char *line = malloc(n + 1);
    memset(line, 'x', n);
    memcpy(line, "key,arrival,duration\n", 21);
    line[n] = '\0';
    ck_assert_int_eq(convert(&o, line, 21 + LINES_MAX_BYTES), 0); /* as long as may be */
    trace_set_fini(&set);
    ck_assert_uint_eq(rows_bad(&rows), 1);
    expect_error(&o, line, "log:2: a line of more than 65536 bytes");
    free(line);
}
END_TEST

/* Gzip is read as it is, and one that ends too early is no shorter log. */
START_TEST(gzip_is_read_and_a_cut_one_refused)
{
    static const char log[] = "key,arrival,duration\na,1,1\nb,2,2\n";
    struct convert_options o = options("csv");
    uint8_t packed[200];
    z_stream z = {0};
    ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)log;
    z.avail_in = sizeof log - 1;
    z.next_out = packed;
    z.avail_out = sizeof packed;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    deflateEnd(&z);
    ck_assert_int_eq(convert(&o, (char *)packed, n), 0);
    ck_assert_str_eq(jobs(), "0 1000000 a - -\n1000000 2000000 b - -\n");
    trace_set_fini(&set);
    ck_assert_int_eq(convert(&o, (char *)packed, n - 1), ERR_CORRUPT);
    ck_assert_str_eq(error.msg, "log: the gzip data is cut off");
    trace_set_fini(&set);
    packed[n - 5] ^= 1; /* its checksum */
    ck_assert_int_eq(convert(&o, (char *)packed, n), ERR_CORRUPT);
    trace_set_fini(&set);
}
END_TEST

/* Of 20,000 jobs in wild order, those of the same moment stay in theirs. */
START_TEST(sorting_is_stable)
{
    trace_set_init(&set);
    uint64_t x = 1;
    for (unsigned i = 0; i < 20000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        struct trace_job j = {.arrival_us = (int64_t)(x >> 54) - 300, .size = i};
        ck_assert_int_eq(trace_set_add(&set, &j), 0);
    }
    ck_assert_int_eq(trace_set_arrange(&set), 0);
    ck_assert_uint_eq(set.n, 20000);
    ck_assert_int_eq(set.jobs[0].arrival_us, 0);
    for (size_t i = 1; i < set.n; i++) {
        const struct trace_job *a = &set.jobs[i - 1], *b = &set.jobs[i];
        ck_assert(a->arrival_us < b->arrival_us ||
                  (a->arrival_us == b->arrival_us && a->size < b->size));
    }
    trace_set_fini(&set);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {swf_is_sorted_and_begins_at_0,
                                  swf_leaves_out_what_never_ran,
                                  swf_tells_bad_rows,
                                  azure_arrivals_are_ends_less_durations,
                                  azure_keys_become_labels,
                                  huawei_has_its_columns,
                                  results_are_read_back,
                                  csv_has_named_columns,
                                  arrivals_may_be_dates,
                                  csv_tells_bad_rows,
                                  what_is_no_table_is_an_error,
                                  gzip_is_read_and_a_cut_one_refused,
                                  sorting_is_stable,
                                  NULL};
    return suite_of("convert", tests);
}
