/*
 * Two signals that predictions have gone wrong (paper 3.9): the share of the last HB_DRIFT_WINDOW
 * scored messages whose predicted level was right, and a running average of the error in powers of
 * two. They inform and change nothing.
 */
#ifndef HARBINGER_PREDICT_DRIFT_H
#define HARBINGER_PREDICT_DRIFT_H

#include "harbinger/predictor.h"

struct drift {
    uint64_t scored, matches, alerts;
    double abs_log2_error; /* seeded by the first score */
    bool alert;
    uint32_t in_window, matches_in_window;
    uint64_t
        window[HB_DRIFT_WINDOW / 64]; /* ring of bits, 1 = match; the next is scored mod size */
};

/* Once the window is full, an agreement below 0.5 raises one alert, which holds until it is above
 * 0.6. */
void drift_score(struct drift *d, bool match, double estimate_ms, double duration_ms);

/* Of the window; 0 when it is empty. */
double drift_agreement(const struct drift *d);

#endif
