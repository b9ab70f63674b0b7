/* harbinger lab report: the page is made by the program lab-report, which knows how to plot. */
#include "cli/cli.h"
#include "cli/local.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPORTER "lab-report"

const struct local_option local_lab_report_options[] = {
    {"out", "FILE", "the page [DIR/report.html]"},
    {0},
};

/* As installed, beside this program's folder; in a build folder of the source tree, its scripts. */
static const char *const places[] = {"../libexec/harbinger/" REPORTER,
                                     "../../../scripts/" REPORTER};

static bool find_reporter(char *out, size_t size)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return false;
    self[n] = '\0';
    const char *folder = dirname(self);
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        int length = snprintf(out, size, "%s/%s", folder, places[i]);
        if (length > 0 && (size_t)length < size && access(out, X_OK) == 0)
            return true;
    }
    return false;
}

int local_lab_report(struct local *l)
{
    char reporter[4096 + 64], page[4096];
    struct err e;
    if (l->n_operands != 1)
        return local_usage(l, "one folder, that lab run --out has made");
    int n = snprintf(page, sizeof page, "%s/report.html", l->operands[0]);
    if (n < 0 || (size_t)n >= sizeof page)
        return local_usage(l, "the folder's name is too long");
    if (!find_reporter(reporter, sizeof reporter)) {
        err_set(&e, ERR_SYSTEM, "the program %s is not where it was installed (libexec/harbinger)",
                REPORTER);
        return local_failed(&e);
    }
    execl(reporter, REPORTER, l->operands[0], local_text(l, "out", page), (char *)NULL);
    return local_failed_file(reporter);
}
