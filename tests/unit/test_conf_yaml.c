#include "base/err.h"
#include "conf/conf.h"
#include "lib/testmain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is wrong with the document, and the first line that must say so. */
struct bad {
    const char *text, *message;
};

#define DURATION "expected a duration with a unit (ns, us, ms, s, min, h, d), "

static const struct bad bad[] = {
    /* unknown and misplaced keys */
    {"intake:\n  queu: a\n", "t:2:3: unknown key 'intake.queu' (nearest: 'intake.queue')"},
    {"intak:\n  queue: a\n", "t:1:1: unknown key 'intak' (nearest: 'intake')"},
    {"window: 5\n", "t:1:1: unknown key 'window' (nearest: 'intake.window')"},
    {"predictor:\n  window: 5\n",
     "t:2:3: unknown key 'predictor.window' (nearest: 'intake.window')"},
    {"completely_different_thing: 1\n", "t:1:1: unknown key 'completely_different_thing'"},
    {"intake.window: 5\n",
     "t:1:1: 'intake.window' is written as 'window' on an indented line below 'intake:'"},
    {"Mode: static\n", "t:1:1: unknown key 'Mode' (nearest: 'mode')"},
    {"<<: a\n", "t:1:1: unknown key '<<'"},
    {"\"in\\x07\": a\n", "t:1:1: a key has a control character"},
    /* duplicates */
    {"levels: 2\nlevels: 2\n", "t:2:1: duplicate key 'levels' (first on line 1)"},
    {"intake:\n  queue: a\nwork:\nintake:\n  window: 5\n",
     "t:4:1: duplicate key 'intake' (first on line 1)"},
    {"intake:\n  queue: a\n  queue: b\n", "t:3:3: duplicate key 'intake.queue' (first on line 2)"},
    {"static:\n  a: 0\n  a: 1\n", "t:3:3: duplicate key 'static.a'"},
    /* outside the subset */
    {"mode: &m static\n", "t:1:7: anchors (&m) are not used here"},
    {"intake: &i\n  queue: a\n", "t:1:9: anchors (&i) are not used here"},
    {"mode: *m\n", "t:1:7: aliases (*m) are not used here; write the value again"},
    {"mode: !!str static\n", "t:1:7: tags (tag:yaml.org,2002:str) are not used here"},
    {"amqp:\n  uri: !x [amqp://a]\n", "t:2:8: tags (!x) are not used here"},
    {"%YAML 1.1\n---\nlevels: 2\n", "t:1:1: directives are not used here"},
    {"levels: 2\n---\nlevels: 2\n", "t:2:1: a second document starts here; expected only one"},
    {"{levels: 2}\n", "t:1:1: expected one KEY: VALUE per line"},
    {"intake: {queue: a}\n",
     "t:1:9: intake: is a section; expected one KEY: VALUE per indented line"},
    {"static: {a: 0}\n", "t:1:9: static: is a section; expected one KEY: VALUE per indented line"},
    {"just words\n", "t:1:1: expected one KEY: VALUE per line"},
    {"- a\n- b\n", "t:1:1: expected one KEY: VALUE per line"},
    {"? [a]\n: 1\n", "t:1:3: a key must be a plain word"},
    {"? {a: 1}\n: 1\n", "t:1:3: a key must be a plain word"},
    /* not YAML */
    {"intake:\n\tqueue: a\n", "t:2:1: not valid YAML: found character that cannot start any token "
                              "(a tab; indent with spaces)"},
    {"mode: [a\n", "t:2:1: not valid YAML: did not find expected ',' or ']'"},
    {"mode: \"a\n", "t:2:1: not valid YAML: found unexpected end of stream"},
    {"levels: 2: 3\n", "t:1:10: not valid YAML: mapping values are not allowed in this context"},
    {"levels: 2\nmode: sta\xfftic\n", "t:2:10: not UTF-8 (byte 0xff)"},
    {"levels: 2\nmode: \xc0\x80\n", "t:2:7: not UTF-8 (byte 0xc0)"},
    {"mode: \x01\n", "t:1:7: a control character (U+0001)"},
    /* the wrong shape */
    {"intake: 5\n", "t:1:9: intake: is a section; expected one KEY: VALUE per indented line"},
    {"intake: [a]\n", "t:1:9: intake: is a section; expected one KEY: VALUE per indented line"},
    {"mode:\n  a: b\n", "t:2:3: mode: is an option, not a section"},
    {"mode: [static]\n", "t:1:7: mode: a list stands where one value is expected; expected static, "
                         "shadow or predictive"},
    {"amqp:\n  uri: [[amqp://a]]\n", "t:2:9: amqp.uri: a list inside a list"},
    {"amqp:\n  uri: []\n",
     "t:2:8: amqp.uri: the list is empty; expected an amqp:// or amqps:// URI, or a list of them"},
    {"static: 5\n", "t:1:9: static: is a section; expected one KEY: VALUE per indented line"},
    {"static:\n  a: [1]\n", "t:2:6: static: a label has one level"},
    /* the wrong type */
    {"levels: many\n",
     "t:1:9: levels: 'many' is not an integer; expected an integer, 1 to 10; example: levels: 3"},
    {"levels: 2.0\n",
     "t:1:9: levels: '2.0' is not an integer; expected an integer, 1 to 10; example: levels: 3"},
    {"levels: \"2\"\n",
     "t:1:9: levels: '2' is quoted; expected an integer, 1 to 10; example: levels: 3"},
    {"levels:\n",
     "t:1:8: levels: '' is not an integer; expected an integer, 1 to 10; example: levels: 3"},
    {"work:\n  impersonate: yes\n", "t:2:16: work.impersonate: 'yes' is not a boolean; expected "
                                    "true or false; example: impersonate: false"},
    {"work:\n  impersonate: \"true\"\n", "t:2:16: work.impersonate: 'true' is quoted; expected "
                                         "true or false; example: impersonate: false"},
    {"mode: quick\n", "t:1:7: mode: 'quick' is unknown; expected static, shadow or predictive; "
                      "example: mode: predictive"},
    {"amqp:\n  heartbeat: 20\n",
     "t:2:14: amqp.heartbeat: '20' has no unit; " DURATION "0 to 1h; example: heartbeat: 20s"},
    {"amqp:\n  heartbeat: 20 s\n", "t:2:14: amqp.heartbeat: '20 s' is not a duration; " DURATION
                                   "0 to 1h; example: heartbeat: 20s"},
    {"intake:\n  window_bytes: 1000\n", "t:2:17: intake.window_bytes: '1000' has no unit; expected "
                                        "a size with a unit (B, KiB, MiB, GiB), 4KiB to "
                                        "4GiB; example: window_bytes: 16MiB"},
    {"predictor:\n  decay: nan\n", "t:2:10: predictor.decay: 'nan' is not a number; expected a "
                                   "number, above 0, at most 1; example: decay: 0.995"},
    {"key:\n  producer: [type]\n", "t:2:13: key.producer: 'type' is not a source; expected a list "
                                   "of user_id, app_id or header:NAME; example: "
                                   "producer: [user_id, app_id]"},
    {"key:\n  size: \"header:\"\n", "t:2:9: key.size: 'header:' is not a source; expected none, "
                                    "body or header:NAME; example: size: body"},
    /* out of range */
    {"levels: 11\n",
     "t:1:9: levels: '11' is out of range; expected an integer, 1 to 10; example: levels: 3"},
    {"levels: -1\n",
     "t:1:9: levels: '-1' is not an integer; expected an integer, 1 to 10; example: levels: 3"},
    {"predictor:\n  spread_quantile: 0.5\n",
     "t:2:20: predictor.spread_quantile: '0.5' is out of range; expected a number, above 0.5, at "
     "most 1; example: "
     "spread_quantile: 0.99"},
    {"predictor:\n  hysteresis: 1\n", "t:2:15: predictor.hysteresis: '1' is out of range; expected "
                                      "a number, at least 0, below 1; example: "
                                      "hysteresis: 0.1"},
    {"work:\n  priorities: [256]\n", "t:2:15: work.priorities: '256' is out of range; expected a "
                                     "list of integers, each 0 to 255; example: "
                                     "priorities: [9, 5, 1]"},
    {"static:\n  a: 10\n", "t:2:3: static: '10' is out of range; expected labels with integers, "
                           "each 0 to 9; example: static: "
                           "reserve_inventory: 0"},
    /* texts */
    {"intake:\n  queue:\n", "t:2:9: intake.queue: '' is no value (an empty text is written \"\"); "
                            "expected a name of 1 to 255 bytes; "
                            "example: queue: harbinger.intake"},
    {"intake:\n  queue: \"\"\n", "t:2:10: intake.queue: '' is empty; expected a name of 1 to 255 "
                                 "bytes; example: queue: harbinger.intake"},
    {"intake:\n  queue: ~\n", "t:2:10: intake.queue: '~' is no value (an empty text is written "
                              "\"\"); expected a name of 1 to 255 bytes; "
                              "example: queue: harbinger.intake"},
    {"intake:\n  queue: \"a\\0b\"\n", "t:2:10: intake.queue: 'a' has a control character; expected "
                                      "a name of 1 to 255 bytes; example: queue: "
                                      "harbinger.intake"},
    {"instance: a/b\n", "t:1:11: instance: 'a/b' has another character; expected at most 64 "
                        "letters, digits, '.', '_' or '-'; example: "
                        "instance: sidecar-1"},
    {"amqp:\n  uri: http://a\n", "t:2:8: amqp.uri: 'http://a' is not an AMQP URI; expected an "
                                 "amqp:// or amqps:// URI, or a list of them; "
                                 "example: uri: amqp://guest:guest@127.0.0.1:5672/%2f"},
    {"http:\n  listen: 9690\n", "t:2:11: http.listen: '9690' is not an address; expected "
                                "ADDRESS:PORT, or \"\"; example: listen: "
                                "127.0.0.1:9690"},
    {"http:\n  listen: a:65536\n", "t:2:11: http.listen: 'a:65536' is not an address; expected "
                                   "ADDRESS:PORT, or \"\"; example: listen: "
                                   "127.0.0.1:9690"},
    /* options that do not agree */
    {"levels: 3\ndefault_level: 3\n",
     "t:2:1: default_level: '3' is not below levels (3); expected auto or 0 to 2"},
    {"backend: redis\n", "t:1:10: backend: 'redis' is unknown; expected rabbitmq or "
                         "harbinger; example: backend: rabbitmq"},
    {"broker:\n  agin_threshold: 5s\n",
     "t:2:3: unknown key 'broker.agin_threshold' (nearest: 'broker.aging_threshold')"},
    {"broker:\n  weights: [8, 3]\n",
     "t:2:3: broker.weights: 2 weights for 3 levels; expected one for each, or []"},
    {"broker:\n  dead_overflow: refuse_submits\n  max_dead: 0\n",
     "t:2:3: broker: dead_overflow can refuse submits only with max_dead and max_dead_bytes above "
     "0"},
    {"intake:\n  channels: 32\n  window: 65535\n",
     "t:3:3: intake.window: 32 channels of 65535 messages are more than 200000 together"},
    {"levels: 2\nwork:\n  priorities: [9, 5, 1]\n",
     "t:3:3: work.priorities: 3 priorities for 2 levels; expected one for each, or []"},
    {"static:\n  slow: 3\n", "t:1:1: static.slow: level 3 is not below levels (3)"},
    {"work:\n  queue: harbinger.intake\n",
     "t:2:3: work.queue: 'harbinger.intake' is intake.queue too; expected a queue of its own"},
    {"amqp:\n  reconnect_max: 100ms\n", "t:2:3: amqp.reconnect_min: is above amqp.reconnect_max"},
    {"amqp:\n  heartbeat: 1500ms\n",
     "t:2:3: amqp.heartbeat: is not whole seconds, as AMQP wants; example: heartbeat: 20s"},
    {"predictor:\n  min: 10min\n", "t:2:3: predictor.min: is not below predictor.max"},
};

