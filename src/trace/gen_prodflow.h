/*
 * The reference's production flow: the background work of an online shop. Five services send nine
 * types of jobs through five phases (steady, ramp, flash sale, recovery, and a mix whose costs have
 * shifted). The same seed gives the reference's own messages, one by one.
 *
 * Pure: everything follows from the arguments.
 */
#ifndef HARBINGER_TRACE_GEN_PRODFLOW_H
#define HARBINGER_TRACE_GEN_PRODFLOW_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the reference's order. Behind each, its unit of CPU work. */
enum prodflow_type {
    PRODFLOW_SEND_ORDER_EMAIL,  /* KiB rendered */
    PRODFLOW_GENERATE_INVOICE,  /* line items */
    PRODFLOW_RESERVE_INVENTORY, /* none */
    PRODFLOW_RESIZE_IMAGE,      /* pixels */
    PRODFLOW_REINDEX_PRODUCT,   /* words */
    PRODFLOW_PUSH_NOTIFICATION, /* none */
    PRODFLOW_SEND_SMS,          /* none */
    PRODFLOW_DELIVER_WEBHOOK,   /* none */
    PRODFLOW_EXPORT_REPORT,     /* chunks of 250,000 rows */
    PRODFLOW_N_TYPES
};

enum prodflow_phase {
    PRODFLOW_STEADY,
    PRODFLOW_RAMP,
    PRODFLOW_FLASH,
    PRODFLOW_RECOVERY,
    PRODFLOW_SHIFTED,
    PRODFLOW_N_PHASES
};

/* How long an attempt takes that fails, in ms; only a webhook's first attempt does. */
#define PRODFLOW_TIMEOUT_MS 1500.0

struct prodflow_job {
    int64_t arrival_us; /* from the start of the flow */
    enum prodflow_type type;
    enum prodflow_phase phase; /* of its arrival */
    uint32_t units;            /* of CPU work, by type; 0 where there is none */
    bool fails;                /* the first attempt: PRODFLOW_TIMEOUT_MS, then a failure */
    double sleep_ms;           /* of the attempt that succeeds, after the CPU work */
};

/* Milliseconds per unit, as measured on one machine. */
struct prodflow_calibration {
    double render_kib, invoice_item, resize_megapixel, reindex_word, export_chunk;
};

struct prodflow_options {
    uint64_t seed;
    double seconds;    /* of arrivals; phases are fractions of it */
    double rate_scale; /* times the base rates */
};

/* 300 s at 1.8, the reference's. */
void prodflow_options_init(struct prodflow_options *o, uint64_t seed);

/* All jobs by arrival, in one array that the caller frees; its index is the sequence number. 0;
 * ERR_INVALID when seconds (up to a day) or rate_scale (up to 1000) is not above 0; ERR_NOMEM. */
int prodflow_generate(const struct prodflow_options *o, struct prodflow_job **out,
                      size_t *n) MUST_CHECK;

/* CPU work and sleep of the attempt that succeeds. */
double prodflow_planned_ms(const struct prodflow_job *j, const struct prodflow_calibration *c);

/* "v2", "v3-sizebins", "v3-aging": the published measurements; NULL when there is no such one. */
const struct prodflow_calibration *prodflow_calibration(const char *name);

/* What producers say of a job at its submission: pixels, items or chunks. False where they say
 * nothing. */
bool prodflow_size_hint(const struct prodflow_job *j, uint64_t *out);

/* The level of the reference's oracle is the number of these boundaries that are not above the
 * planned cost: the costs at ranks n/3 and 2n/3. 0, or ERR_NOMEM. There must be a job. */
int prodflow_boundaries(const struct prodflow_job *jobs, size_t n,
                        const struct prodflow_calibration *c, double out[2]) MUST_CHECK;

const char *prodflow_type_name(enum prodflow_type t);
const char *prodflow_service_name(enum prodflow_type t);
const char *prodflow_phase_name(enum prodflow_phase p);

#endif
