#include "sidecar/logfile.h"

#include "lib/testmain.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One event is one line with a time, a level and its name. */
START_TEST(one_event_is_one_line)
{
    int fd[2];
    char text[512];
    struct logfile f;
    ck_assert_int_eq(pipe(fd), 0);
    logfile_init(&f, fd[1], LOG_INFO);
    log_event(&f.sink, LOG_INFO, "x.y", "a=%d", 1);
    log_event(&f.sink, LOG_DEBUG, "too.fine", "a=%d", 1);
    log_event(&f.sink, LOG_WARN, "bare", "%s", "");
    ssize_t n = read(fd[0], text, sizeof text - 1);
    ck_assert_int_gt(n, 0);
    text[n] = '\0';
    ck_assert_ptr_nonnull(strstr(text, "Z level=info event=x.y a=1\n"));
    ck_assert_ptr_nonnull(strstr(text, "Z level=warning event=bare\n"));
    ck_assert_ptr_null(strstr(text, "too.fine"));
    close(fd[0]);
    close(fd[1]);
}
END_TEST

/* A reader that does not read costs lines, never time: all calls return, and the losses are
 * counted. */
START_TEST(never_blocks_and_counts_what_it_drops)
{
    int fd[2];
    struct logfile f;
    char name[LOGFILE_EVENTS * 2][16];
    ck_assert_int_eq(pipe(fd), 0);
    logfile_init(&f, fd[1], LOG_INFO);
    for (int i = 0; i < LOGFILE_EVENTS * 2; i++) {
        snprintf(name[i], sizeof name[i], "event.%d", i);
        for (int k = 0; k < 100; k++)
            log_event(&f.sink, LOG_INFO, name[i], "fill=%0200d", k);
    }
    ck_assert_uint_gt(f.n_written, 0);
    ck_assert_uint_eq(f.n_written + f.n_dropped, LOGFILE_EVENTS * 2 * 100);
    ck_assert_uint_gt(f.n_dropped, LOGFILE_EVENTS * 2 * 80 - 1);
    close(fd[0]);
    close(fd[1]);
}
END_TEST

/* An event that floods leaves room for the others. */
START_TEST(a_flood_of_one_event_spares_the_others)
{
    int null = open("/dev/null", O_WRONLY);
    struct logfile f;
    logfile_init(&f, null, LOG_INFO);
    for (int i = 0; i < 1000; i++)
        log_event(&f.sink, LOG_INFO, "flood", "%s", "");
    uint64_t before = f.n_written;
    ck_assert_uint_le(before, 2 * LOGFILE_BURST);
    log_event(&f.sink, LOG_INFO, "other", "%s", "");
    ck_assert_uint_eq(f.n_written, before + 1);
    close(null);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {one_event_is_one_line, never_blocks_and_counts_what_it_drops,
                                  a_flood_of_one_event_spares_the_others, NULL};
    return suite_of("logfile", tests);
}
