/*
 * What a queue or exchange that exists turns out to be. RabbitMQ tells no properties, but it
 * answers a declaration that differs with 406 and words such as
 *
 *   inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the
 *   value '5' of type 'long'
 *
 * and names one difference at a time: so it is declared again with that one taken over, until it is
 * equal or differs in what matters. Pure.
 */
#ifndef HARBINGER_AMQP_SHAPE_H
#define HARBINGER_AMQP_SHAPE_H

#include "base/compiler.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHAPE_EXTRAS = 12 };

/* Borrows from the broker's words. Values are bare: none, true, 5, dlx. */
struct difference {
    struct text arg, received, exists;
    struct text exists_type; /* longstr, long, bool, ...; absent where the words have none */
};

/* False when the words are of another form. */
bool difference_read(const char *words, struct difference *out) MUST_CHECK;

enum shape_kind { SHAPE_TEXT, SHAPE_NUMBER, SHAPE_BOOL };

/* An argument that nobody configured. */
struct shape_extra {
    char name[128], text[256];
    enum shape_kind kind;
    int64_t number; /* SHAPE_NUMBER and SHAPE_BOOL */
};

struct shape {
    char type[128]; /* of an exchange */
    bool transient, auto_delete, internal;
    struct shape_extra extra[SHAPE_EXTRAS];
    size_t n_extra;
};

/* Durable, direct, without arguments. */
void shape_init(struct shape *s);

/* Takes one difference over. False when that cannot be: no room, a type that is not text, number or
 * bool, or something that is taken over already. */
bool shape_take(struct shape *s, const struct difference *d) MUST_CHECK;

#endif
