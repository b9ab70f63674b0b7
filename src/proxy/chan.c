#include "proxy/chan.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

/* ---- channels ---- */

struct chan *chan_of(const struct session *s, uint16_t number)
{
    return number < s->n_channels ? s->channels[number] : NULL;
}

static int make_room(struct session *s, uint16_t number)
{
    unsigned n = s->n_channels > 0 ? s->n_channels : 4;
    while (n <= number)
        n *= 2;
    if (n == s->n_channels)
        return 0;
    struct chan **v = realloc(s->channels, n * sizeof(struct chan *));
    if (v == NULL)
        return ERR_NOMEM;
    for (unsigned i = s->n_channels; i < n; i++)
        v[i] = NULL;
    s->channels = v;
    s->n_channels = n;
    return 0;
}

struct chan *chan_new(struct session *s, uint16_t number)
{
    struct chan *ch = make_room(s, number) == 0 ? calloc(1, sizeof *ch) : NULL;
    if (ch == NULL)
        return NULL;
    ch->session = s;
    ch->number = number;
    list_init(&ch->consumers);
    list_init(&ch->stalled);
    list_init(&ch->returning);
    s->channels[number] = ch;
    s->n_open++;
    return ch;
}

void chan_free(struct chan *ch)
{
    struct list *node;
    while ((node = list_first(&ch->consumers)) != NULL) {
        struct proxy_consumer *c = LIST_ENTRY(node, struct proxy_consumer, node);
        c->unsettled = 0;
        c->awaited = false;
        chan_consumer_cancel(c);
    }
    list_remove(&ch->returning);
    tags_fini(&ch->tags);
    barrier_fini(&ch->barrier);
    free(ch->awaited);
    ch->session->channels[ch->number] = NULL;
    ch->session->n_open--;
    free(ch);
}

static bool is_named(struct text name, const char *queue)
{
    return queue != NULL && text_equal(name, text_of(queue));
}

enum queue_kind chan_queue_kind(const struct chan *ch, struct text name)
{
    const struct proxy_station *station = &ch->session->world->station;
    if (!ch->session->serves)
        return QUEUE_OTHER;
    if (name.n == 0)
        return ch->declared;
    if (is_named(name, station->work))
        return QUEUE_WORK;
    return is_named(name, station->intake) ? QUEUE_INTAKE : QUEUE_OTHER;
}

/* ---- consumers ---- */

struct proxy_consumer *chan_consumer_new(struct chan *ch)
{
    struct proxy_consumer *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->chan = ch;
    list_init(&c->ready);
    list_init(&c->node);
    list_push_back(&ch->consumers, &c->node);
    ch->session->n_consumers++;
    return c;
}

void chan_consumer_name(struct proxy_consumer *c, struct text tag)
{
    c->n_tag = (uint8_t)tag.n; /* a short text's length */
    if (tag.n > 0)
        memcpy(c->tag, tag.p, c->n_tag);
}

struct proxy_consumer *chan_consumer_find(struct chan *ch, struct text tag)
{
    for (struct list *node = ch->consumers.next; node != &ch->consumers; node = node->next) {
        struct proxy_consumer *c = LIST_ENTRY(node, struct proxy_consumer, node);
        if (c->over || !text_equal((struct text){c->tag, c->n_tag}, tag))
            continue;
        list_remove(node);
        list_push_front(&ch->consumers, node);
        return c;
    }
    return NULL;
}

void chan_consumer_start(struct proxy_consumer *c)
{
    c->active = !c->stopped;
    if (!c->ours || !c->active)
        return;
    c->chan->session->n_takers++;
    c->chan->session->world->stats.consumers++;
    chan_consumer_wake(c);
}

void chan_consumer_stop(struct proxy_consumer *c)
{
    if (c->active && c->ours) {
        c->chan->session->n_takers--;
        c->chan->session->world->stats.consumers--;
    }
    c->active = false;
    c->stopped = true;
    list_remove(&c->ready);
}

void chan_consumer_cancel(struct proxy_consumer *c)
{
    chan_consumer_stop(c);
    c->over = true;
    chan_consumer_release(c);
}

void chan_consumer_release(struct proxy_consumer *c)
{
    if (!c->over || c->awaited || c->unsettled > 0)
        return;
    list_remove(&c->node);
    c->chan->session->n_consumers--;
    free(c);
}

/* ---- what is awaited ---- */

static int make_room_awaited(struct chan *ch)
{
    if (ch->n_awaited == AWAITED_MAX)
        return ERR_INVALID;
    if (ch->awaited_first > 0) {
        memmove(ch->awaited, ch->awaited + ch->awaited_first, ch->n_awaited * sizeof *ch->awaited);
        ch->awaited_first = 0;
    }
    if (ch->n_awaited < ch->awaited_cap)
        return 0;
    unsigned cap = ch->awaited_cap > 0 ? 2 * ch->awaited_cap : 1;
    struct awaited *v = realloc(ch->awaited, cap * sizeof *v);
    if (v == NULL)
        return ERR_NOMEM;
    ch->awaited = v;
    ch->awaited_cap = cap;
    return 0;
}

int chan_await(struct chan *ch, const struct awaited *a)
{
    int r = make_room_awaited(ch);
    if (r < 0)
        return r;
    ch->awaited[ch->n_awaited++] = *a;
    if (a->consumer != NULL)
        a->consumer->awaited = true;
    return 0;
}

bool chan_answered(struct chan *ch, bool get, struct awaited *out)
{
    if (ch->n_awaited == 0)
        return false;
    *out = ch->awaited[ch->awaited_first];
    if ((out->consumer == NULL) != get)
        return false;
    ch->awaited_first = --ch->n_awaited > 0 ? ch->awaited_first + 1 : 0;
    if (out->consumer != NULL)
        out->consumer->awaited = false;
    return true;
}
