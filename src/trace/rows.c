#include "trace/rows.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *name, *text;
    bool bad;
} reasons[] = {
#define ROW_ROW(name, bad, text) {#name, text, bad},
    ROW_MAP(ROW_ROW)
#undef ROW_ROW
};

const char *row_reason_name(enum row_reason r)
{
    return reasons[r].name;
}

const char *row_reason_text(enum row_reason r)
{
    return reasons[r].text;
}

bool row_reason_bad(enum row_reason r)
{
    return reasons[r].bad;
}

static uint64_t sum(const struct rows *r, bool bad)
{
    uint64_t n = 0;
    for (int i = 0; i < ROW_N_REASONS; i++)
        n += reasons[i].bad == bad ? r->skipped[i] : 0;
    return n;
}

uint64_t rows_bad(const struct rows *r)
{
    return sum(r, true);
}

uint64_t rows_left_out(const struct rows *r)
{
    return sum(r, false);
}

static void go_on(const struct rows *r)
{
    uint64_t n = r->taken + rows_bad(r) + rows_left_out(r);
    if (r->progress != NULL && n % 65536 == 0)
        r->progress(r->ctx, n);
}

void rows_take(struct rows *r)
{
    r->taken++;
    go_on(r);
}

/* The beginning of a field, as something that can be shown on a terminal. */
static void show(struct text value, char out[44])
{
    size_t n = value.n < 40 ? value.n : 40;
    for (size_t i = 0; i < n; i++)
        out[i] = value.p[i] >= 0x20 && value.p[i] < 0x7f ? value.p[i] : '?';
    snprintf(out + n, 4, "%s", n < value.n ? "..." : "");
}

static void explain(char *out, size_t size, enum row_reason reason, const struct row_place *p)
{
    char value[44] = "";
    if (p->value.p != NULL)
        show(p->value, value);
    snprintf(out, size, "%s:%" PRIu64 ": %s%s%s%s%s%s", p->file, p->line,
             p->what != NULL ? p->what : "", p->value.p != NULL ? " '" : "", value,
             p->value.p != NULL ? "'" : "", p->what != NULL ? ": " : "", reasons[reason].text);
}

int rows_skip(struct rows *r, enum row_reason reason, const struct row_place *place, struct err *e)
{
    char text[400];
    r->skipped[reason]++;
    go_on(r);
    if (!reasons[reason].bad)
        return 0;
    explain(text, sizeof text, reason, place);
    if (r->strict)
        return err_set(e, ERR_INVALID, "%s", text);
    if (r->tell != NULL && rows_bad(r) <= ROWS_TOLD)
        r->tell(r->ctx, text);
    return 0;
}
