#include "conf/conf.h"

#include "base/err.h"
#include "conf/conf_doc.h"
#include "conf/conf_table.h"
#include "lib/testmain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct conf load(const char *text)
{
    struct conf c;
    struct conf_errors errors = {0};
    ck_assert_msg(conf_load_text("t", text, strlen(text), &c, &errors) == 0, "%s", errors.line[0]);
    return c;
}

/* The defaults are the documented numbers, and they agree with each other. */
START_TEST(defaults_are_the_documented_ones)
{
    struct conf c;
    struct conf_errors errors = {0};
    ck_assert_int_eq(conf_init_defaults(&c), 0);
    ck_assert_int_eq(conf_check(&c, &errors), 0);
    ck_assert_str_eq(c.instance, "");
    ck_assert_int_eq(c.mode, CONF_MODE_PREDICTIVE);
    ck_assert_uint_eq(c.levels, 3);
    ck_assert_int_eq(c.default_level, CONF_LEVEL_AUTO);
    ck_assert_uint_eq(c.amqp.uri.n, 1);
    ck_assert_int_eq(c.amqp.heartbeat, 20 * MONO_S);
    ck_assert_uint_eq(c.amqp.frame_max, 131072);
    ck_assert_int_eq(c.amqp.reconnect_min, 500 * MONO_MS);
    ck_assert_uint_eq(c.intake.window, 500);
    ck_assert_uint_eq(c.intake.window_bytes, 16u << 20);
    ck_assert_uint_eq(c.work.priorities.n, 0);
    ck_assert(!c.work.impersonate);
    ck_assert_int_eq(c.reports.max_duration, 1800 * MONO_S);
    ck_assert_uint_eq(c.reports.remembered_ids, 1000000);
    ck_assert_uint_eq(c.key.label.n, 3);
    ck_assert_str_eq(c.key.label.v[0].header, "job_type");
    ck_assert_int_eq(c.key.size.kind, CONF_SOURCE_NONE);
    ck_assert_uint_eq(c.predictor.min_samples, 20);
    ck_assert_double_eq(c.predictor.global_decay, 0.9999);
    ck_assert_int_eq(c.predictor.max, 600 * MONO_S);
    ck_assert_uint_eq(c.predictor.histogram_bins, 48);
    ck_assert_str_eq(c.snapshot.path, CONF_PATH_AUTO);
    ck_assert_int_eq(c.log.level, LOG_INFO);
    ck_assert_int_eq(c.shutdown.timeout, 30 * MONO_S);
    conf_fini(&c);
    conf_fini(&c);
}
END_TEST

/* Every row can be read, names a section that is described, and its printed default is its preset's
 * meaning. */
START_TEST(rows_are_consistent)
{
    size_t n;
    const struct conf_option *rows = conf_table(&n);
    struct conf c;
    ck_assert_int_eq(conf_init_defaults(&c), 0);
    for (size_t i = 0; i < n; i++) {
        struct conf_errors errors = {0};
        const struct conf_option *o = &rows[i];
        char assignment[256], expected[192];
        size_t section = strcspn(o->key, ".");
        ck_assert_int_eq(conf_table_find(o->key, strlen(o->key)), (int)i);
        if (o->key[section] != '\0') {
            int at = conf_table_section(o->key, section);
            ck_assert_msg(at >= 0, "%s", o->key);
            ck_assert_mem_eq(conf_table_first_of(at)->key, o->key, section + 1);
        }
        conf_table_expected(o, expected, sizeof expected);
        ck_assert_uint_gt(strlen(expected), 0);
        ck_assert_msg(o->help[strlen(o->help) - 1] == '.', "%s", o->key);
        if (o->min == NULL || o->type == CONF_T_LABELS || o->type == CONF_T_NUMBERS)
            continue;
        /* Both ends of a range are numbers of the option's own kind. */
        snprintf(assignment, sizeof assignment, "%s=%s", o->key, o->max + (o->max[0] == '<'));
        ck_assert_int_eq(conf_set(&c, assignment, &errors), o->max[0] == '<' ? ERR_CONFIG : 0);
        snprintf(assignment, sizeof assignment, "%s=%s", o->key, o->min + (o->min[0] == '>'));
        ck_assert_int_eq(conf_set(&c, assignment, &errors), o->min[0] == '>' ? ERR_CONFIG : 0);
    }
    conf_fini(&c);
}
END_TEST

