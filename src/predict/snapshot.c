#include "predict/snapshot.h"

#include "predict/crc32c.h"
#include "predict/predictor_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char MAGIC[8] = {'H', 'B', 'P', 'R', 'E', 'D', 'I', 'C'};

enum {
    VERSION_AT = sizeof MAGIC,
    CRC_AT = VERSION_AT + 4,
    BODY_AT = CRC_AT + 4,
};

/* Writing: the first failure is kept and nothing more is appended. */
struct writer {
    struct buf *out;
    int failed;
};

static void put_bytes(struct writer *w, const void *data, size_t n)
{
    if (w->failed == 0)
        w->failed = buf_append(w->out, data, n);
}

static void put_uint(struct writer *w, uint64_t v, size_t n)
{
    unsigned char le[8];
    for (size_t i = 0; i < n; i++)
        le[i] = (unsigned char)(v >> (8 * i));
    put_bytes(w, le, n);
}

static void put_double(struct writer *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_uint(w, bits, 8);
}

static void put_histogram(struct writer *w, const struct histogram_layout *l,
                          const struct histogram *h)
{
    const double sums[] = {h->scale, h->total, h->sum, h->censored};
    for (size_t i = 0; i < ARRAY_SIZE(sums); i++)
        put_double(w, sums[i]);
    put_uint(w, h->n, 8);
    uint64_t n = 0;
    for (unsigned i = 0; i < l->bins; i++)
        n += histogram_weight(l, h, i) > 0;
    put_uint(w, n, 2);
    for (unsigned i = 0; i < l->bins; i++) {
        if (histogram_weight(l, h, i) <= 0)
            continue;
        put_uint(w, i, 2);
        put_double(w, histogram_weight(l, h, i));
    }
}

static void put_key(struct writer *w, const struct hb_predictor *p, uint32_t slot, mono_t now)
{
    const struct keytable_entry *e = keytable_entry(p->table, slot);
    const struct histogram *h = keytable_history(p->table, slot);
    struct hb_key key = keytable_key(e);
    put_uint(w, key.n, 2);
    put_bytes(w, key.p, key.n);
    put_uint(w, (uint64_t)(now - e->last_active_at), 8);
    put_uint(w, (uint64_t)(now - h->decayed_at), 8);
    put_uint(w, e->remembered_level, 1);
    put_histogram(w, p->layout, h);
}

static void put_body(struct writer *w, const struct hb_predictor *p, const char *context,
                     mono_t now)
{
    size_t n_context = strlen(context);
    put_uint(w, n_context, 4);
    put_bytes(w, context, n_context);
    put_uint(w, p->layout->bins, 4);
    put_double(w, p->layout->min_ms);
    put_double(w, p->layout->max_ms);
    put_uint(w, p->boundaries.levels, 4);
    put_uint(w, p->boundaries.seq, 8);
    put_uint(w, p->boundaries.n, 4);
    for (unsigned i = 0; i < p->boundaries.n; i++)
        put_double(w, p->boundaries.at[i]);
    put_histogram(w, p->layout, p->pooled);
    put_uint(w, keytable_count(p->table), 4);
    uint32_t s = keytable_newest(p->table);
    for (; s != KEYTABLE_NONE; s = keytable_next_older(p->table, s))
        put_key(w, p, s, now);
}

int snapshot_encode(const struct hb_predictor *p, const char *context, mono_t now, struct buf *out)
{
    size_t start = out->n;
    struct writer w = {.out = out};
    put_bytes(&w, MAGIC, sizeof MAGIC);
    put_uint(&w, SNAPSHOT_VERSION, 4);
    put_uint(&w, 0, 4);
    put_body(&w, p, context, predictor_time(p, now));
    if (w.failed < 0) {
        out->n = start;
        return w.failed;
    }
    uint32_t crc = crc32c(out->p + start + BODY_AT, out->n - start - BODY_AT);
    for (int i = 0; i < 4; i++)
        out->p[start + CRC_AT + i] = (char)(crc >> (8 * i));
    return 0;
}

/* Reading: a reader that has run out answers zeroes and stays `short_`, so that each part checks
 * once. */
struct reader {
    const unsigned char *p;
    size_t left;
    bool short_;
};

static const unsigned char *get_bytes(struct reader *r, size_t n)
{
    if (n > r->left) {
        r->short_ = true;
        r->left = 0;
        return NULL;
    }
    const unsigned char *at = r->p;
    r->p += n;
    r->left -= n;
    return at;
}

