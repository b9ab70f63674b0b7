#include "trace/input.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { WINDOW = 4 * INPUT_AHEAD_MAX, PACKED = 64 * 1024, GZIP_WINDOW_BITS = 15 + 16 };

struct input {
    char *name;
    int fd; /* -1: from memory */
    const uint8_t *memory;
    size_t n_memory, memory_read;
    bool raw_end; /* nothing more comes from the file */

    bool gzip, inflating; /* inflating: inside a member */
    z_stream z;
    uint8_t *packed; /* what has been read and not yet unpacked, when it is gzip */

    uint8_t *window;
    size_t from, to; /* the unread bytes of the window */
    uint64_t taken;
};

static const struct {
    const char *name;
    uint8_t n, bytes[6];
} archives[] = {
    {"zip", 4, {'P', 'K', 3, 4}},
    {"rar", 4, {'R', 'a', 'r', '!'}},
    {"xz", 6, {0xfd, '7', 'z', 'X', 'Z', 0}},
    {"zstd", 4, {0x28, 0xb5, 0x2f, 0xfd}},
    {"bzip2", 3, {'B', 'Z', 'h'}},
    {"7z", 4, {'7', 'z', 0xbc, 0xaf}},
};

/* Up to `room` bytes as they are stored. 0 at the end. */
static int64_t read_raw(struct input *in, uint8_t *out, size_t room, struct err *e)
{
    if (in->fd < 0) {
        size_t n = in->n_memory - in->memory_read;
        n = n < room ? n : room;
        if (n > 0)
            memcpy(out, in->memory + in->memory_read, n);
        in->memory_read += n;
        return (int64_t)n;
    }
    ssize_t n;
    do
        n = read(in->fd, out, room);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_set(e, ERR_SYSTEM, "%s: %s", in->name, strerror(errno));
    return n;
}

/* Runs zlib over what is packed; sets how much came out. */
static int inflate_some(struct input *in, uint8_t *out, size_t room, size_t *made, struct err *e)
{
    in->z.next_out = out;
    in->z.avail_out = (uInt)room;
    if (!in->inflating) {
        if (inflateReset(&in->z) != Z_OK)
            return err_set(e, ERR_NOMEM, "%s: out of memory", in->name);
        in->inflating = true;
    }
    int r = inflate(&in->z, Z_NO_FLUSH);
    *made = room - in->z.avail_out;
    if (r == Z_STREAM_END)
        in->inflating = false;
    else if (r == Z_MEM_ERROR)
        return err_set(e, ERR_NOMEM, "%s: out of memory", in->name);
    else if (r != Z_OK && r != Z_BUF_ERROR)
        return err_set(e, ERR_CORRUPT,
                       "%s: the gzip data is damaged near unpacked byte %" PRIu64 " (%s)", in->name,
                       in->taken + (in->to - in->from),
                       in->z.msg != NULL ? in->z.msg : "no reason given");
    return 0;
}

/* Up to `room` unpacked bytes; 0 at the end. */
static int64_t read_gzip(struct input *in, uint8_t *out, size_t room, struct err *e)
{
    size_t made = 0;
    while (made == 0) {
        if (in->z.avail_in == 0 && !in->raw_end) {
            int64_t n = read_raw(in, in->packed, PACKED, e);
            if (n < 0)
                return n;
            in->raw_end = n == 0;
            in->z.next_in = in->packed;
            in->z.avail_in = (uInt)n;
        }
        if (in->z.avail_in == 0 && in->raw_end) {
            if (in->inflating)
                return err_set(e, ERR_CORRUPT, "%s: the gzip data is cut off", in->name);
            return 0;
        }
        int r = inflate_some(in, out, room, &made, e);
        if (r < 0)
            return r;
    }
    return (int64_t)made;
}