/* What is printed reads back as the same configuration, odd names included. */
START_TEST(printed_files_read_back)
{
    static const char *const texts[] = {
        "",
        ("levels: 5\ndefault_level: 4\nwork:\n  priorities: [9, 7, 5, 3, 1]\n  exchange: \"a: # "
         "\\\"b\\\\ \xc3\xa4\"\n"),
        "static:\n  a b: 1\n  'null': 2\n  zz: 0\n  '-': 1\n  'x:': 1\n  '[': 0\n",
        "amqp:\n  uri: [amqp://a, amqps://b/x?heartbeat=5]\n  heartbeat: 0\n  frame_max: 5000B\n",
        "key:\n  producer: []\n  label: ['header:a, b', type]\n  size: header:n\n",
        "predictor:\n  decay: 0.1234567890123\n  max_spread_ratio: 1e9\n  stale_after: 90s\n",
        "intake:\n  queue: ...\nparked:\n  queue: 123\nsnapshot:\n  path: \"\"\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct buf out = {0};
        struct conf_change changes[CONF_MAX_OPTIONS];
        struct conf c = load(texts[i]);
        ck_assert_int_eq(conf_print(&c, &out), 0);
        struct conf again = load(out.p);
        ck_assert_uint_eq(conf_diff(&c, &again, changes), 0);
        conf_fini(&c);
        conf_fini(&again);
        buf_fini(&out);
    }
}
END_TEST

/* Passwords in URIs never show, wherever the URI stands. */
START_TEST(printed_files_hide_passwords)
{
    struct conf c = load("amqp:\n  uri: [amqp://u:se:cr@et@h/v, amqp://h, amqp://user@h, "
                         " \"amqps://x:secret@[::1]:5/?a=b:c@d\"]\n");
    struct buf out = {0};
    ck_assert_int_eq(conf_print(&c, &out), 0);
    ck_assert_ptr_null(strstr(out.p, "se:cr"));
    ck_assert_ptr_null(strstr(out.p, "secret"));
    ck_assert_ptr_nonnull(strstr(
        out.p, "[amqp://u:***@h/v, amqp://h, amqp://user@h, \"amqps://x:***@[::1]:5/?a=b:c@d\"]"));
    conf_fini(&c);
    buf_fini(&out);
}
END_TEST

/* --set takes values as an argument writes them: no quotes, lists in brackets, dots in labels. */
START_TEST(set_changes_one_option)
{
    struct conf c;
    struct conf_errors errors = {0};
    ck_assert_int_eq(conf_init_defaults(&c), 0);
    ck_assert_int_eq(conf_set(&c, "intake.window=100", &errors), 0);
    ck_assert_uint_eq(c.intake.window, 100);
    ck_assert_int_eq(conf_set(&c, "amqp.uri=amqp://a:b=c@h/v?x=y", &errors), 0);
    ck_assert_str_eq(c.amqp.uri.v[0], "amqp://a:b=c@h/v?x=y");
    ck_assert_int_eq(conf_set(&c, "key.label=[header:a,  type ]", &errors), 0);
    ck_assert_uint_eq(c.key.label.n, 2);
    ck_assert_int_eq(conf_set(&c, "key.label=[]", &errors), 0);
    ck_assert_uint_eq(c.key.label.n, 0);
    ck_assert_int_eq(conf_set(&c, "http.listen=", &errors), 0);
    ck_assert_str_eq(c.http.listen, "");
    ck_assert_int_eq(conf_set(&c, "static.a.b c=2", &errors), 0);
    ck_assert_int_eq(conf_set(&c, "static.a.b c=1", &errors), 0);
    ck_assert_int_eq(conf_static_level(&c, "a.b c", 5), 1);
    ck_assert_int_eq(conf_static_level(&c, "a.b", 3), -1);
    ck_assert_uint_eq(errors.n, 0);
    conf_fini(&c);
}
END_TEST

