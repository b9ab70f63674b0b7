/* From section `predictor` to what the predictor takes. */
#include "conf/conf.h"

#include <harbinger/predictor.h>

static enum hb_summary summary_of(enum conf_summary summary)
{
    switch (summary) {
    case CONF_SUMMARY_P75: return HB_SUMMARY_P75;
    case CONF_SUMMARY_MEAN: return HB_SUMMARY_MEAN;
    case CONF_SUMMARY_MEDIAN: break;
    }
    return HB_SUMMARY_MEDIAN;
}

void conf_predictor_options(const struct conf *c, struct hb_predictor_options *out)
{
    hb_predictor_options_init(out);
    out->levels = c->levels;
    out->default_level = conf_default_level(c);
    out->summary = summary_of(c->predictor.summary);
    out->min_samples = (uint32_t)c->predictor.min_samples;
    out->spread_quantile = c->predictor.spread_quantile;
    out->max_spread_ratio = c->predictor.max_spread_ratio;
    out->max_censored = c->predictor.max_censored_fraction;
    out->stale_after_ns = c->predictor.stale_after;
    out->decay = c->predictor.decay;
    out->pooled_decay = c->predictor.global_decay;
    out->half_life_ns = c->predictor.time_half_life;
    out->bins = c->predictor.histogram_bins;
    out->min_ms = mono_to_ms(c->predictor.min);
    out->max_ms = mono_to_ms(c->predictor.max);
    out->boundary_every = (uint32_t)c->predictor.boundary_refresh_every;
    out->pooled_min_samples = (uint32_t)c->predictor.global_min_samples;
    out->hysteresis = c->predictor.hysteresis;
    out->max_keys = (uint32_t)c->predictor.max_keys;
    out->idle_eviction_ns = c->predictor.idle_eviction;
    out->cold_eviction_ns = c->predictor.cold_eviction_grace;
}
