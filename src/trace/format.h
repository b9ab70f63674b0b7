/* The bytes of a trace file, for its reader and its writer; docs/trace.md says what they mean. */
#ifndef HARBINGER_TRACE_FORMAT_H
#define HARBINGER_TRACE_FORMAT_H

#define TRACE_MAGIC "HBTRACE\x01"

enum {
    TRACE_MAGIC_BYTES = 8,
    TRACE_END = 0x00, /* the count of jobs, CRC-32 of everything before the CRC itself */
    TRACE_JOB = 0x01, /* with these bits: */
    TRACE_NEW_KEY = 0x02,
    TRACE_HAS_PRODUCER = 0x04,
    TRACE_NEW_PRODUCER = 0x08,
    TRACE_HAS_SIZE = 0x10,

    TRACE_VARINT_BYTES = 10,
    /* tag, two times, two texts, a size */
    TRACE_RECORD_BYTES = 1 + 3 * TRACE_VARINT_BYTES + 2 * (1 + 128),
};

#endif
