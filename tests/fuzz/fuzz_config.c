/*
 * Exercises src/conf: the YAML reader, the values, the agreement of the options and the printer.
 *
 * Whatever is refused leaves nothing behind and says why; whatever is accepted is printed and read
 * back as the same configuration (URIs apart, as their passwords are hidden).
 */
#include "conf/conf.h"
#include "fuzz/target.h"

#include <stdlib.h>
#include <string.h>

static void must(int yes)
{
    if (!yes)
        abort();
}

static void prints_and_reads_back(const struct conf *c)
{
    struct buf out = {0};
    struct conf again;
    struct conf_errors errors = {0};
    struct conf_change changes[CONF_MAX_OPTIONS];
    must(conf_print(c, &out) == 0);
    must(conf_load_text("printed", out.p, out.n, &again, &errors) == 0);
    size_t n = conf_diff(c, &again, changes);
    must(n == 0 || (n == 1 && strcmp(changes[0].key, "amqp.uri") == 0));
    conf_fini(&again);
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conf c;
    struct conf_errors errors = {0};
    int r = conf_load_text("fuzz", (const char *)data, size, &c, &errors);
    must((r < 0) == (errors.n > 0));
    must((r < 0) == (c.instance == NULL));
    if (r == 0)
        prints_and_reads_back(&c);
    conf_fini(&c);
    return 0;
}
