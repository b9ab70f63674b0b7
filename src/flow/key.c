#include "flow/key.h"

#include "base/err.h"
#include "base/num.h"

#include <harbinger/predictor.h>

static bool usable(struct text t)
{
    if (t.n == 0 || t.n > KEY_PART_BYTES)
        return false;
    for (size_t i = 0; i < t.n; i++) {
        unsigned char c = (unsigned char)t.p[i];
        if (c < 0x20 || c == 0x7f)
            return false;
    }
    return true;
}

static struct text source_text(const struct key_source *source, const struct job *job,
                               char *scratch)
{
    switch (source->kind) {
    case KEY_USER_ID: return job->user_id;
    case KEY_APP_ID: return job->app_id;
    case KEY_TYPE: return job->type;
    case KEY_HEADER: return job->header(job->message, source->header, scratch);
    case KEY_NONE:
    case KEY_BODY: break;
    }
    return (struct text){NULL, 0};
}

static struct text first_usable(const struct key_source *sources, size_t n, const struct job *job,
                                char *scratch)
{
    for (size_t i = 0; i < n; i++) {
        struct text t = source_text(&sources[i], job, scratch);
        if (usable(t))
            return t;
    }
    return (struct text){NULL, 0};
}

/* Appends and returns true, or leaves the key alone when it would pass the limit. */
static bool append(struct key *k, const char *p, size_t n)
{
    if (n > KEY_MAX_BYTES - k->n)
        return false;
    memcpy(k->raw + k->n, p, n);
    k->n += n;
    return true;
}

static bool append_part(struct key *k, struct text part)
{
    static const char separator = KEY_SEPARATOR;
    if (part.n + 1 > KEY_MAX_BYTES - k->n)
        return false;
    return append(k, &separator, 1) && append(k, part.p, part.n);
}

/* The reference's rule: a whole non-negative finite number of at most 32 characters, otherwise
 * there is no bin. */
static bool size_of(const struct key_source *source, const struct job *job, double *out)
{
    if (source->kind == KEY_BODY) {
        *out = (double)job->body_bytes;
        return true;
    }
    char scratch[JOB_SCRATCH_BYTES];
    struct text t = source_text(source, job, scratch);
    return t.n <= 32 && num_parse_double(t.p, t.n, out) == 0 && *out >= 0;
}

static void append_size_bin(struct key *k, double size, bool has_label)
{
    char bin[HB_SIZE_LABEL_MAX];
    size_t n_bin = hb_size_label(size, bin);
    size_t n_plain = k->n;
    if ((!has_label && !append_part(k, text_of(""))) ||
        !append_part(k, (struct text){bin, n_bin})) {
        k->n = n_plain;
        return;
    }
    k->n_parent = n_plain;
}

void key_of(const struct key_rules *rules, const struct job *job, struct key *out,
            struct text *label, char scratch[JOB_SCRATCH_BYTES])
{
    char producer_scratch[JOB_SCRATCH_BYTES];
    struct text producer = first_usable(rules->producer, rules->n_producer, job, producer_scratch);
    if (producer.n == 0)
        producer = text_of("-");
    *label = first_usable(rules->label, rules->n_label, job, scratch);

    out->n = out->n_parent = 0;
    if (!append(out, producer.p, producer.n) || (label->n > 0 && !append_part(out, *label))) {
        out->n = 0;
        return;
    }
    double size;
    if (rules->size.kind != KEY_NONE && size_of(&rules->size, job, &size))
        append_size_bin(out, size, label->n > 0);
}

/* The unreserved characters of RFC 3986; everything else is escaped, '/' and '%' among it. */
static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '~';
}

size_t key_print(const struct key *k, char out[KEY_PRINT_BYTES])
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++) {
        unsigned char c = (unsigned char)k->raw[i];
        if (c == KEY_SEPARATOR) {
            out[n++] = '/';
        } else if (is_plain(c)) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    out[n] = '\0';
    return n;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* One byte of the raw key from printed[*i], which moves on. False: not a printed key. */
static bool next_byte(struct text printed, size_t *i, char *out)
{
    char c = printed.p[(*i)++];
    if (c == '/') {
        *out = KEY_SEPARATOR;
        return true;
    }
    if (c != '%') {
        *out = c;
        return is_plain((unsigned char)c);
    }
    if (printed.n - *i < 2)
        return false;
    int high = hex_digit(printed.p[*i]), low = hex_digit(printed.p[*i + 1]);
    *i += 2;
    if (high < 0 || low < 0)
        return false;
    unsigned char value = (unsigned char)(high << 4 | low);
    *out = (char)value;
    return value >= 0x20 && value != 0x7f;
}

int key_parse(struct text printed, struct key *out)
{
    struct key k = {0};
    size_t separators = 0, second = 0, first = 0;
    for (size_t i = 0; i < printed.n;) {
        char byte;
        if (!next_byte(printed, &i, &byte) || !append(&k, &byte, 1))
            return ERR_INVALID;
        if (byte == KEY_SEPARATOR) {
            separators++;
            *(separators == 1 ? &first : &second) = k.n - 1;
        }
    }
    if (k.n == 0 || separators > 2)
        return ERR_INVALID;
    if (separators == 2)
        k.n_parent = second == first + 1 ? first : second;
    *out = k;
    return 0;
}
