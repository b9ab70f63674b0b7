/*
 * What systemd is told, by the protocol of sd_notify(3): one datagram to the socket that
 * NOTIFY_SOCKET names. Without that variable nothing happens. Never blocks; a message that cannot
 * be sent is lost, as nothing that the daemon does depends on it.
 */
#ifndef HARBINGER_SIDECAR_SD_H
#define HARBINGER_SIDECAR_SD_H

#include "base/mono.h"

/* Lines of VARIABLE=VALUE: "READY=1", "STOPPING=1", "STATUS=words", "WATCHDOG=1". */
void sd_notify_state(const char *state);

/* RELOADING=1 with the time that Type=notify-reload wants; `now` is CLOCK_MONOTONIC. READY=1 ends
 * it. */
void sd_notify_reloading(mono_t now);

/* How often WATCHDOG=1 is to be sent: half of what systemd allows. 0 = there is no watchdog. */
mono_t sd_watchdog_for(void);

#endif
