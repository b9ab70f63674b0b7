/*
 * An allocator that fails on demand, for a program that is linked with -Wl,--wrap for malloc,
 * calloc, realloc and aligned_alloc. Included by its one source file.
 *
 * Check allocates through these too, so the countdown is off while it asserts.
 */
#ifndef HARBINGER_TESTS_FAILING_MALLOC_H
#define HARBINGER_TESTS_FAILING_MALLOC_H

#include <stdbool.h>
#include <stddef.h>

static long countdown = -1; /* that many allocations succeed, then one fails; -1: none fails */
static long seen;           /* allocations so far */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);

static bool fails(void)
{
    seen++;
    return countdown >= 0 && countdown-- == 0;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, n);
}

#endif
