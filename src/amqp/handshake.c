/* What is said on channel 0: the handshake, alarms, and close. */
#include "amqp/conn_internal.h"

#include "base/err.h"

#include <event2/event.h>

#include <stdio.h>
#include <string.h>

static int say(struct conn *c, amqp_method_number_t id, void *decoded)
{
    conn_wake(c);
    return codec_put_method(&c->tx, 0, id, decoded);
}

static amqp_table_entry_t flag(const char *name)
{
    return (amqp_table_entry_t){
        .key = lib_bytes(text_of(name)),
        .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value = {.boolean = 1}},
    };
}

static amqp_table_entry_t words(const char *name, const char *value)
{
    return (amqp_table_entry_t){
        .key = lib_bytes(text_of(name)),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value = {.bytes = lib_bytes(text_of(value))}},
    };
}

/* True when `word` is one of the space-separated mechanisms. */
static bool offers(struct text mechanisms, struct text word)
{
    for (size_t at = 0; at < mechanisms.n;) {
        size_t n = 0;
        while (at + n < mechanisms.n && mechanisms.p[at + n] != ' ')
            n++;
        if (text_equal((struct text){mechanisms.p + at, n}, word))
            return true;
        at += n + 1;
    }
    return false;
}

/* PLAIN: NUL user NUL password. EXTERNAL: nothing, the transport knows. */
static size_t sasl_response(const struct conn *c, char *out, size_t size)
{
    if (c->uri.mechanism == URI_EXTERNAL)
        return 0;
    int n = snprintf(out, size, "%c%s%c%s", '\0', c->uri.user, '\0', c->password);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

static int say_start_ok(struct conn *c, struct text mechanism)
{
    /* Without these RabbitMQ hides alarms, cancels and nacks from us. */
    amqp_table_entry_t capabilities[] = {
        flag("authentication_failure_close"), flag("basic.nack"),
        flag("connection.blocked"),           flag("consumer_cancel_notify"),
        flag("exchange_exchange_bindings"),   flag("publisher_confirms"),
    };
    amqp_table_entry_t properties[] = {
        words("product", "harbinger"),
        words("version", HARBINGER_VERSION),
        words("platform", "C"),
        words("connection_name", c->name),
        {.key = lib_bytes(text_of("capabilities")),
         .value = {.kind = AMQP_FIELD_KIND_TABLE,
                   .value = {.table = {ARRAY_SIZE(capabilities), capabilities}}}},
    };
    char response[sizeof c->uri.user + sizeof c->password + 2];
    size_t n = sasl_response(c, response, sizeof response);
    amqp_connection_start_ok_t ok = {
        .client_properties = {ARRAY_SIZE(properties), properties},
        .mechanism = lib_bytes(mechanism),
        .response = {n, response},
        .locale = lib_bytes(text_of("en_US")),
    };
    int r = say(c, AMQP_CONNECTION_START_OK_METHOD, &ok);
    explicit_bzero(response, sizeof response);
    explicit_bzero(c->password, sizeof c->password);
    return r;
}

static int on_start(struct conn *c, const amqp_connection_start_t *start)
{
    struct text mechanism = text_of(c->uri.mechanism == URI_EXTERNAL ? "EXTERNAL" : "PLAIN");
    if (start->version_major != 0 || start->version_minor != 9)
        return ERR_PROTOCOL;
    if (!offers(lib_text(start->mechanisms), mechanism)) {
        conn_fail(c, LOSS_ACCESS, "the broker does not offer the mechanism %s", mechanism.p);
        return 0;
    }
    sm_move(&c->sm, CONN_TUNE);
    return say_start_ok(c, mechanism);
}

/* 0 means no limit on either side. */
static uint32_t smaller(uint32_t ours, uint32_t theirs)
{
    return theirs == 0 || ours < theirs ? ours : theirs;
}

static uint32_t wanted(int64_t given, uint32_t most)
{
    return given > 0 && given < most ? (uint32_t)given : most;
}

/* As RabbitMQ's own clients: the smaller one; if one side wants none, the other's. */
static int negotiate_heartbeat(const struct conn *c, int theirs)
{
    int ours = c->uri.heartbeat_s >= 0 ? c->uri.heartbeat_s : c->o.heartbeat_s;
    if (ours == 0 || theirs == 0)
        return ours > theirs ? ours : theirs;
    return ours < theirs ? ours : theirs;
}

static int on_tune(struct conn *c, const amqp_connection_tune_t *tune)
{
    uint32_t ours = c->o.frame_max > 0 ? c->o.frame_max : CODEC_FRAME_MAX;
    if (c->uri.frame_max > 0)
        ours = (uint32_t)c->uri.frame_max;
    c->frame_max = smaller(ours, tune->frame_max);
    c->channel_max =
        (uint16_t)smaller(wanted(c->uri.channel_max, CONN_CHANNELS), tune->channel_max);
    c->heartbeat_s = negotiate_heartbeat(c, tune->heartbeat);
    if (c->frame_max < CODEC_FRAME_MIN)
        return ERR_PROTOCOL;
    amqp_connection_tune_ok_t ok = {
        .channel_max = c->channel_max,
        .frame_max = c->frame_max,
        .heartbeat = (uint16_t)c->heartbeat_s,
    };
    amqp_connection_open_t open = {
        .virtual_host = lib_bytes(text_of(c->uri.vhost)),
        .capabilities = lib_bytes(text_of("")),
    };
    sm_move(&c->sm, CONN_OPEN);
    conn_start_beat(c);
    int r = say(c, AMQP_CONNECTION_TUNE_OK_METHOD, &ok);
    return r < 0 ? r : say(c, AMQP_CONNECTION_OPEN_METHOD, &open);
}

static int on_open_ok(struct conn *c)
{
    sm_move(&c->sm, CONN_UP);
    event_del(c->deadline);
    c->o.on_up(c->o.ctx);
    return 0;
}

static int on_close(struct conn *c, const amqp_connection_close_t *close)
{
    bool refused = c->sm.state < CONN_UP && (close->reply_code == 403 || close->reply_code == 530);
    struct loss why = {.kind = refused ? LOSS_ACCESS : LOSS_CONNECTION, .code = close->reply_code};
    snprintf(why.text, sizeof why.text, "%.*s", (int)close->reply_text.len,
             (char *)close->reply_text.bytes);
    if (c->sm.state == CONN_CLOSING)
        why.kind = LOSS_CLOSED;

    /* A courtesy: the broker ends the connection in any case, so it is worth one try and no
     * waiting. */
    amqp_connection_close_ok_t ok = {0};
    if (say(c, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok) == 0)
        conn_push_output(c);
    conn_finish(c, &why);
    return 0;
}

static int on_blocked(struct conn *c, bool blocked, struct text reason)
{
    char words_of[256];
    snprintf(words_of, sizeof words_of, "%.*s", (int)reason.n, reason.p);
    c->blocked = blocked;
    if (c->o.on_blocked != NULL)
        c->o.on_blocked(c->o.ctx, blocked, words_of);
    return 0;
}

/* What may come on channel 0, and when. */
static int handle_in_state(struct conn *c, const amqp_method_t *m)
{
    switch (m->id) {
    case AMQP_CONNECTION_START_METHOD:
        return c->sm.state == CONN_START ? on_start(c, m->decoded) : ERR_PROTOCOL;
    case AMQP_CONNECTION_TUNE_METHOD:
        return c->sm.state == CONN_TUNE ? on_tune(c, m->decoded) : ERR_PROTOCOL;
    case AMQP_CONNECTION_OPEN_OK_METHOD:
        return c->sm.state == CONN_OPEN ? on_open_ok(c) : ERR_PROTOCOL;
    case AMQP_CONNECTION_CLOSE_METHOD: return on_close(c, m->decoded);
    case AMQP_CONNECTION_CLOSE_OK_METHOD:
        if (c->sm.state != CONN_CLOSING)
            return ERR_PROTOCOL;
        conn_fail(c, LOSS_CLOSED, "%s", "");
        return 0;
    case AMQP_CONNECTION_BLOCKED_METHOD:
        return on_blocked(c, true, lib_text(((amqp_connection_blocked_t *)m->decoded)->reason));
    case AMQP_CONNECTION_UNBLOCKED_METHOD: return on_blocked(c, false, text_of(""));
    default: return ERR_PROTOCOL;
    }
}

int conn_handle(struct conn *c, const struct codec_frame *frame)
{
    amqp_method_t m;
    int r = codec_method(frame, &c->pool, &m);
    return r < 0 ? r : handle_in_state(c, &m);
}

int conn_say_close(struct conn *c)
{
    amqp_connection_close_t close = {
        .reply_code = AMQP_REPLY_SUCCESS,
        .reply_text = lib_bytes(text_of("goodbye")),
    };
    return say(c, AMQP_CONNECTION_CLOSE_METHOD, &close);
}
