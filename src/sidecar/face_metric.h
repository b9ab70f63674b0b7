/* Families with one sample, or with one label. */
#ifndef HARBINGER_SIDECAR_FACE_METRIC_H
#define HARBINGER_SIDECAR_FACE_METRIC_H

#include "http/metrics.h"

static inline void face_counter(struct metrics *m, const char *name, const char *help,
                                uint64_t value)
{
    metrics_family(m, METRICS_COUNTER, name, help);
    metrics_sample_u64(m, NULL, 0, value);
}

static inline void face_gauge(struct metrics *m, const char *name, const char *help, double value)
{
    metrics_family(m, METRICS_GAUGE, name, help);
    metrics_sample(m, NULL, 0, value);
}

static inline void face_labelled(struct metrics *m, const char *label, const char *value,
                                 uint64_t n)
{
    struct metrics_label l = {label, value};
    metrics_sample_u64(m, &l, 1, n);
}

#endif
