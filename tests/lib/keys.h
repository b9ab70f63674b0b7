/* Short forms for tests of the predictor. */
#ifndef HARBINGER_TESTS_KEYS_H
#define HARBINGER_TESTS_KEYS_H

#include "harbinger/predictor.h"

#include <string.h>

#define SECONDS(n) ((int64_t)((n)*1e9))

static inline struct hb_key k(const char *text)
{
    return (struct hb_key){text, text != NULL ? strlen(text) : 0};
}

#define NO_PARENT ((struct hb_key){0})

static inline void teach(struct hb_predictor *p, const char *key, int n, double ms, int64_t now)
{
    for (int i = 0; i < n; i++)
        (void)hb_predictor_observe(p, k(key), NO_PARENT, ms, now);
}

static inline struct hb_prediction ask(struct hb_predictor *p, const char *key, int64_t now)
{
    struct hb_prediction out;
    hb_predictor_predict(p, k(key), NO_PARENT, now, &out);
    return out;
}

static inline enum hb_reason reason(struct hb_predictor *p, const char *key, int64_t now)
{
    return ask(p, key, now).reason;
}

static inline struct hb_predictor_stats stats_of(const struct hb_predictor *p)
{
    struct hb_predictor_stats s;
    hb_predictor_stats(p, &s);
    return s;
}

#endif
