/*
 * Prometheus text exposition, format 0.0.4. Pure: it only writes into a buffer.
 *
 *   metrics_init(&m, &body);
 *   metrics_family(&m, METRICS_COUNTER, "harbinger_forwarded_total", "Messages handed on.");
 *   metrics_sample(&m, NULL, 0, 5);
 *   r = metrics_end(&m);
 *
 * Each family is begun once and its samples follow at once: that is the format's rule and the
 * caller's duty (names and label names that the format forbids are asserted, they are our own
 * text). An allocation failure is remembered, later calls do nothing, and metrics_end reports it.
 */
#ifndef HARBINGER_HTTP_METRICS_H
#define HARBINGER_HTTP_METRICS_H

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct buf;

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

/* The value may hold any bytes that end with a NUL; it is escaped. */
struct metrics_label {
    const char *name, *value;
};

struct metrics {
    struct buf *out;
    const char *family;
    enum metrics_type type;
    int result; /* 0 or ERR_NOMEM */
};

/* Counts per bucket, not cumulative; bucket i holds values <= bounds[i], the last one (n_bounds)
 * all above. */
struct metrics_histogram {
    const double *bounds;   /* increasing, finite */
    const uint64_t *counts; /* n_bounds + 1 */
    size_t n_bounds;
    double sum;
};

void metrics_init(struct metrics *m, struct buf *out);

/* Begins a family; a counter's name ends with "_total". `name` must live until the next family
 * begins. */
void metrics_family(struct metrics *m, enum metrics_type type, const char *name, const char *help);

/* One counter or gauge of the family; NaN and infinities are written as the format wants. */
void metrics_sample(struct metrics *m, const struct metrics_label *labels, size_t n_labels,
                    double value);
/* The same without rounding above 2^53. */
void metrics_sample_u64(struct metrics *m, const struct metrics_label *labels, size_t n_labels,
                        uint64_t value);

/* The buckets, sum and count of one histogram of the family; at most 8 labels. */
void metrics_sample_histogram(struct metrics *m, const struct metrics_label *labels,
                              size_t n_labels, const struct metrics_histogram *h);

/* Returns 0 or ERR_NOMEM. */
int metrics_end(struct metrics *m) MUST_CHECK;

#endif
