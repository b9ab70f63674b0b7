#include "sidecar/unbacked.h"

#include "base/buf.h"
#include "lib/testmain.h"

#include <stdlib.h>
#include <string.h>

static const struct hash_seed seed = {1, 2};

/* Properties with one header of type I, and a type property of one letter. */
static struct message *message(const char *body, const char *name, char number)
{
    char props[64] = {(char)0x20, (char)0x20, 0, 0, 0, 0};
    size_t n_name = strlen(name), n = 6;
    props[n++] = (char)n_name;
    memcpy(props + n, name, n_name);
    n += n_name;
    memcpy(props + n, "I\0\0\0", 4);
    n += 4;
    props[n++] = number;
    props[5] = (char)(n - 6);
    memcpy(props + n, "\1t", 2);
    n += 2;
    struct message *m =
        message_new(text_of(""), text_of("intake"), (struct text){props, n}, strlen(body));
    ck_assert_ptr_nonnull(m);
    ck_assert(!m->props.opaque);
    memcpy(message_body_at(m, 0), body, strlen(body));
    return m;
}

static struct held *held(struct message *m)
{
    struct held *h = calloc(1, sizeof *h);
    ck_assert_ptr_nonnull(h);
    h->message = m;
    list_init(&h->tagged);
    list_init(&h->bucket);
    return h;
}

static void release(struct held *h)
{
    message_free(h->message);
    free(h);
}

static bool untouched(const struct held *h)
{
    return h->cookie == NULL;
}

/* Takes with a message that is freed. */
static struct held *take(struct unbacked *u, struct message *m, bool redelivered)
{
    struct held *h = unbacked_take(u, m, redelivered, untouched);
    message_free(m);
    return h;
}

/* A delivery is known again by all that it is. */
START_TEST(what_differs_in_anything_is_not_taken)
{
    struct unbacked u;
    ck_assert_int_eq(unbacked_init(&u, &seed), 0);
    struct held *h = held(message("body", "n", 1));
    unbacked_add(&u, h, 5);
    ck_assert(h->unbacked && h->since == 5 && unbacked_oldest(&u) == h);
    ck_assert_ptr_null(take(&u, message("bodx", "n", 1), true));
    ck_assert_ptr_null(take(&u, message("body", "m", 1), true));
    ck_assert_ptr_null(take(&u, message("body", "n", 2), true));
    ck_assert_ptr_null(take(&u, message("", "n", 1), true));
    ck_assert_ptr_eq(take(&u, message("body", "n", 1), true), h);
    ck_assert(!h->unbacked && u.n == 0);
    ck_assert_ptr_null(unbacked_oldest(&u));
    ck_assert_ptr_null(take(&u, message("body", "n", 1), true));
    release(h);
    unbacked_fini(&u);
}
END_TEST

/* RabbitMQ counts deliveries in a header, and adds it with the first redelivery. */
START_TEST(the_count_of_deliveries_makes_no_difference)
{
    struct unbacked u;
    ck_assert_int_eq(unbacked_init(&u, &seed), 0);
    struct held *h = held(message("b", "x-delivery-count", 1));
    unbacked_add(&u, h, 0);
    ck_assert_ptr_eq(take(&u, message("b", "x-delivery-count", 2), true), h);
    release(h);
    unbacked_fini(&u);
}
END_TEST

/* Of equal ones the oldest is taken, and each once. */
START_TEST(equal_messages_are_interchangeable)
{
    struct unbacked u;
    struct held *h[3];
    ck_assert_int_eq(unbacked_init(&u, &seed), 0);
    for (int i = 0; i < 3; i++)
        unbacked_add(&u, h[i] = held(message("same", "n", 1)), i);
    unbacked_remove(&u, h[1]);
    ck_assert_ptr_eq(take(&u, message("same", "n", 1), true), h[0]);
    ck_assert_ptr_eq(take(&u, message("same", "n", 1), true), h[2]);
    ck_assert_ptr_null(take(&u, message("same", "n", 1), true));
    for (int i = 0; i < 3; i++)
        release(h[i]);
    unbacked_fini(&u);
}
END_TEST

/* A message that was never delivered before is not taken for one that somebody has begun with. */
START_TEST(a_new_message_is_taken_only_for_an_untouched_one)
{
    struct unbacked u;
    ck_assert_int_eq(unbacked_init(&u, &seed), 0);
    struct held *begun = held(message("same", "n", 1)), *idle = held(message("same", "n", 1));
    begun->cookie = begun;
    unbacked_add(&u, begun, 0);
    ck_assert_ptr_null(take(&u, message("same", "n", 1), false));
    unbacked_add(&u, idle, 1);
    ck_assert_ptr_eq(take(&u, message("same", "n", 1), false), idle);
    ck_assert_ptr_eq(take(&u, message("same", "n", 1), true), begun);
    release(begun);
    release(idle);
    unbacked_fini(&u);
}
END_TEST

/* The order is that of joining, or of the latest touch. */
START_TEST(the_oldest_is_first)
{
    struct unbacked u;
    ck_assert_int_eq(unbacked_init(&u, &seed), 0);
    struct held *a = held(message("a", "n", 1)), *b = held(message("b", "n", 1));
    unbacked_add(&u, a, 1);
    unbacked_add(&u, b, 2);
    unbacked_touch(&u, a, 3);
    ck_assert_ptr_eq(unbacked_oldest(&u), b);
    ck_assert_int_eq(a->since, 3);
    unbacked_remove(&u, b);
    ck_assert_ptr_eq(unbacked_oldest(&u), a);
    unbacked_remove(&u, a);
    release(a);
    release(b);
    unbacked_fini(&u);
}
END_TEST

Suite *suite(void)
{
    const TTest *const tests[] = {what_differs_in_anything_is_not_taken,
                                  the_count_of_deliveries_makes_no_difference,
                                  equal_messages_are_interchangeable,
                                  a_new_message_is_taken_only_for_an_untouched_one,
                                  the_oldest_is_first,
                                  NULL};
    return suite_of("unbacked", tests);
}
