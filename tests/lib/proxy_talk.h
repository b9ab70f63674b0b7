/*
 * What the tests of the AMQP proxy's session say and hear, in words: one world, one client on channel
 * 1. A test begins with talk_fresh and ends with talk_finish.
 */
#ifndef HARBINGER_TESTS_PROXY_TALK_H
#define HARBINGER_TESTS_PROXY_TALK_H

#include "lib/proxy_world.h"

#include <check.h>

extern struct proxy_world talk;
extern struct buf talk_bytes; /* frames that are put together before they are fed */

void talk_fresh(void);
void talk_fresh_with(const struct proxy_options *o);
void talk_finish(void);

/* talk_bytes comes in from that side, without an error. */
void talk_feed(enum side from);
/* Waiting messages are given to those who are ready. */
void talk_pump(void);

/* All that went to a side since the last look, its methods and bodies in order: "deliver c 1/0 o1". */
const char *talk_said(enum side to);
#define CLIENT_GETS(words)   ck_assert_str_eq(talk_said(SIDE_CLIENT), words)
#define UPSTREAM_GETS(words) ck_assert_str_eq(talk_said(SIDE_UPSTREAM), words)

/* The client says. */
void talk_open_channel(void);
void talk_qos(unsigned count);
void talk_consume(const char *queue, const char *tag, unsigned bits); /* and RabbitMQ answers */
void talk_settle(uint32_t method, uint64_t tag, unsigned bits);
void talk_ack(uint64_t tag, unsigned multiple);
void talk_publish(const char *body);
/* A channel with a consumer "c" of the work queue under a prefetch, and nothing said of it. */
void talk_worker(unsigned prefetch);

/* RabbitMQ says. */
void talk_upstream_delivers(const char *consumer, uint64_t tag, const char *body);
void talk_flow_ok(void);

#endif
