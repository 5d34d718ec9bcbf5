#include "data/format/npy.h"
#include "core/memory.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 3 };

typedef struct cursor {
    const char *at;
    npy_file *npy;
    char type[64]; /* what descr says */
    bool fortran, seen[KEYS];
} cursor;

static psgd_status malformed(const cursor *c, const char *wanted)
{
    int shown = 0; /* only what a terminal can show */
    while (shown < 20 && c->at[shown] >= ' ' && c->at[shown] <= '~') shown++;
    return psgd__fail(PSGD_ERR_FORMAT, "%s: the .npy header is malformed: expected %s before '%.*s'", c->npy->path,
                      wanted, shown, c->at);
}

static void skip_space(cursor *c)
{
    c->at += strspn(c->at, " \t\r\n");
}

static bool take(cursor *c, char wanted)
{
    skip_space(c);
    if (*c->at != wanted) return false;
    c->at++;
    return true;
}

/* 'word' or "word" without escapes. */
static psgd_status read_string(cursor *c, char *word, size_t room)
{
    skip_space(c);
    char quote = *c->at;
    const char *end = quote == '\'' || quote == '"' ? strchr(c->at + 1, quote) : NULL;
    if (!end) return malformed(c, "a quoted word");
    size_t length = (size_t)(end - c->at - 1);
    if (length >= room) return malformed(c, "a shorter word");
    for (size_t i = 0; i < length; i++) {
        if (c->at[i + 1] < ' ' || c->at[i + 1] > '~') return malformed(c, "a plain word");
        word[i] = c->at[i + 1];
    }
    word[length] = 0;
    c->at = end + 1;
    return PSGD_OK;
}

static psgd_status read_type(cursor *c)
{
    skip_space(c);
    if (*c->at == '[') {
        return psgd__fail(PSGD_ERR_FORMAT, "%s holds records; psgd reads plain arrays of float32 or float64",
                          c->npy->path);
    }
    return read_string(c, c->type, sizeof c->type);
}

static psgd_status read_order(cursor *c)
{
    skip_space(c);
    for (int i = 0; i < 2; i++) {
        const char *word = i ? "True" : "False";
        size_t length = strlen(word);
        if (strncmp(c->at, word, length)) continue;
        c->fortran = i;
        c->at += length;
        return PSGD_OK;
    }
    return malformed(c, "True or False");
}

static psgd_status read_shape(cursor *c)
{
    npy_file *npy = c->npy;
    npy->ndim = 0;
    npy->count = 1;
    if (!take(c, '(')) return malformed(c, "'('");
    while (!take(c, ')')) {
        char *end;
        bool digit = *c->at >= '0' && *c->at <= '9';
        if (!digit) return malformed(c, "a size");
        if (npy->ndim == NPY_MAX_DIMS) {
            return psgd__fail(PSGD_ERR_FORMAT, "%s has more than %d dimensions", npy->path, NPY_MAX_DIMS);
        }
        long long size = strtoll(c->at, &end, 10); /* saturates, and then does not fit below */
        if (!psgd__mul_fits(npy->count, size, &npy->count)) {
            return psgd__fail(PSGD_ERR_FORMAT, "%s: its shape has more elements than can be counted", npy->path);
        }
        npy->shape[npy->ndim++] = size;
        c->at = *end == 'L' ? end + 1 : end; /* Python 2 wrote 3L */
        if (!take(c, ',')) {
            if (take(c, ')')) break;
            return malformed(c, "',' or ')'");
        }
    }
    return PSGD_OK;
}

static const struct {
    const char *name;
    psgd_status (*read)(cursor *c);
} keys[KEYS] = {{"descr", read_type}, {"fortran_order", read_order}, {"shape", read_shape}};

static psgd_status read_entry(cursor *c)
{
    char key[32];
    PSGD_TRY(read_string(c, key, sizeof key));
    if (!take(c, ':')) return malformed(c, "':'");
    for (int i = 0; i < KEYS; i++) {
        if (strcmp(key, keys[i].name)) continue;
        c->seen[i] = true;
        return keys[i].read(c);
    }
    return psgd__fail(PSGD_ERR_FORMAT, "%s: the .npy header has an unknown key '%s'", c->npy->path, key);
}

/* Fortran order is C order where at most one size is above 1, or one is 0. */
static bool order_matters(const npy_file *npy)
{
    int long_ndim = 0;
    for (int i = 0; i < npy->ndim; i++) long_ndim += npy->shape[i] > 1;
    return npy->count > 0 && long_ndim > 1;
}

static const npy_type types[] = {{"f4", 4}, {"f8", 8}, {"i1", 1}, {"i2", 2}, {"i4", 4}, {"i8", 8},
                                 {"u1", 1}, {"u2", 2}, {"u4", 4}, {"u8", 8}, {"b1", 1}};

static psgd_status accept(cursor *c)
{
    npy_file *npy = c->npy;
    bool order = c->type[0] && strchr("<>=|", c->type[0]);
    const char *kind = order ? c->type + 1 : c->type;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!strcmp(kind, types[i].name)) npy->type = &types[i];
    }
    if (!npy->type) {
        return psgd__fail(PSGD_ERR_FORMAT,
                          "%s holds elements of type '%s'; psgd reads float32, float64, integers and bool: save "
                          "x.astype('float32')",
                          npy->path, c->type);
    }
    npy->swapped = c->type[0] == '>';
    if (c->fortran && order_matters(npy)) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s is in Fortran order; save numpy.ascontiguousarray(x) instead",
                          npy->path);
    }
    int64_t bytes;
    if (!psgd__mul_fits(npy->count, npy->type->size, &bytes)) {
        return psgd__fail(PSGD_ERR_FORMAT, "%s: its shape has more elements than can be counted", npy->path);
    }
    return PSGD_OK;
}

psgd_status psgd__npy_parse_header(const char *header, npy_file *npy)
{
    cursor c = {.at = header, .npy = npy};
    if (!take(&c, '{')) return malformed(&c, "'{'");
    while (!take(&c, '}')) {
        PSGD_TRY(read_entry(&c));
        if (!take(&c, ',')) {
            if (take(&c, '}')) break;
            return malformed(&c, "',' or '}'");
        }
    }
    skip_space(&c);
    if (*c.at) return malformed(&c, "nothing more");
    for (int i = 0; i < KEYS; i++) {
        if (!c.seen[i]) return psgd__fail(PSGD_ERR_FORMAT, "%s: the .npy header has no '%s'", npy->path, keys[i].name);
    }
    return accept(&c);
}
