/* Options of the broker, and the words that go with its enums. */
#include "base/mono.h"
#include "harbinger/broker.h"

#include <stdio.h>

#define DURATION_MAX (INT64_C(365) * 24 * 3600 * MONO_S)

enum { ATTEMPTS_MAX = 1000000, HISTORY_MAX = 1 << 24, BATCH_MAX = 1 << 20, WEIGHT_MAX = 1000 };

const char *hb_order_name(enum hb_order order)
{
    switch (order) {
#define ORDER_CASE(name, word) \
    case name: return word;
        HB_ORDER_MAP(ORDER_CASE)
#undef ORDER_CASE
    default: return "unknown";
    }
}

const char *hb_dead_reason_name(enum hb_dead_reason reason)
{
    switch (reason) {
#define DEAD_CASE(name, word) \
    case name: return word;
        HB_DEAD_MAP(DEAD_CASE)
#undef DEAD_CASE
    default: return "unknown";
    }
}

void hb_broker_options_init(struct hb_broker_options *o)
{
    *o = (struct hb_broker_options){
        .levels = 3,
        .order = HB_ORDER_PAPER,
        .aging_interval_ns = 500 * MONO_MS,
        .pause = HB_PAUSE_WITH_WEIGHTS,
        .max_attempts = 3,
        .lease_ns = 30 * MONO_S,
        .history_ns = 60 * MONO_S,
        .history_entries = 10000,
        .batch = 256,
        .max_dead = 10000,
        .max_dead_bytes = UINT64_C(64) << 20,
        .dead_overflow = HB_DEAD_DROP_OLDEST,
    };
}

static bool within(uint64_t v, uint64_t low, uint64_t high)
{
    return v >= low && v <= high;
}

static bool duration_ok(int64_t ns)
{
    return ns >= 0 && ns <= DURATION_MAX;
}

static bool weights_ok(const struct hb_broker_options *o)
{
    if (!o->weighted)
        return true;
    for (unsigned i = 0; i < o->levels && i < HB_LEVELS_MAX; i++)
        if (!within(o->weights[i], 1, WEIGHT_MAX))
            return false;
    return true;
}

/* One sentence per rule; the first that does not hold is reported. */
struct rule {
    bool holds;
    const char *text;
};

bool hb_broker_options_valid(const struct hb_broker_options *o, char *why, size_t size)
{
    const struct rule rules[] = {
        {within(o->levels, 1, HB_LEVELS_MAX), "levels must be 1..255"},
        {(unsigned)o->order < HB_N_ORDERS, "order must be one of the listed ones"},
        {duration_ok(o->aging_threshold_ns), "aging_threshold must be 0..365 days"},
        {duration_ok(o->aging_interval_ns) && o->aging_interval_ns > 0,
         "aging_interval must be above 0 and at most 365 days"},
        {weights_ok(o), "weights must be 1..1000, one per level"},
        {(unsigned)o->pause <= HB_PAUSE_NEVER, "pause must be one of the listed ones"},
        {duration_ok(o->ttl_ns), "ttl must be 0..365 days"},
        {within(o->max_attempts, 1, ATTEMPTS_MAX), "max_attempts must be 1..10^6"},
        {duration_ok(o->lease_ns), "lease must be 0..365 days"},
        {duration_ok(o->history_ns), "history must be 0..365 days"},
        {within(o->history_entries, 1, HISTORY_MAX), "history_entries must be 1..2^24"},
        {within(o->batch, 1, BATCH_MAX), "batch must be 1..2^20"},
        {(unsigned)o->dead_overflow <= HB_DEAD_REFUSE_SUBMITS,
         "dead_overflow must be one of the listed ones"},
        {o->dead_overflow == HB_DEAD_DROP_OLDEST || (o->max_dead > 0 && o->max_dead_bytes > 0),
         "dead_overflow can refuse submits only with max_dead and max_dead_bytes above 0"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].holds)
            continue;
        if (size > 0)
            snprintf(why, size, "%s", rules[i].text);
        return false;
    }
    return true;
}
