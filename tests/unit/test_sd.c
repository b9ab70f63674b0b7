#include "sidecar/sd.h"

#include "base/compiler.h"
#include "lib/testmain.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_at(const char *path, size_t n)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, path, n);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(
        bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
        0);
    return fd;
}

static void ck_received(int fd, const char *expected)
{
    char text[256] = "";
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    ck_assert_str_eq(text, expected);
}

/* Each message arrives as one datagram at a path, or at an abstract name. */
START_TEST(states_arrive_at_the_socket)
{
    char dir[] = "/tmp/harbinger-sd-XXXXXX", path[64], name[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/socket", dir);
    int fd = listen_at(path, strlen(path));
    setenv("NOTIFY_SOCKET", path, 1);
    sd_notify_state("READY=1\nSTATUS=fine");
    ck_received(fd, "READY=1\nSTATUS=fine");
    sd_notify_reloading(1234567890);
    ck_received(fd, "RELOADING=1\nMONOTONIC_USEC=1234567");
    close(fd);
    unlink(path);
    rmdir(dir);

    snprintf(name, sizeof name, "@harbinger-sd-%ld", (long)getpid());
    setenv("NOTIFY_SOCKET", name, 1);
    name[0] = '\0';
    fd = listen_at(name, strlen(name + 1) + 1);
    sd_notify_state("STOPPING=1");
    ck_received(fd, "STOPPING=1");
    close(fd);
}
END_TEST

/* Without a socket, or with one that is not there or not one, nothing happens. */
START_TEST(nobody_to_tell_is_fine)
{
    static const char *const paths[] = {"",  "/",        "relative", "/nonexistent/socket",
                                        "@", "/dev/null"};
    char longest[300];
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    unsetenv("NOTIFY_SOCKET");
    int before = dup(0);
    sd_notify_state("READY=1");
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        setenv("NOTIFY_SOCKET", paths[i], 1);
        sd_notify_state("READY=1");
    }
    setenv("NOTIFY_SOCKET", longest, 1);
    sd_notify_state("READY=1");
    close(before);
    ck_assert_int_eq(dup(0), before); /* no descriptor is left open */
}
END_TEST

/* The watchdog's pace is half of systemd's limit, and only for the process that it watches. */
START_TEST(watchdog_is_half_the_limit_of_this_process)
{
    char pid[32];
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    ck_assert_int_eq(sd_watchdog_for(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    ck_assert_int_eq(sd_watchdog_for(), 15 * MONO_S);
    setenv("WATCHDOG_PID", "1", 1);
    ck_assert_int_eq(sd_watchdog_for(), 0);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    ck_assert_int_eq(sd_watchdog_for(), 15 * MONO_S);
    setenv("WATCHDOG_USEC", "18446744073709551615", 1);
    ck_assert_int_eq(sd_watchdog_for(), 0);
    setenv("WATCHDOG_USEC", "soon", 1);
    ck_assert_int_eq(sd_watchdog_for(), 0);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {states_arrive_at_the_socket, nobody_to_tell_is_fine,
                                  watchdog_is_half_the_limit_of_this_process, NULL};
    return suite_of("sd", tests);
}
