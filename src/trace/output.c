#include "trace/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER = 128 * 1024 };

struct output {
    char *path;
    const char *name; /* for messages */
    bool removable;
    gzFile gz; /* plain files as well: zlib's transparent mode */
};

static bool ends_in_gz(const char *path)
{
    size_t n = strlen(path);
    return n >= 3 && strcmp(path + n - 3, ".gz") == 0;
}

static bool is_plain_file(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

int output_open(struct output **out, const char *path, struct err *e)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard output" : path;
    int r = ERR_NOMEM;
    struct output *o = calloc(1, sizeof *o);
    if (o == NULL || (o->path = strdup(path)) == NULL)
        goto err0;
    o->name = standard ? "standard output" : o->path;
    int fd = standard ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                      : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        r = err_set(e, ERR_SYSTEM, "%s: %s", name, strerror(errno));
        goto err1;
    }
    o->removable = !standard && is_plain_file(fd);
    o->gz = gzdopen(fd, ends_in_gz(path) ? "wb" : "wbT");
    if (o->gz == NULL) {
        close(fd);
        goto err0;
    }
    gzbuffer(o->gz, BUFFER);
    *out = o;
    return 0;

err0:
    err_set(e, ERR_NOMEM, "%s: out of memory", name);
err1:
    if (o != NULL)
        free(o->path);
    free(o);
    return r;
}

static int failed(const struct output *o, int zlib_error, struct err *e)
{
    const char *why = zlib_error == Z_ERRNO && errno != 0 ? strerror(errno) : "cannot be written";
    return err_set(e, ERR_SYSTEM, "%s: %s", o->name, why);
}

int output_write(struct output *o, const void *data, size_t n, struct err *e)
{
    errno = 0;
    if (n == 0 || gzfwrite(data, 1, n, o->gz) == n)
        return 0;
    int zlib_error;
    gzerror(o->gz, &zlib_error);
    return failed(o, zlib_error, e);
}

static void output_free(struct output *o)
{
    free(o->path);
    free(o);
}

int output_close(struct output *o, struct err *e)
{
    errno = 0;
    int z = gzclose_w(o->gz);
    int r = z == Z_OK ? 0 : failed(o, z, e);
    output_free(o);
    return r;
}

void output_abandon(struct output *o)
{
    if (o == NULL)
        return;
    if (o->removable)
        unlink(o->path);
    gzclose_w(o->gz);
    output_free(o);
}
