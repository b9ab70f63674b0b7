/*
 * Intrusive doubly linked list. The head is a node of its own; an unlinked node points at itself,
 * so list_remove is idempotent. Nothing here allocates.
 */
#ifndef HARBINGER_BASE_LIST_H
#define HARBINGER_BASE_LIST_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

#define LIST_ENTRY(node, type, member) CONTAINER_OF(node, type, member)

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_insert_before(struct list *pos, struct list *node)
{
    node->prev = pos->prev;
    node->next = pos;
    pos->prev->next = node;
    pos->prev = node;
}

static inline void list_push_back(struct list *head, struct list *node)
{
    list_insert_before(head, node);
}

static inline void list_push_front(struct list *head, struct list *node)
{
    list_insert_before(head->next, node);
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* The first node, or NULL when the list is empty. It stays in the list. */
static inline struct list *list_first(struct list *head)
{
    return list_empty(head) ? NULL : head->next;
}

#endif
