/* A program of somebody else: the predictor decides, the broker delivers, the ack teaches. */
#include <harbinger/broker.h>
#include <harbinger/predictor.h>
#include <harbinger/version.h>
#include <stdio.h>

static void learn(void *ctx, const struct hb_lesson *l, int64_t now)
{
    hb_predictor_observe(ctx, l->key, l->parent, l->duration_ms, now);
}

int main(void)
{
    struct hb_predictor_options po;
    struct hb_broker_options bo;
    hb_predictor_options_init(&po);
    hb_broker_options_init(&bo);
    struct hb_predictor *p = hb_predictor_new(&po);
    struct hb_broker_events events = {.learn = learn, .ctx = p};
    struct hb_broker *b = hb_broker_new(&bo, &events);
    struct hb_key key = {"reports", 7};
    struct hb_prediction prediction;
    hb_predictor_predict(p, key, (struct hb_key){0}, 1, &prediction);
    struct hb_submission s = {.payload = {"hello", 5},
                              .key = key,
                              .level = prediction.level,
                              .estimate_ms = -1,
                              .ttl_ns = HB_TTL_DEFAULT};
    struct hb_delivery d;
    if (hb_broker_submit(b, &s, 1, NULL, NULL) != HB_BROKER_OK ||
        hb_broker_pull(b, 7, 2, &d) != HB_BROKER_OK)
        return 1;
    struct hb_settlement done = {.consumer = 7, .id = d.id, .token = d.token, .duration_ms = 12.5};
    int r = hb_broker_ack(b, &done, 3);
    struct hb_predictor_stats stats;
    hb_predictor_stats(p, &stats);
    printf("%s %d %llu\n", HARBINGER_VERSION, r, (unsigned long long)stats.observations);
    hb_broker_free(b);
    hb_predictor_free(p);
    return 0;
}
