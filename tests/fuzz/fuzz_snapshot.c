/*
 * Exercises src/predict/snapshot.c and the restoring parts of keytable.c, histogram.c and
 * boundaries.c.
 *
 * The checksum would keep a fuzzer out, so the input is the body of a snapshot: header and checksum
 * are put before it. Whatever is accepted must satisfy all invariants and survive use and another
 * round trip.
 */
#include "fuzz/target.h"
#include "lib/keys.h"
#include "predict/crc32c.h"
#include "predict/snapshot.h"

#include <stdlib.h>

static void must(int yes)
{
    if (!yes)
        abort();
}

static struct hb_predictor *make(void)
{
    struct hb_predictor_options o;
    hb_predictor_options_init(&o);
    o.max_keys = 8;
    struct hb_predictor *p = hb_predictor_new(&o);
    must(p != NULL);
    return p;
}

static struct buf with_header(const uint8_t *body, size_t n)
{
    struct buf b = {0};
    uint32_t crc = crc32c(body, n);
    uint8_t tail[8] = {SNAPSHOT_VERSION};
    for (int i = 0; i < 4; i++)
        tail[4 + i] = (uint8_t)(crc >> (8 * i));
    must(buf_append(&b, "HBPREDIC", 8) == 0);
    must(buf_append(&b, tail, sizeof tail) == 0);
    must(buf_append(&b, body, n) == 0);
    return b;
}

static void use(struct hb_predictor *p)
{
    struct snapshot_loaded loaded;
    struct err err;
    struct buf again = {0};
    must(snapshot_encode(p, "x", 0, &again) == 0);
    struct hb_predictor *q = make();
    must(snapshot_decode(q, "x", 0, again.p, again.n, &loaded, &err) == 0);
    hb_predictor_free(q);
    buf_fini(&again);
    for (int i = 0; i < 40; i++) {
        static const char *const names[] = {"a", "b", "c", "producer\x1fjob"};
        const char *name = names[i % 4];
        (void)ask(p, name, SECONDS(i));
        teach(p, name, 8, i, SECONDS(i));
    }
    must(hb_predictor_check(p) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf b = with_header(data, size);
    struct hb_predictor *p = make();
    struct snapshot_loaded loaded;
    struct err err = {0};
    int r = snapshot_decode(p, "x", 0, b.p, b.n, &loaded, &err);
    must(hb_predictor_check(p) == NULL);
    must((r < 0) == (err.msg[0] != '\0'));
    if (r == 0)
        use(p);
    hb_predictor_free(p);
    buf_fini(&b);
    return 0;
}
