/* Exercises src/proxy/split.c: whatever comes in, in one piece or in any pieces, it is the same
 * frames or the same refusal. Input: step size, greeting, bytes. */
#include "amqp/wire.h"
#include "base/err.h"
#include "fuzz/target.h"
#include "proxy/split.h"

#include <stdlib.h>
#include <string.h>

static void must(int holds)
{
    if (!holds)
        abort();
}

/* All frames one after another; the last byte tells how it ended. */
static void run(const uint8_t *data, size_t size, size_t step, bool greeting, struct buf *out)
{
    struct split s;
    int r = SPLIT_MORE;
    char *copy = malloc(step);
    must(copy != NULL);
    split_init(&s, greeting, 4096);
    for (size_t i = 0; i < size && r == SPLIT_MORE; i += step) {
        size_t n = size - i < step ? size - i : step;
        char *at = copy;
        struct frame f;
        memcpy(copy, data + i, n);
        while ((r = split_next(&s, &at, &n, &f)) == 0) {
            must(f.n_raw >= f.n && f.n_raw > 0);
            must(buf_append(out, f.raw, f.n_raw) == 0);
            f.raw[0] = 0; /* it is ours to change */
        }
        must(r < 0 || n == 0);
    }
    must((r == ERR_PROTOCOL) == (s.error != NULL));
    char end = r == SPLIT_MORE ? 'm' : 'p';
    must(buf_append(out, &end, 1) == 0);
    free(copy);
    split_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = {0}, pieces = {0};
    if (size < 3)
        return 0;
    size_t step = 1 + data[0] % 32;
    bool greeting = (data[1] & 1) != 0;
    run(data + 2, size - 2, size, greeting, &whole);
    run(data + 2, size - 2, step, greeting, &pieces);
    must(whole.n == pieces.n && memcmp(whole.p, pieces.p, whole.n) == 0);
    buf_fini(&whole);
    buf_fini(&pieces);
    return 0;
}