/* Options of the proxy that do not go together are refused by name; those that do are not. */
START_TEST(the_proxys_options_go_together)
{
    static const struct {
        const char *sets[3], *message;
    } cases[] = {
        {{"proxy.listen=127.0.0.1:1", "levels=3", "levels=3"}, "proxy.listen: needs backend"},
        {{"backend=harbinger", "proxy.listen=127.0.0.1:5", "rpc.listen=127.0.0.1:5"},
         "proxy.listen: is rpc.listen too"},
        {{"backend=harbinger", "proxy.listen=127.0.0.1:0", "rpc.listen=127.0.0.1:0"}, NULL},
        {{"proxy.key=/k", "levels=3", "levels=3"}, "proxy.key: needs proxy.certificate"},
        {{"proxy.certificate=/c", "levels=3", "levels=3"}, NULL},
        {{"proxy.upstream_ca=/c", "levels=3", "levels=3"}, "proxy.upstream_ca: needs"},
        {{"proxy.upstream_ca=/c", "proxy.upstream_tls=true", "levels=3"}, NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct conf c;
        struct conf_errors errors = {0};
        int r = conf_load_file(NULL, cases[i].sets, 3, &c, &errors);
        if (cases[i].message == NULL) {
            ck_assert_int_eq(r, 0);
            conf_fini(&c);
            continue;
        }
        ck_assert_int_lt(r, 0);
        ck_assert_uint_eq(errors.n, 1);
        ck_assert_msg(strstr(errors.line[0], cases[i].message) != NULL, "%s", errors.line[0]);
    }
}
END_TEST

/* A bad --set says why and changes nothing. */
START_TEST(bad_sets_change_nothing)
{
    static const struct {
        const char *set, *message;
    } sets[] = {
        {"intake.window", "--set: 'intake.window' has no '='; expected KEY=VALUE"},
        {"intake.windw=5", "--set: unknown key 'intake.windw' (nearest: 'intake.window')"},
        {"=5", "--set: unknown key ''"},
        {"intake=5", "--set: 'intake' is a section; expected one of its options; example: --set "
                     "intake.queue=harbinger.intake"},
        {"static=5", "--set: static: a value stands where labels are expected; expected labels "
                     "with integers, each 0 to 9"},
        {"static.=5", "--set: static: '' is not a label of 1 to 128 bytes; expected labels with "
                      "integers, each 0 to 9; "
                      "example: static: reserve_inventory: 0"},
        {"levels=x\ny", "--set: levels: 'x\\x0ay' is not an integer; expected an integer, 1 to 10; "
                        "example: levels: 3"},
        {"intake.queue=\xff",
         "--set: intake.queue: '\xff' is not UTF-8; expected a name of 1 to 255 bytes; example: "
         "queue: harbinger.intake"},
        {"work.priorities=[1,2,3,4,5,6,7,8,9,10,11]",
         "--set: work.priorities: the list is too long; expected a list of integers, each 0 to "
         "255"},
    };
    struct conf c, defaults;
    struct conf_change changes[CONF_MAX_OPTIONS];
    ck_assert_int_eq(conf_init_defaults(&c), 0);
    ck_assert_int_eq(conf_init_defaults(&defaults), 0);
    for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
        struct conf_errors errors = {0};
        ck_assert_int_eq(conf_set(&c, sets[i].set, &errors), ERR_CONFIG);
        ck_assert_str_eq(errors.line[0], sets[i].message);
    }
    ck_assert_uint_eq(conf_diff(&c, &defaults, changes), 0);
    conf_fini(&c);
    conf_fini(&defaults);
}
END_TEST

