#include "sidecar/sd.h"

#include "base/num.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void sd_notify_state(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t n = path != NULL ? strlen(path) : 0;
    if (n < 2 || n >= sizeof at.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(at.sun_path, path, n);
    if (path[0] == '@')
        at.sun_path[0] = '\0'; /* the abstract namespace */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    socklen_t at_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&at, at_bytes);
    close(fd);
}

void sd_notify_reloading(mono_t now)
{
    char state[64];
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, now / MONO_US);
    sd_notify_state(state);
}

mono_t sd_watchdog_for(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t every, owner;
    /* Inherited by a child, the variables are not meant for it. */
    if (pid != NULL && (num_parse_u64(pid, strlen(pid), &owner) < 0 || owner != (uint64_t)getpid()))
        return 0;
    if (usec == NULL || num_parse_u64(usec, strlen(usec), &every) < 0 ||
        every > (uint64_t)(MONO_NEVER / MONO_US))
        return 0;
    return (mono_t)every * MONO_US / 2;
}
