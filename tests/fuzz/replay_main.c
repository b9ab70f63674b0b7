/*
 * A main for fuzz targets without an engine: feeds each file named on the command line, and each
 * file in each directory named, to the target. So every target is built and run over its corpus by
 * every compiler; with -Dfuzzer=enabled libFuzzer's own main takes this one's place.
 */
#include "fuzz/target.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static unsigned replayed;

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    uint8_t *bytes = NULL;
    size_t n = 0, cap = 0;
    for (;;) {
        if (n == cap) {
            cap = cap > 0 ? cap * 2 : 4096;
            bytes = realloc(bytes, cap);
            if (bytes == NULL)
                abort();
        }
        size_t k = fread(bytes + n, 1, cap - n, f);
        if (k == 0)
            break;
        n += k;
    }
    fclose(f);
    uint8_t *exact = malloc(n > 0 ? n : 1); /* so that a sanitizer sees every read beyond the end */
    if (exact == NULL)
        abort();
    memcpy(exact, bytes, n);
    free(bytes);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    replayed++;
    return 0;
}

static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return replay_file(path);
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort), failed = n < 0;
    for (int i = 0; i < n; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            failed |= replay_file(inner);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay(argv[i]);
    fprintf(stderr, "%u inputs\n", replayed);
    return failed || replayed == 0;
}