/* A reload takes over what can be taken over; the rest keeps running as it was. */
START_TEST(reload_moves_only_reloadable_options)
{
    struct conf running = load("");
    struct conf fresh = load("mode: static\nintake:\n  window: 7\nstatic:\n  a: 2\n");
    struct conf_change changes[CONF_MAX_OPTIONS];
    struct conf_errors errors = {0};
    ck_assert_uint_eq(conf_diff(&running, &fresh, changes), 3);
    ck_assert_str_eq(changes[0].key, "mode");
    ck_assert(changes[0].reloadable);
    ck_assert_str_eq(changes[1].key, "intake.window");
    ck_assert(!changes[1].reloadable);
    ck_assert_str_eq(changes[2].key, "static");
    ck_assert_int_eq(conf_reload(&running, &fresh, &errors), 0);
    ck_assert_int_eq(running.mode, CONF_MODE_STATIC);
    ck_assert_uint_eq(running.intake.window, 500);
    ck_assert_int_eq(conf_static_level(&running, "a", 1), 2);
    conf_fini(&running);
    conf_fini(&fresh);
}
END_TEST

/* A fresh file that is fine by itself but not beside the running options changes nothing. */
START_TEST(reload_that_does_not_agree_changes_nothing)
{
    struct conf running = load("levels: 2\nmode: shadow\n");
    struct conf fresh = load("levels: 4\nmode: static\nstatic:\n  a: 3\n");
    struct conf_errors errors = {0};
    ck_assert_int_eq(conf_reload(&running, &fresh, &errors), ERR_CONFIG);
    ck_assert_str_eq(errors.line[0], "t:3:1: static.a: level 3 is not below levels (2)");
    ck_assert_int_eq(running.mode, CONF_MODE_SHADOW);
    ck_assert_uint_eq(running.static_levels.n, 0);
    ck_assert_int_eq(fresh.mode, CONF_MODE_STATIC);
    conf_fini(&running);
    conf_fini(&fresh);
}
END_TEST

/* auto is the middle level; priorities fall from levels-1 unless they are listed. */
START_TEST(levels_resolve)
{
    static const unsigned middle[] = {0, 0, 1, 1, 2, 2};
    for (unsigned levels = 1; levels < ARRAY_SIZE(middle); levels++) {
        char text[32];
        snprintf(text, sizeof text, "levels: %u\n", levels);
        struct conf c = load(text);
        ck_assert_uint_eq(conf_default_level(&c), middle[levels]);
        ck_assert_uint_eq(conf_priority(&c, 0), levels - 1);
        ck_assert_uint_eq(conf_priority(&c, levels - 1), 0);
        conf_fini(&c);
    }
    struct conf c = load("default_level: 2\nwork:\n  priorities: [9, 5, 1]\n");
    ck_assert_uint_eq(conf_default_level(&c), 2);
    ck_assert_uint_eq(conf_priority(&c, 1), 5);
    conf_fini(&c);
}
END_TEST

/* However many labels there are and however they come, each is found again. */
START_TEST(labels_are_found)
{
    struct conf c;
    struct conf_errors errors = {0};
    char set[64];
    ck_assert_int_eq(conf_init_defaults(&c), 0);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(set, sizeof set, "static.l%u=%u", i * 7919 % 1000, i * 7919 % 3);
        ck_assert_int_eq(conf_set(&c, set, &errors), 0);
    }
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(set, sizeof set, "l%u", i);
        unsigned k = 0;
        while (k * 7919 % 1000 != i)
            k++;
        ck_assert_int_eq(conf_static_level(&c, set, strlen(set)), (int)(k * 7919 % 3));
    }
    ck_assert_int_eq(conf_static_level(&c, "l", 1), -1);
    conf_fini(&c);
}
END_TEST