/* Each of these documents is refused with exactly this first line, and leaves nothing behind. */
START_TEST(bad_documents_are_refused_with_place_and_reason)
{
    const struct bad *b = &bad[_i];
    struct conf c;
    struct conf_errors errors = {0};
    ck_assert_int_eq(conf_load_text("t", b->text, strlen(b->text), &c, &errors), ERR_CONFIG);
    ck_assert_uint_ge(errors.n, 1);
    ck_assert_str_eq(errors.line[0], b->message);
    ck_assert_ptr_null(c.instance);
    conf_fini(&c);
}
END_TEST

/* One reading tells everything that is wrong, in the file's order. */
START_TEST(all_errors_are_reported)
{
    static const char text[] =
        "levels: 0\nmode: fast\nintake:\n  queu: a\n  window: [1]\nlog:\n  level: loud\n";
    struct conf c;
    struct conf_errors errors = {0};
    ck_assert_int_eq(conf_load_text("t", text, sizeof text - 1, &c, &errors), ERR_CONFIG);
    ck_assert_uint_eq(errors.n, 5);
    static const char *const places[] = {"t:1:9: levels", "t:2:7: mode", "t:4:3: unknown",
                                         "t:5:11: intake.window", "t:7:10: log.level"};
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        ck_assert_msg(strncmp(errors.line[i], places[i], strlen(places[i])) == 0, "%s",
                      errors.line[i]);
}
END_TEST

