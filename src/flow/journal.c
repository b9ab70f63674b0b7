#include "flow/journal.h"

#include "base/err.h"
#include "base/num.h"

#include <harbinger/predictor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS = 6 };

static const char *const words[] = {
    [JOURNAL_JOB] = "job", [JOURNAL_LEARNED] = "learned", [JOURNAL_TIMEOUT] = "timeout"};

int journal_print(const struct journal_entry *r, struct buf *out)
{
    char key[KEY_PRINT_BYTES], level[16] = "-", ms[32] = "-";
    bool is_job = r->event == JOURNAL_JOB;
    key_print(&r->key, key);
    if (is_job)
        snprintf(level, sizeof level, "%u", r->level);
    if (r->ms >= 0)
        num_format_double(r->ms, ms, sizeof ms);
    return buf_printf(out, "%" PRId64 "\t%s\t%s\t%s\t%s\t%.*s\n", r->at, words[r->event], key,
                      level, ms, is_job ? (int)r->reason.n : 1, is_job ? r->reason.p : "-");
}

static bool cut(struct text line, struct text out[FIELDS])
{
    for (int i = 0; i < FIELDS; i++) {
        const char *tab = line.n > 0 ? memchr(line.p, '\t', line.n) : NULL;
        if ((tab == NULL) != (i == FIELDS - 1))
            return false;
        size_t n = tab != NULL ? (size_t)(tab - line.p) : line.n;
        out[i] = (struct text){line.p, n};
        if (tab != NULL)
            line = (struct text){line.p + n + 1, line.n - n - 1};
    }
    return true;
}

static int number(struct text t, double *out)
{
    *out = -1;
    if (text_equal(t, text_of("-")))
        return 0;
    int r = num_parse_double(t.p, t.n, out);
    return r == 0 && *out < 0 ? ERR_INVALID : r;
}

static int event_of(struct text word, enum journal_event *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (text_equal(word, text_of(words[i]))) {
            *out = (enum journal_event)i;
            return 0;
        }
    return ERR_INVALID;
}

int journal_parse(struct text line, struct journal_entry *out)
{
    struct text field[FIELDS];
    uint64_t level = 0;
    *out = (struct journal_entry){.ms = -1};
    if (!cut(line, field) || num_parse_i64(field[0].p, field[0].n, &out->at) < 0 || out->at < 0 ||
        event_of(field[1], &out->event) < 0 || number(field[4], &out->ms) < 0)
        return ERR_INVALID;
    bool is_job = out->event == JOURNAL_JOB;
    if (field[2].n > 0 ? key_parse(field[2], &out->key) < 0 : !is_job)
        return ERR_INVALID;
    if ((out->event == JOURNAL_LEARNED && out->ms < 0) ||
        (is_job && (num_parse_u64(field[3].p, field[3].n, &level) < 0 || level >= HB_LEVELS_MAX)))
        return ERR_INVALID;
    out->level = (unsigned)level;
    if (is_job)
        out->reason = field[5];
    return 0;
}
