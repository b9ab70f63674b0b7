#include "amqp/loss.h"

#include "base/compiler.h"

#include <stdio.h>

const char *loss_name(enum loss_kind kind)
{
    static const char *const names[] = {
#define LOSS_TEXT(name, text) text,
        LOSS_MAP(LOSS_TEXT)
#undef LOSS_TEXT
    };
    return (size_t)kind < ARRAY_SIZE(names) ? names[kind] : "unknown loss";
}

void loss_format(const struct loss *why, char *out, unsigned size)
{
    const char *colon = why->text[0] != '\0' ? ": " : "";
    if (why->code != 0)
        snprintf(out, size, "%s (%u)%s%s", loss_name(why->kind), why->code, colon, why->text);
    else
        snprintf(out, size, "%s%s%s", loss_name(why->kind), colon, why->text);
}

bool loss_is_refusal(const struct loss *why)
{
    return why->kind == LOSS_ACCESS || (why->kind == LOSS_CHANNEL && why->code == 403);
}