/* However many errors a file has, a bounded number is kept and all are counted. */
START_TEST(kept_errors_are_bounded)
{
    struct buf text = {0};
    struct conf c;
    struct conf_errors errors = {0};
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(buf_printf(&text, "x%d: 1\n", i), 0);
    ck_assert_int_eq(conf_load_text("t", text.p, text.n, &c, &errors), ERR_CONFIG);
    ck_assert_uint_eq(errors.n, 1000);
    ck_assert_int_eq(strncmp(errors.line[CONF_MAX_ERRORS - 1], "t:20:1: ", 8), 0);
    buf_fini(&text);
}
END_TEST

/* After an error in one option the next one is read as if nothing had been. */
START_TEST(what_is_skipped_is_one_node)
{
    static const char *const values[] = {"{a: [1, {b: 2}], c: 3}", "[a, [b, {c: d}], e]",
                                         "\n  - a\n  - b: c\n    d: e", "*alias",
                                         "\n  a:\n    b:\n      c: d"};
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        char text[256];
        struct conf c;
        struct conf_errors errors = {0};
        snprintf(text, sizeof text, "unknown_thing: %s\nlevels: 99\n", values[i]);
        ck_assert_int_eq(conf_load_text("t", text, strlen(text), &c, &errors), ERR_CONFIG);
        ck_assert_msg(strstr(errors.line[errors.n - 1], "levels: '99' is out of range") != NULL,
                      "%s", errors.line[errors.n - 1]);
    }
}
END_TEST