int64_t input_ahead(struct input *in, size_t n, const uint8_t **p, struct err *e)
{
    assert(n <= INPUT_AHEAD_MAX);
    if (in->to - in->from < n && WINDOW - in->from < INPUT_AHEAD_MAX) {
        memmove(in->window, in->window + in->from, in->to - in->from);
        in->to -= in->from;
        in->from = 0;
    }
    while (in->to - in->from < n) {
        int64_t more = in->gzip ? read_gzip(in, in->window + in->to, WINDOW - in->to, e)
                                : read_raw(in, in->window + in->to, WINDOW - in->to, e);
        if (more < 0)
            return more;
        if (more == 0)
            break;
        in->to += (size_t)more;
    }
    *p = in->window + in->from;
    return (int64_t)(in->to - in->from);
}

void input_skip(struct input *in, size_t n)
{
    assert(n <= in->to - in->from);
    in->from += n;
    in->taken += n;
}

uint64_t input_offset(const struct input *in)
{
    return in->taken;
}

const char *input_name(const struct input *in)
{
    return in->name;
}

/* Looks at the first bytes: what they are read so far becomes zlib's input when it is gzip. */
static int recognise(struct input *in, struct err *e)
{
    const uint8_t *p;
    int64_t n = input_ahead(in, 6, &p, e);
    if (n < 0)
        return (int)n;
    for (size_t i = 0; i < ARRAY_SIZE(archives); i++)
        if (n >= archives[i].n && memcmp(p, archives[i].bytes, archives[i].n) == 0)
            return err_set(e, ERR_INVALID, "%s: this is a %s archive; only gzip is read directly",
                           in->name, archives[i].name);
    if (n < 2 || p[0] != 0x1f || p[1] != 0x8b)
        return 0;
    if (in->packed == NULL) {
        in->packed = malloc(WINDOW > PACKED ? WINDOW : PACKED);
        if (in->packed == NULL || inflateInit2(&in->z, GZIP_WINDOW_BITS) != Z_OK) {
            free(in->packed);
            in->packed = NULL;
            return err_set(e, ERR_NOMEM, "%s: out of memory", in->name);
        }
    }
    memcpy(in->packed, p, (size_t)n);
    in->z.next_in = in->packed;
    in->z.avail_in = (uInt)n;
    in->from = in->to = 0;
    in->gzip = true;
    in->inflating = false;
    return 0;
}

static struct input *input_new(const char *name, int fd)
{
    struct input *in = calloc(1, sizeof *in);
    if (in == NULL)
        return NULL;
    in->fd = fd;
    in->name = strdup(name);
    in->window = malloc(WINDOW);
    if (in->name != NULL && in->window != NULL)
        return in;
    in->fd = -1; /* stays the caller's */
    input_close(in);
    return NULL;
}

static int finish_open(struct input *in, struct input **out, struct err *e)
{
    int r = recognise(in, e);
    if (r < 0)
        input_close(in);
    else
        *out = in;
    return r;
}

int input_open(struct input **out, const char *path, struct err *e)
{
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    const char *name = standard ? "standard input" : path;
    if (fd < 0)
        return err_set(e, ERR_SYSTEM, "%s: %s", name, strerror(errno));
    struct input *in = input_new(name, fd);
    if (in == NULL) {
        close(fd);
        return err_set(e, ERR_NOMEM, "%s: out of memory", name);
    }
    return finish_open(in, out, e);
}

int input_open_bytes(struct input **out, const char *name, const void *bytes, size_t n,
                     struct err *e)
{
    struct input *in = input_new(name, -1);
    if (in == NULL)
        return err_set(e, ERR_NOMEM, "%s: out of memory", name);
    in->memory = bytes;
    in->n_memory = n;
    return finish_open(in, out, e);
}

void input_close(struct input *in)
{
    if (in == NULL)
        return;
    if (in->packed != NULL)
        inflateEnd(&in->z);
    if (in->fd >= 0)
        close(in->fd);
    free(in->packed);
    free(in->window);
    free(in->name);
    free(in);
}

int input_rewind(struct input *in, struct err *e)
{
    if (in->fd >= 0 && lseek(in->fd, 0, SEEK_SET) < 0)
        return err_set(e, errno == ESPIPE ? ERR_INVALID : ERR_SYSTEM,
                       "%s: cannot be read a second time: %s", in->name, strerror(errno));
    in->memory_read = 0;
    in->from = in->to = 0;
    in->taken = 0;
    in->raw_end = in->gzip = false;
    return recognise(in, e);
}
