/*
 * What a predictor has learned, as bytes (paper 3.9).
 *
 * All numbers are little-endian; f64 is IEEE 754. In this order:
 *
 *   "HBPREDIC"  u32 version  u32 CRC-32C of everything that follows
 *   u32 length and bytes of the context
 *   u32 bins  f64 min_ms  f64 max_ms  u32 levels
 *   u64 boundary sequence (0 = none published)  u32 count  f64 each
 *   the pooled histogram
 *   u32 number of keys, then each, the most recently active first:
 *     u16 length and bytes of the key  i64 age (ns since its last activity)
 *     i64 ns since its wall-clock fading  u8 remembered level (255 = none)  its histogram
 *
 * A histogram is f64 scale, total, sum, censored, u64 n, u16 number of bins that weigh anything,
 * and for each u16 bin and f64 weight, rising. Counters and the drift window are not in it.
 *
 * The context is text in which the caller names everything that gives a key its meaning (policy
 * version, key options). Times are ages, so that a snapshot outlives the process and its clock; the
 * time between saving and loading does not count.
 */
#ifndef HARBINGER_PREDICT_SNAPSHOT_H
#define HARBINGER_PREDICT_SNAPSHOT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/mono.h"
#include "harbinger/predictor.h"

#define SNAPSHOT_VERSION 1

/* Appends to *out. Returns 0, or ERR_NOMEM with *out as it was. */
int snapshot_encode(const struct hb_predictor *p, const char *context, mono_t now,
                    struct buf *out) MUST_CHECK;

struct snapshot_loaded {
    uint32_t keys;    /* restored */
    uint32_t dropped; /* least recently active ones that max_keys left no room for */
};

/*
 * Replaces what `p` has learned by what the n bytes say; its counters and options stay. The bytes
 * may be anything. Unless it returns 0, `p` is unchanged and *err says why:
 *   ERR_CORRUPT   they are no snapshot, or a damaged one
 *   ERR_MISMATCH  a snapshot of another version, context, histogram layout or number of levels
 *   ERR_NOMEM
 */
int snapshot_decode(struct hb_predictor *p, const char *context, mono_t now, const void *bytes,
                    size_t n, struct snapshot_loaded *loaded, struct err *err) MUST_CHECK;

#endif