static int load_repeated(const char *unit, size_t times, struct conf_errors *errors)
{
    struct buf text = {0};
    struct conf c;
    for (size_t i = 0; i < times; i++)
        ck_assert_int_eq(buf_append(&text, unit, strlen(unit)), 0);
    int r = conf_load_text("t", text.p, text.n, &c, errors);
    conf_fini(&c);
    buf_fini(&text);
    return r;
}

/* Neither a huge nor a deeply nested text costs more than it may. */
START_TEST(size_and_depth_are_limited)
{
    struct conf_errors large = {0}, deep = {0}, comments = {0};
    ck_assert_int_eq(load_repeated("# 567890\n", CONF_MAX_BYTES / 9 + 1, &large), ERR_CONFIG);
    ck_assert_str_eq(large.line[0], "t: larger than 1 MiB");
    ck_assert_int_eq(load_repeated("? ", 40, &deep), ERR_CONFIG);
    ck_assert_str_eq(deep.line[deep.n - 1], "t:1:35: nested too deeply");
    ck_assert_int_eq(load_repeated("# 567890\n", CONF_MAX_BYTES / 9, &comments), 0);
}
END_TEST

/* A NUL byte is an error of its own, not the end of the text. */
START_TEST(nul_bytes_are_refused)
{
    static const char text[] = "levels: 2\n\0mode: bad\n";
    struct conf c;
    struct conf_errors errors = {0};
    ck_assert_int_eq(conf_load_text("t", text, sizeof text - 1, &c, &errors), ERR_CONFIG);
    ck_assert_str_eq(errors.line[0], "t:2:1: a NUL byte");
}
END_TEST

