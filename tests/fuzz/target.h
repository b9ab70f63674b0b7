/* What every fuzz target defines: returns 0, and anything wrong ends the process. */
#ifndef HARBINGER_TESTS_FUZZ_TARGET_H
#define HARBINGER_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
