/* Build tool: prints what is generated from conf_table. `conf_gen yaml|minimal|man|help|keys` */
#include "base/buf.h"
#include "conf/conf.h"
#include "conf/conf_doc.h"
#include "conf/conf_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_keys(const struct conf *c, struct buf *out)
{
    (void)c;
    size_t n;
    const struct conf_option *rows = conf_table(&n);
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = buf_printf(out, "%s\n", rows[i].key);
    return r;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*print)(const struct conf *c, struct buf *out);
    } outputs[] = {
        {"yaml", conf_print},    {"minimal", conf_doc_minimal}, {"man", conf_doc_man},
        {"help", conf_doc_help}, {"keys", print_keys},
    };
    struct conf defaults;
    struct buf out = {0};
    int r = conf_init_defaults(&defaults);
    for (size_t i = 0; r == 0 && argc == 2 && i < ARRAY_SIZE(outputs); i++)
        if (strcmp(argv[1], outputs[i].name) == 0)
            r = outputs[i].print(&defaults, &out);
    bool done =
        r == 0 && out.n > 0 && fwrite(out.p, 1, out.n, stdout) == out.n && fflush(stdout) == 0;
    buf_fini(&out);
    conf_fini(&defaults);
    if (!done)
        fputs("usage: conf_gen yaml|minimal|man|help|keys\n", stderr);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