/* Nothing, only comments, empty sections, a byte order mark: the defaults. */
START_TEST(empty_documents_are_the_defaults)
{
    static const char *const texts[] = {"",
                                        "# nothing\n",
                                        "---\n",
                                        "--- # x\n...\n",
                                        "amqp:\nstatic:\nkey: # none\n",
                                        "\xef\xbb\xbflevels: 3\n",
                                        "levels: 3\r\namqp:\r\n  heartbeat: 20s\r\n"};
    struct conf defaults;
    ck_assert_int_eq(conf_init_defaults(&defaults), 0);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct conf c;
        struct conf_errors errors = {0};
        struct conf_change changes[CONF_MAX_OPTIONS];
        ck_assert_msg(conf_load_text("t", texts[i], strlen(texts[i]), &c, &errors) == 0, "%s",
                      errors.line[0]);
        ck_assert_uint_eq(conf_diff(&c, &defaults, changes), 0);
        conf_fini(&c);
    }
    conf_fini(&defaults);
}
END_TEST

/* Lists may be written in either style, and texts in any quotes. */
START_TEST(styles_mean_the_same)
{
    static const char *const texts[] = {
        "amqp:\n  uri: [amqp://a, \"amqp://b\"]\nkey:\n  label: [header:x, type]\n",
        "amqp:\n  uri:\n    - amqp://a\n    - 'amqp://b'\nkey:\n  label:\n  - header:x\n  - type\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct conf c;
        struct conf_errors errors = {0};
        ck_assert_msg(conf_load_text("t", texts[i], strlen(texts[i]), &c, &errors) == 0, "%s",
                      errors.line[0]);
        ck_assert_uint_eq(c.amqp.uri.n, 2);
        ck_assert_str_eq(c.amqp.uri.v[1], "amqp://b");
        ck_assert_uint_eq(c.key.label.n, 2);
        ck_assert_int_eq(c.key.label.v[0].kind, CONF_SOURCE_HEADER);
        ck_assert_str_eq(c.key.label.v[0].header, "x");
        ck_assert_int_eq(c.key.label.v[1].kind, CONF_SOURCE_TYPE);
        conf_fini(&c);
    }
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {all_errors_are_reported,     kept_errors_are_bounded,
                                  what_is_skipped_is_one_node, size_and_depth_are_limited,
                                  nul_bytes_are_refused,       empty_documents_are_the_defaults,
                                  styles_mean_the_same,        NULL};
    Suite *s = suite_of("conf_yaml", tests);
    TCase *table = tcase_create("bad documents");
    tcase_add_loop_test(table, bad_documents_are_refused_with_place_and_reason, 0,
                        (int)ARRAY_SIZE(bad));
    suite_add_tcase(s, table);
    return s;
}
