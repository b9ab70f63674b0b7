/* harbinger lab run --out: results as files. */
#include "cli/lab.h"

#include "cli/cli.h"

#include <harbinger/version.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

int lab_save_begin(const char *dir)
{
    struct stat st;
    if (dir == NULL || mkdir(dir, 0777) == 0)
        return CLI_OK;
    if (errno != EEXIST || stat(dir, &st) < 0)
        return local_failed_file(dir);
    if (S_ISDIR(st.st_mode))
        return CLI_OK;
    errno = ENOTDIR;
    return local_failed_file(dir);
}

/* Written beside and then renamed: a file in the folder is whole. Takes `json`. */
static int save(json_t *json, const char *dir, const char *name)
{
    char path[4096], part[4096 + 8];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(part, sizeof part, "%s.part", path);
    if (json == NULL) {
        fputs("harbinger: out of memory\n", stderr);
        return CLI_FAILED;
    }
    int r = json_dump_file(json, part, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    json_decref(json);
    if (r == 0 && rename(part, path) == 0)
        return CLI_OK;
    int code = local_failed_file(path);
    (void)remove(part);
    return code;
}

int lab_save_runs(const struct lab *lab, const char *dir, unsigned seed, const struct simulate *s)
{
    char name[64] = "runs.json";
    if (dir == NULL)
        return CLI_OK;
    if (lab->x->trace != NULL)
        snprintf(name, sizeof name, "runs-%" PRIu64 ".json", lab->x->seeds[seed]);
    return save(simulate_json(s), dir, name);
}

int lab_save(const struct lab *lab, const char *dir)
{
    if (dir == NULL)
        return CLI_OK;
    json_t *json = lab_json(lab);
    if (json != NULL)
        json_object_set_new(json, "version", json_string(HARBINGER_VERSION));
    return save(json, dir, "summary.json");
}
