/* A borrowed piece of text: not terminated, may hold any byte. {NULL, 0} = absent; {non-NULL, 0} =
 * empty. */
#ifndef HARBINGER_BASE_TEXT_H
#define HARBINGER_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct text {
    const char *p;
    size_t n;
};

static inline struct text text_of(const char *s)
{
    return (struct text){s, s != NULL ? strlen(s) : 0};
}

static inline bool text_equal(struct text a, struct text b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

#endif
