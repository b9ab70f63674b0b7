#include "predict/crc32c.h"

#define POLYNOMIAL UINT32_C(0x82F63B78)

enum { SLICES = 8 };

/* slice[k][b]: the effect of byte b when k more zero bytes follow it. Computed on each call (8 KiB,
 * some microseconds), which is nothing beside the files it is for. */
static void fill(uint32_t slice[SLICES][256])
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int i = 0; i < 8; i++)
            c = (c >> 1) ^ (c & 1 ? POLYNOMIAL : 0);
        slice[0][b] = c;
    }
    for (int k = 1; k < SLICES; k++)
        for (int b = 0; b < 256; b++)
            slice[k][b] = (slice[k - 1][b] >> 8) ^ slice[0][slice[k - 1][b] & 0xff];
}

uint32_t crc32c(const void *data, size_t n)
{
    uint32_t slice[SLICES][256];
    fill(slice);
    const unsigned char *p = data;
    uint32_t c = UINT32_MAX;
    for (; n >= SLICES; p += SLICES, n -= SLICES) {
        uint32_t next = 0;
        for (int i = 0; i < SLICES; i++) {
            unsigned char byte = i < 4 ? p[i] ^ (unsigned char)(c >> (8 * i)) : p[i];
            next ^= slice[SLICES - 1 - i][byte];
        }
        c = next;
    }
    for (; n > 0; p++, n--)
        c = (c >> 8) ^ slice[0][(c ^ *p) & 0xff];
    return ~c;
}