static void in_temp(char *dir, size_t size)
{
    snprintf(dir, size, "/tmp/harbinger-conf-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

/* What cannot be read is named with the system's reason. */
START_TEST(unreadable_files_are_named)
{
    char dir[64], path[128], expected[256];
    struct conf c;
    struct conf_errors missing = {0}, directory = {0}, forbidden = {0};
    in_temp(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/none.yaml", dir);
    ck_assert_int_eq(conf_load_file(path, NULL, 0, &c, &missing), ERR_SYSTEM);
    snprintf(expected, sizeof expected, "%s: cannot open: No such file or directory", path);
    ck_assert_str_eq(missing.line[0], expected);
    ck_assert_int_eq(conf_load_file(dir, NULL, 0, &c, &directory), ERR_SYSTEM);
    snprintf(expected, sizeof expected, "%s: cannot read: Is a directory", dir);
    ck_assert_str_eq(directory.line[0], expected);
    int fd = open(path, O_CREAT | O_WRONLY, 0);
    ck_assert_int_ge(fd, 0);
    close(fd);
    int r = conf_load_file(path, NULL, 0, &c, &forbidden);
    snprintf(expected, sizeof expected, "%s: cannot open: Permission denied", path);
    if (geteuid() != 0) /* root reads everything */
        ck_assert_str_eq(forbidden.line[0], expected);
    else
        ck_assert_int_eq(r, 0);
    conf_fini(&c);
    unlink(path);
    rmdir(dir);
}
END_TEST

/* --set wins over the file, errors of both are told, and an agreement of both is what counts. */
START_TEST(sets_come_after_the_file)
{
    char dir[64], path[128];
    in_temp(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/h.yaml", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("levels: 4\ndefault_level: 3\n", f);
    fclose(f);
    struct conf c;
    struct conf_errors errors = {0}, bad = {0};
    static const char *const sets[] = {"levels=2", "default_level=1"};
    ck_assert_int_eq(conf_load_file(path, sets, 2, &c, &errors), 0);
    ck_assert_uint_eq(c.levels, 2);
    conf_fini(&c);
    ck_assert_int_eq(conf_load_file(path, sets, 1, &c, &bad), ERR_CONFIG);
    ck_assert_ptr_nonnull(
        strstr(bad.line[0], "h.yaml:2:1: default_level: '3' is not below levels (2)"));
    unlink(path);
    rmdir(dir);
    ck_assert_int_eq(conf_load_file(NULL, sets, 1, &c, &errors), 0);
    conf_fini(&c);
}
END_TEST

/* The shortest file is a valid one, and --help names every option. */
START_TEST(generated_texts_are_complete)
{
    struct conf defaults;
    struct buf minimal = {0}, help = {0};
    size_t n;
    const struct conf_option *rows = conf_table(&n);
    ck_assert_int_eq(conf_init_defaults(&defaults), 0);
    ck_assert_int_eq(conf_doc_minimal(&defaults, &minimal), 0);
    struct conf c = load(minimal.p);
    conf_fini(&c);
    ck_assert_int_eq(conf_doc_help(&defaults, &help), 0);
    ck_assert_ptr_nonnull(strstr(help.p, "(R): "));
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(strstr(help.p, rows[i].key) != NULL, "%s", rows[i].key);
    buf_fini(&minimal);
    buf_fini(&help);
    conf_fini(&defaults);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {defaults_are_the_documented_ones,
                                  rows_are_consistent,
                                  printed_files_read_back,
                                  printed_files_hide_passwords,
                                  set_changes_one_option,
                                  the_proxys_options_go_together,
                                  bad_sets_change_nothing,
                                  reload_moves_only_reloadable_options,
                                  reload_that_does_not_agree_changes_nothing,
                                  levels_resolve,
                                  labels_are_found,
                                  unreadable_files_are_named,
                                  sets_come_after_the_file,
                                  generated_texts_are_complete,
                                  NULL};
    return suite_of("conf", tests);
}
