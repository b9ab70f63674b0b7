#include "amqp/uri.h"

#include "lib/testmain.h"

#include <stdio.h>
#include <string.h>

struct good {
    const char *text, *printed, *password;
};

/* Each address means what RabbitMQ's clients take it for, and prints without its password. */
START_TEST(addresses_mean_what_they_say)
{
    static const struct good all[] = {
        {"amqp://", "amqp://guest@localhost:5672/%2f", "guest"},
        {"amqp://host", "amqp://guest@host:5672/%2f", "guest"},
        {"AMQP://host/", "amqp://guest@host:5672/%2f", "guest"},
        {"amqp://u:p@host:1234//", "amqp://u@host:1234/%2f", "p"},
        {"amqp://u:p%40%3a@host/v%2fw", "amqp://u@host:5672/v%2fw", "p@:"},
        {"amqp://u:p@ss@host/v", "amqp://u@host:5672/v", "p@ss"},
        {"amqp://u@[::1]:5673/v", "amqp://u@[::1]:5673/v", "guest"},
        {"amqp://:@host", "amqp://@host:5672/%2f", ""},
        {"amqp://host?heartbeat=5", "amqp://guest@host:5672/%2f", "guest"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct uri u;
        struct err e = {0};
        char printed[URI_PRINT_MAX];
        ck_assert_msg(uri_parse(all[i].text, &u, &e) == 0, "%s: %s", all[i].text, e.msg);
        uri_print(&u, printed, sizeof printed);
        ck_assert_str_eq(printed, all[i].printed);
        ck_assert_str_eq(u.password, all[i].password);
    }
}
END_TEST

/* The query parameters are RabbitMQ's; absent ones are marked so. */
START_TEST(parameters_are_read)
{
    struct uri u;
    struct err e = {0};
    ck_assert_int_eq(
        uri_parse("amqp://h/v?heartbeat=0&connection_timeout=1500&channel_max=9&frame_max=8192"
                  "&auth_mechanism=EXTERNAL",
                  &u, &e),
        0);
    ck_assert_int_eq(u.heartbeat_s, 0);
    ck_assert_int_eq(u.connection_timeout_ms, 1500);
    ck_assert_int_eq(u.channel_max, 9);
    ck_assert_int_eq(u.frame_max, 8192);
    ck_assert_int_eq(u.mechanism, URI_EXTERNAL);
    ck_assert_int_eq(uri_parse("amqp://h", &u, &e), 0);
    ck_assert_int_eq(u.heartbeat_s, -1);
    ck_assert_int_eq(u.connection_timeout_ms, -1);
    ck_assert_int_eq(u.channel_max, -1);
    ck_assert_int_eq(u.frame_max, -1);
    ck_assert_int_eq(u.mechanism, URI_PLAIN);
}
END_TEST

struct bad {
    const char *text, *says;
};

/* What cannot be meant is refused by name, without showing the password. */
START_TEST(nonsense_is_refused_by_name)
{
    static const struct bad all[] = {
        {"amqps://u:secret@host", "not supported"},
        {"http://u:secret@host", "starts with amqp://"},
        {"amqp://u:secret@host:0", "port"},
        {"amqp://u:secret@host:65536", "port"},
        {"amqp://u:secret@host:x", "port"},
        {"amqp://u:secret%4@host", "password"},
        {"amqp://u:secret%00@host", "password"},
        {"amqp://u:secret@host/a/b", "%2f"},
        {"amqp://u:secret@[::1", "bracket"},
        {"amqp://u:secret@host?colour=1", "'colour'"},
        {"amqp://u:secret@host?heartbeat=x", "heartbeat"},
        {"amqp://u:secret@host?frame_max=10", "frame_max"},
        {"amqp://u:secret@host?auth_mechanism=x", "auth_mechanism"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct uri u;
        struct err e = {0};
        ck_assert_msg(uri_parse(all[i].text, &u, &e) == ERR_CONFIG, "%s", all[i].text);
        ck_assert_msg(strstr(e.msg, all[i].says) != NULL, "%s: %s", all[i].text, e.msg);
        ck_assert_ptr_null(strstr(e.msg, "secret"));
    }
}
END_TEST

/* Parts of 255 bytes are the longest, and the longest of all prints whole. */
START_TEST(long_parts_are_bounded)
{
    char part[257], text[1400], printed[URI_PRINT_MAX];
    struct uri u;
    struct err e = {0};
    memset(part, '/', sizeof part);
    part[256] = '\0';
    for (size_t i = 0; i < 255; i++)
        part[i] = 'x';
    part[255] = '\0';
    snprintf(text, sizeof text, "amqp://%s:%s@%s/%s", part, part, part, part);
    ck_assert_int_eq(uri_parse(text, &u, &e), 0);
    uri_print(&u, printed, sizeof printed);
    ck_assert_uint_eq(strlen(printed), 7 + 255 + 1 + 255 + 5 + 1 + 255);
    part[255] = 'x';
    part[256] = '\0';
    snprintf(text, sizeof text, "amqp://%s@h", part);
    ck_assert_int_eq(uri_parse(text, &u, &e), ERR_CONFIG);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {addresses_mean_what_they_say, parameters_are_read,
                                  nonsense_is_refused_by_name, long_parts_are_bounded, NULL};
    return suite_of("uri", tests);
}
