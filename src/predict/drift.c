#include "predict/drift.h"

#include <math.h>

#define ALERT_BELOW 0.5
#define CLEAR_ABOVE 0.6
#define ERROR_GAIN  0.01

static void window_put(struct drift *d, bool match)
{
    unsigned at = d->scored % HB_DRIFT_WINDOW;
    uint64_t bit = UINT64_C(1) << (at % 64);
    uint64_t *word = &d->window[at / 64];
    if (d->in_window < HB_DRIFT_WINDOW)
        d->in_window++;
    else
        d->matches_in_window -= (*word & bit) != 0;
    d->matches_in_window += match;
    *word = match ? *word | bit : *word & ~bit;
}

static void alert_update(struct drift *d)
{
    if (d->in_window < HB_DRIFT_WINDOW)
        return;
    double agreement = drift_agreement(d);
    if (!d->alert && agreement < ALERT_BELOW) {
        d->alert = true;
        d->alerts++;
    } else if (d->alert && agreement > CLEAR_ABOVE) {
        d->alert = false;
    }
}

void drift_score(struct drift *d, bool match, double estimate_ms, double duration_ms)
{
    double error = fabs(log2(fmax(estimate_ms, 1) / fmax(duration_ms, 1)));
    d->abs_log2_error =
        d->scored == 0 ? error : d->abs_log2_error + ERROR_GAIN * (error - d->abs_log2_error);
    window_put(d, match);
    d->scored++;
    d->matches += match;
    alert_update(d);
}

double drift_agreement(const struct drift *d)
{
    return d->in_window > 0 ? (double)d->matches_in_window / d->in_window : 0;
}
