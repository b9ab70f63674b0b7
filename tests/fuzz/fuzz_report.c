/*
 * Exercises src/flow on what workers send: report bodies, printed keys and ids (report.c, key.c,
 * id.c, flow.c).
 *
 * Every element of a body ends in exactly one count, only the learned ones reach the predictor, and
 * a key or id that is accepted prints as it was read.
 */
#include "flow/flow.h"
#include "flow/id.h"
#include "fuzz/target.h"

#include <stdlib.h>
#include <string.h>

static void must(int yes)
{
    if (!yes)
        abort();
}

static void count_element(void *ctx, const struct report *r)
{
    uint64_t *n = ctx;
    (*n)++;
}

static void reads_as_it_prints(struct text t)
{
    struct key k, again;
    struct id id;
    char printed_key[KEY_PRINT_BYTES], printed_id[ID_PRINT_BYTES];
    if (key_parse(t, &k) == 0) {
        size_t n = key_print(&k, printed_key);
        must(key_parse((struct text){printed_key, n}, &again) == 0);
        must(again.n == k.n && again.n_parent == k.n_parent && memcmp(again.raw, k.raw, k.n) == 0);
    }
    if (id_parse(t, &id) == 0)
        must(id_print(&id, printed_id) < ID_PRINT_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text t = {(const char *)data, size};
    struct flow_options o = {.rules = {.max_duration_ms = 1000}, .remembered_ids = 16};
    hb_predictor_options_init(&o.predictor);
    o.predictor.max_keys = 4;
    struct flow *f = flow_new(&o, NULL);
    must(f != NULL);

    uint64_t elements = 0, counted = 0;
    report_parse(t.p, t.n, count_element, &elements);
    flow_report_body(f, t.p, t.n, 1);
    const struct flow_stats *s = flow_stats(f);
    for (int r = 0; r < FLOW_N_RESULTS; r++)
        counted += s->reports[r];
    must(counted == elements);

    struct hb_predictor_stats p;
    hb_predictor_stats(flow_predictor(f), &p);
    must(p.observations == s->reports[FLOW_LEARNED]);
    must(hb_predictor_check(flow_predictor(f)) == NULL);
    reads_as_it_prints(t);
    flow_free(f);
    return 0;
}
