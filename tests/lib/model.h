/*
 * The predictor once more, as plainly as its rules can be written: linear arrays, logarithms and
 * powers for each duration, every weight multiplied at every event, no caches. For tests that
 * compare, and for the benchmark as the peer that shows what the real one gains.
 */
#ifndef HARBINGER_TESTS_MODEL_H
#define HARBINGER_TESTS_MODEL_H

#include "harbinger/predictor.h"

struct model;

struct model *model_new(const struct hb_predictor_options *o);
void model_free(struct model *m);
void model_predict(struct model *m, struct hb_key key, struct hb_key parent, int64_t now,
                   struct hb_prediction *out);
bool model_observe(struct model *m, struct hb_key key, struct hb_key parent, double duration_ms,
                   int64_t now);
bool model_censor(struct model *m, struct hb_key key, struct hb_key parent, int64_t now);
unsigned model_keys(const struct model *m);
unsigned long model_overflow(const struct model *m);
unsigned long model_evictions(const struct model *m);

#endif