static uint64_t get_uint(struct reader *r, size_t n)
{
    const unsigned char *at = get_bytes(r, n);
    uint64_t v = 0;
    for (size_t i = 0; at != NULL && i < n; i++)
        v |= (uint64_t)at[i] << (8 * i);
    return v;
}

static double get_double(struct reader *r)
{
    uint64_t bits = get_uint(r, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* What a snapshot says, built aside: the predictor changes only when all of it is good. */
struct restored {
    struct keytable *table;
    struct histogram *pooled;
    struct boundaries boundaries;
    struct snapshot_loaded counts;
};

/* One decoding: what it needs at every step. */
struct decoder {
    const struct hb_predictor *p;
    struct reader in;
    mono_t now;
    struct restored to;
    struct err *err;
};

static int corrupt(struct decoder *d, const char *what)
{
    return err_set(d->err, ERR_CORRUPT, "the snapshot is damaged: %s",
                   d->in.short_ ? "it ends too soon" : what);
}

/* NULL, or what is wrong with it. */
static const char *get_weights(struct reader *r, const struct histogram_layout *l,
                               struct histogram *h)
{
    uint64_t n = get_uint(r, 2), least = 0;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t bin = get_uint(r, 2);
        double weight = get_double(r);
        if (r->short_ || bin < least || bin >= l->bins || !(weight > 0) || !isfinite(weight))
            return "a bin is out of place or its weight is not a number above 0";
        histogram_set_weight(l, h, (unsigned)bin, weight);
        least = bin + 1;
    }
    return NULL;
}

static const char *get_histogram(struct reader *r, const struct histogram_layout *l,
                                 struct histogram *h, mono_t decayed_at)
{
    histogram_init(l, h, decayed_at);
    h->scale = get_double(r);
    h->total = get_double(r);
    h->sum = get_double(r);
    h->censored = get_double(r);
    h->n = get_uint(r, 8);
    const char *why = get_weights(r, l, h);
    return why != NULL ? why : histogram_check(l, h);
}

static int get_header(struct decoder *d, size_t n)
{
    const unsigned char *magic = get_bytes(&d->in, sizeof MAGIC);
    uint64_t version = get_uint(&d->in, 4), crc = get_uint(&d->in, 4);
    if (d->in.short_ || memcmp(magic, MAGIC, sizeof MAGIC) != 0)
        return err_set(d->err, ERR_CORRUPT, "not a predictor snapshot (%zu bytes)", n);
    if (version != SNAPSHOT_VERSION)
        return err_set(d->err, ERR_MISMATCH,
                       "the snapshot has version %" PRIu64 ", this program reads version %d",
                       version, SNAPSHOT_VERSION);
    return crc == crc32c(d->in.p, d->in.left) ? 0 : corrupt(d, "its checksum does not fit");
}

static int get_context(struct decoder *d, const char *context)
{
    uint64_t n = get_uint(&d->in, 4);
    const unsigned char *bytes = get_bytes(&d->in, n);
    if (bytes == NULL)
        return corrupt(d, "its context");
    if (n == strlen(context) && memcmp(bytes, context, n) == 0)
        return 0;
    return err_set(d->err, ERR_MISMATCH,
                   "the snapshot is of \"%.*s\", this configuration is \"%s\"",
                   n < 200 ? (int)n : 200, (const char *)bytes, context);
}

static int get_layout(struct decoder *d)
{
    const struct histogram_layout *l = d->p->layout;
    uint64_t bins = get_uint(&d->in, 4);
    double min_ms = get_double(&d->in), max_ms = get_double(&d->in);
    uint64_t levels = get_uint(&d->in, 4);
    if (d->in.short_)
        return corrupt(d, "its layout");
    if (bins != l->bins || min_ms != l->min_ms || max_ms != l->max_ms)
        return err_set(d->err, ERR_MISMATCH,
                       "the snapshot has %" PRIu64 " bins from %g to %g ms, this configuration %u "
                       "bins from %g to %g ms",
                       bins, min_ms, max_ms, l->bins, l->min_ms, l->max_ms);
    if (levels != d->p->options.levels)
        return err_set(d->err, ERR_MISMATCH,
                       "the snapshot has %" PRIu64 " levels, this configuration %u", levels,
                       d->p->options.levels);
    return 0;
}

static int get_boundaries(struct decoder *d)
{
    struct boundaries *b = &d->to.boundaries;
    boundaries_init(b, d->p->options.levels, d->p->options.hysteresis);
    uint64_t seq = get_uint(&d->in, 8), n = get_uint(&d->in, 4);
    if (n != (seq > 0 ? b->levels - 1 : 0) || (seq == 0 && b->levels == 1))
        return corrupt(d, "its number of boundaries");
    for (uint64_t i = 0; i < n; i++)
        b->at[i] = get_double(&d->in);
    if (d->in.short_ || !boundaries_rise(b->at, (unsigned)n))
        return corrupt(d, "its boundaries do not rise");
    b->seq = seq;
    b->n = (unsigned)n;
    return 0;
}

/* The parts of a key that are not its histogram. */
struct key_head {
    struct hb_key key;
    int64_t age_ns, faded_ns;
    unsigned level;
};

static bool get_key_head(struct decoder *d, struct key_head *k)
{
    k->key.n = get_uint(&d->in, 2);
    k->key.p = (const char *)get_bytes(&d->in, k->key.n);
    k->age_ns = (int64_t)get_uint(&d->in, 8);
    k->faded_ns = (int64_t)get_uint(&d->in, 8);
    k->level = (unsigned)get_uint(&d->in, 1);
    return !d->in.short_ && predictor_key_valid(k->key) && k->age_ns >= 0 &&
           k->age_ns <= PREDICTOR_TIME_MAX && k->faded_ns >= 0 &&
           k->faded_ns <= PREDICTOR_TIME_MAX &&
           (k->level < d->p->options.levels || k->level == KEYTABLE_NO_LEVEL);
}

/* Where the key's histogram goes: its new place in the table, or `spare` when the table is full
 * (the rest of the file is checked all the same). NULL when memory is short. */
static struct histogram *place_key(struct decoder *d, const struct key_head *k,
                                   struct histogram *spare)
{
    struct keytable *t = d->to.table;
    if (keytable_full(t)) {
        d->to.counts.dropped++;
        return spare;
    }
    uint32_t slot = keytable_insert(t, k->key, d->now - k->age_ns);
    if (slot == KEYTABLE_NONE)
        return NULL;
    struct keytable_entry *e = keytable_entry(t, slot);
    e->remembered_level = (uint8_t)k->level;
    e->changed = true;
    keytable_move_to_back(t, slot);
    d->to.counts.keys++;
    return keytable_history(t, slot);
}

static int get_keys(struct decoder *d, struct histogram *spare)
{
    uint64_t n = get_uint(&d->in, 4);
    int64_t youngest = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct key_head k;
        if (!get_key_head(d, &k) || k.age_ns < youngest)
            return corrupt(d, "a key is not one, or out of order");
        youngest = k.age_ns;
        if (keytable_find(d->to.table, k.key) != KEYTABLE_NONE)
            return corrupt(d, "a key occurs twice");
        struct histogram *h = place_key(d, &k, spare);
        if (h == NULL)
            return err_set(d->err, ERR_NOMEM, "no memory for the keys of the snapshot");
        const char *why = get_histogram(&d->in, d->p->layout, h, d->now - k.faded_ns);
        if (why != NULL)
            return corrupt(d, why);
    }
    return 0;
}

