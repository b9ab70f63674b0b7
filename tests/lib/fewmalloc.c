/*
 * An allocator that fails at random, loaded before a program with LD_PRELOAD. FEWMALLOC names a file
 * of two numbers of 32 bits in the machine's order: one allocation in the first fails, 0 = none; the
 * second counts them. Whoever writes the file changes that while the program runs.
 *
 * The sequence is the same in each run; which allocation meets it is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The C library's own, under names that nobody else defines. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static volatile uint32_t *one_in; /* [1]: how many have failed */

__attribute__((constructor)) static void open_switch(void)
{
    const char *path = getenv("FEWMALLOC");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p = fd >= 0 ? mmap(NULL, 2 * sizeof *one_in, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                      : MAP_FAILED;
    if (p != MAP_FAILED)
        one_in = p;
    if (fd >= 0)
        close(fd);
}

static int fails(void)
{
    static uint64_t state = 1;
    uint32_t n = one_in != NULL ? *one_in : 0;
    if (n == 0)
        return 0;
    state = state * 6364136223846793005u + 1442695040888963407u;
    if ((state >> 33) % n != 0)
        return 0;
    one_in[1]++;
    errno = ENOMEM;
    return 1;
}

/* The build hides what is not marked. */
#define SEEN __attribute__((visibility("default")))

SEEN void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

SEEN void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

SEEN void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}
