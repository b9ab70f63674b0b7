#include "store/store.h"

#include "lib/testmain.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each test runs in its own process and directory. */
static char dir[64], path[128], prev[128], tmp[128];

static void setup(void)
{
    strcpy(dir, "/tmp/harbinger-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/state", dir);
    snprintf(prev, sizeof prev, "%s/state.prev", dir);
    snprintf(tmp, sizeof tmp, "%s/state.tmp", dir);
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* Takes what begins with 'g', and keeps it. */
struct taken {
    char text[64];
    size_t n;
};

static int take(void *ctx, const void *bytes, size_t n, struct err *err)
{
    struct taken *t = ctx;
    if (n == 0 || *(const char *)bytes != 'g')
        return err_set(err, ERR_CORRUPT, "does not begin with g");
    t->n = n;
    snprintf(t->text, sizeof t->text, "%.*s", n < 60 ? (int)n : 60, (const char *)bytes);
    return 0;
}

static void save(const char *text)
{
    struct err err = {0};
    ck_assert_msg(store_save(path, text, strlen(text), &err) == 0, "%s", err.msg);
}

static void save_must_fail(const char *with, const char *words)
{
    struct err err = {0};
    ck_assert_int_eq(store_save(path, with, strlen(with), &err), ERR_SYSTEM);
    ck_assert_msg(strstr(err.msg, dir) != NULL && strstr(err.msg, words) != NULL, "%s", err.msg);
}

static struct store_loaded load_expecting(enum store_source source, const char *text)
{
    struct store_loaded out;
    struct taken t = {0};
    store_load(path, take, &t, &out);
    ck_assert_msg(out.source == source, "%d, not %d: %s", out.source, source, out.note);
    ck_assert_str_eq(t.text, text);
    return out;
}

static void put(const char *where, const char *text)
{
    FILE *f = fopen(where, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* What was saved is loaded, the one before lies beside it, and only the owner may read either. */
START_TEST(saves_keep_the_one_before)
{
    load_expecting(STORE_ABSENT, "");
    save("g1");
    load_expecting(STORE_CURRENT, "g1");
    save("g2");
    save("g3");
    load_expecting(STORE_CURRENT, "g3");
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(unlink(path), 0);
    load_expecting(STORE_PREVIOUS, "g2");
    ck_assert_int_ne(access(tmp, F_OK), 0);
}
END_TEST

/* A refused file is answered from the rollback copy, and the note says which and why. */
START_TEST(a_refused_file_falls_back)
{
    save("g1");
    save("g2");
    put(path, "bad");
    struct store_loaded out = load_expecting(STORE_PREVIOUS, "g1");
    ck_assert_ptr_nonnull(strstr(out.note, prev));
    ck_assert_ptr_nonnull(strstr(out.note, "state: does not begin with g"));
    put(prev, "bad too");
    out = load_expecting(STORE_REFUSED, "");
    ck_assert_ptr_nonnull(strstr(out.note, "state: does not begin with g; "));
    ck_assert_ptr_nonnull(strstr(out.note, "state.prev: does not begin with g"));
}
END_TEST

/* Whatever is no regular file is neither followed nor replaced, and is named. */
START_TEST(links_and_directories_are_refused)
{
    char target[128];
    snprintf(target, sizeof target, "%s/target", dir);
    put(target, "g target");
    ck_assert_int_eq(symlink(target, path), 0);
    save_must_fail("g1", "a symbolic link");
    load_expecting(STORE_REFUSED, "");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    save_must_fail("g1", "a directory");
    load_expecting(STORE_REFUSED, "");
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    save_must_fail("g1", "a special file");
    load_expecting(STORE_REFUSED, "");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink(target, tmp), 0);
    save("g1");
    load_expecting(STORE_CURRENT, "g1");
    struct stat st;
    ck_assert_int_eq(stat(target, &st), 0);
    ck_assert_int_eq(st.st_size, 8);
}
END_TEST

/* A missing directory and an unusable path are errors that name the path, not crashes. */
START_TEST(impossible_paths_are_errors)
{
    struct err err = {0};
    ck_assert_int_eq(store_save("/nonexistent/x", "g", 1, &err), ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "/nonexistent/x"));
    ck_assert_int_eq(store_save("", "g", 1, &err), ERR_SYSTEM);
    char *longer = calloc(1, 5000);
    memset(longer, 'a', 4999);
    ck_assert_int_eq(store_save(longer, "g", 1, &err), ERR_SYSTEM);
    struct store_loaded out;
    store_load(longer, take, NULL, &out);
    ck_assert_int_eq(out.source, STORE_REFUSED);
    free(longer);
}
END_TEST

/* A directory that may not be written: nothing changes. Root may write anywhere but to a read-only
 * mount. */
START_TEST(read_only_changes_nothing)
{
    save("g1");
    save("g2");
    if (geteuid() == 0) {
        if (mount(dir, dir, NULL, MS_BIND, NULL) != 0)
            return; /* a container without that right */
        ck_assert_int_eq(mount(NULL, dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
    } else {
        ck_assert_int_eq(chmod(dir, 0500), 0);
    }
    save_must_fail("g3", "state.tmp");
    load_expecting(STORE_CURRENT, "g2");
    if (geteuid() == 0)
        umount(dir);
    else
        chmod(dir, 0700);
}
END_TEST

/* A write that fails after any number of bytes (as on a full disk) leaves both files and no
 * remains. */
START_TEST(a_short_write_changes_nothing)
{
    save("g1");
    save("g2");
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < 6; limit++) {
        struct rlimit old, now;
        getrlimit(RLIMIT_FSIZE, &old);
        now = (struct rlimit){limit, old.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &now), 0);
        struct err err = {0};
        int r = store_save(path, "gbytes", 6, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        ck_assert_int_eq(r, ERR_SYSTEM);
        ck_assert_ptr_nonnull(strstr(err.msg, "state.tmp: cannot write"));
        load_expecting(STORE_CURRENT, "g2");
        ck_assert_int_ne(access(tmp, F_OK), 0);
    }
    put(path, "bad");
    load_expecting(STORE_PREVIOUS, "g1");
}
END_TEST

/* Killed by the kernel after any number of bytes: the remains are ignored, and the next save works.
 */
START_TEST(killed_in_a_write_changes_nothing)
{
    save("g1");
    save("g2");
    for (rlim_t limit = 0; limit < 6; limit++) {
        pid_t child = fork();
        if (child == 0) {
            struct rlimit now = {limit, limit};
            struct err err;
            signal(SIGXFSZ, SIG_DFL);
            setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
            setrlimit(RLIMIT_FSIZE, &now);
            _exit(store_save(path, "gbytes", 6, &err) < 0);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
        ck_assert_int_eq(access(tmp, F_OK), 0);
        load_expecting(STORE_CURRENT, "g2");
    }
    save("g3");
    load_expecting(STORE_CURRENT, "g3");
    put(path, "bad");
    load_expecting(STORE_PREVIOUS, "g2");
}
END_TEST

/* Killed at random moments while saving in a loop: there is always a complete content to load. */
START_TEST(killed_at_any_moment_leaves_a_whole_content)
{
    save("g0");
    save("g0");
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        if (child == 0) {
            struct err err;
            char text[4096];
            memset(text, 'x', sizeof text);
            text[0] = 'g';
            for (;;)
                if (store_save(path, text, sizeof text, &err) < 0)
                    _exit(1);
        }
        usleep((useconds_t)(random() % 3000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct store_loaded out;
        struct taken t = {0};
        store_load(path, take, &t, &out);
        ck_assert_msg(out.source == STORE_CURRENT, "%s", out.note);
        ck_assert(t.n == sizeof(char[4096]) || t.n == 2);
        ck_assert_int_eq(access(prev, F_OK), 0);
    }
}
END_TEST

/* A full file system (64 KiB): the save fails and says so, what was there stays. */
START_TEST(a_full_disk_changes_nothing)
{
    if (geteuid() != 0 || mount("tmpfs", dir, "tmpfs", 0, "size=64k") != 0)
        return; /* only root can make one; the limits above cover the same path */
    save("g1");
    char *large = malloc(80000);
    memset(large, 'g', 80000);
    struct err err = {0};
    ck_assert_int_eq(store_save(path, large, 80000, &err), ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, strerror(ENOSPC)));
    load_expecting(STORE_CURRENT, "g1");
    save("g2");
    load_expecting(STORE_CURRENT, "g2");
    free(large);
    umount(dir);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {
        saves_keep_the_one_before,         a_refused_file_falls_back,
        links_and_directories_are_refused, impossible_paths_are_errors,
        read_only_changes_nothing,         a_short_write_changes_nothing,
        killed_in_a_write_changes_nothing, killed_at_any_moment_leaves_a_whole_content,
        a_full_disk_changes_nothing,       NULL};
    Suite *s = suite_create("store");
    TCase *tc = tcase_create("store");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    for (const TTest *const *t = tests; *t != NULL; t++)
        tcase_add_test(tc, *t);
    suite_add_tcase(s, tc);
    return s;
}
