/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as in RFC 3720, appendix B.4. */
#ifndef HARBINGER_PREDICT_CRC32C_H
#define HARBINGER_PREDICT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t n);

#endif
