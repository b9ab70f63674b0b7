/* The only compiler extensions the project uses, behind names of our own. */
#ifndef HARBINGER_BASE_COMPILER_H
#define HARBINGER_BASE_COMPILER_H

#define MUST_CHECK        __attribute__((warn_unused_result))
#define FOR_ASSERT        __attribute__((unused)) /* a release build has no asserts */
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define ARRAY_SIZE(a)     (sizeof(a) / sizeof((a)[0]))

/* The object of type `type` whose member `member` is at `ptr`. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