static int get_body(struct decoder *d, const char *context)
{
    int r = get_context(d, context);
    if (r == 0)
        r = get_layout(d);
    if (r == 0)
        r = get_boundaries(d);
    if (r < 0)
        return r;
    d->to.table = predictor_table_new(d->p);
    d->to.pooled = predictor_pooled_new(d->p->layout);
    struct histogram *spare = predictor_pooled_new(d->p->layout);
    const char *why = NULL;
    if (d->to.table == NULL || d->to.pooled == NULL || spare == NULL)
        r = err_set(d->err, ERR_NOMEM, "no memory to read the snapshot into");
    else if ((why = get_histogram(&d->in, d->p->layout, d->to.pooled, 0)) != NULL)
        r = corrupt(d, why);
    else
        r = get_keys(d, spare);
    if (r == 0 && (d->in.short_ || d->in.left > 0))
        r = corrupt(d, "bytes follow its end");
    free(spare);
    return r;
}

int snapshot_decode(struct hb_predictor *p, const char *context, mono_t now, const void *bytes,
                    size_t n, struct snapshot_loaded *loaded, struct err *err)
{
    struct decoder d = {
        .p = p,
        .in = {.p = bytes, .left = n},
        .now = predictor_time(p, now),
        .err = err,
    };
    int r = get_header(&d, n);
    if (r == 0)
        r = get_body(&d, context);
    if (r < 0) {
        keytable_free(d.to.table);
        free(d.to.pooled);
        return r;
    }
    keytable_free(p->table);
    free(p->pooled);
    p->table = d.to.table;
    p->pooled = d.to.pooled;
    p->boundaries = d.to.boundaries;
    p->now = d.now;
    *loaded = d.to.counts;
    return 0;
}
