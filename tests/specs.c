#include "specs.h"
#include "support.h"

/* One fibre (vectors) takes the packed and low-rank code, more than four the code on BLAS; both are here. */
const instance instances[] = {
    {"identity", "identity", 1, {3}},
    {"identity", "kron(identity,diag)", 2, {3, 4}},
    {"scale", "scale", 1, {5}},
    {"scale", "kron(scale,tri)", 2, {3, 4}},
    {"diag", "diag", 1, {7}},
    {"diag", "diag", 3, {2, 3, 2}},
    {"diag", "kron(diag,diag)", 2, {5, 3}},
    {"tri", "tri", 1, {1}},
    {"tri", "tri", 1, {9}},
    {"tri", "kron(tri,tri)", 2, {6, 5}},
    {"tri", "kron(tri,tri)", 2, {60, 2}},
    {"tril", "tril", 1, {9}},
    {"tril", "kron(tril,tril)", 2, {5, 7}},
    {"dense", "dense", 1, {1}},
    {"dense", "dense", 1, {6}},
    {"dense", "kron(dense,dense)", 2, {5, 4}},
    {"dense", "kron(dense,identity)", 2, {3, 2}},
    {"norm", "norm", 1, {6}},
    {"norm", "kron(norm,t(norm))", 2, {4, 5}},
    {"bnorm", "bnorm", 1, {6}},
    {"bnorm", "kron(bnorm,t(bnorm))", 2, {4, 5}},
    {"xmat", "xmat", 1, {6}},
    {"xmat", "xmat", 1, {7}},
    {"xmat", "kron(xmat,xmat)", 2, {4, 5}},
    {"t", "t(tri)", 1, {5}},
    {"t", "t(norm)", 1, {5}},
    {"t", "t(t(bnorm))", 1, {5}},
    {"t", "t(block(tri:3,norm))", 1, {7}},
    {"block", "block(tri:4,identity:1)", 1, {5}},
    {"block", "block(dense:2,block(diag:3,scale))", 1, {7}},
    {"block", "kron(block(tri:3,scale:2),t(block(sum(diag:1,dense:2),tril)))", 2, {5, 6}},
    {"sum", "sum(diag:2,tri:3,scale:2)", 1, {7}},
    {"sum", "sum(dense:3,sum(norm:2,xmat:3),bnorm)", 2, {2, 5}},
    {"kron", "kron(tri,dense,diag)", 3, {3, 2, 4}},
    {"kron", "kron(diag,scale,tri,norm)", 4, {2, 1, 3, 2}},
    {"kron", "kron(tri)", 1, {4}},
    {"kron", "sum(kron(tri:3,tri:4),diag:5)", 1, {17}},
    {"kron", "kron(sum(kron(tri:2,diag:3),norm:2),tril)", 2, {8, 3}},
    {"kron", "kron(t(block(diag:2,tri)),sum(bnorm:3,scale:4))", 2, {5, 7}},
    {"tiles", "tiles(diag,2,3)", 2, {4, 6}},
    {"tiles", "tiles(kron(tri,dense),2,2)", 2, {5, 7}},
    {"tiles", "tiles(kron(dense,dense),1,2)", 2, {3, 8}},
    {"tiles", "t(tiles(block(tri:3,norm),3,1))", 2, {7, 3}},
    {"tiles", "tiles(scan,2,2)", 2, {5, 9}},
    {"scan", "scan", 2, {4, 6}},
    {"scan", "t(scan)", 2, {4, 6}},
    {"scaw", "scaw", 2, {6, 4}},
};
const int instance_count = (int)(sizeof instances / sizeof instances[0]);

typedef struct writer {
    uint64_t *seed;
    char *at, *end;
} writer;

static void put(writer *w, const char *text)
{
    int used = snprintf(w->at, (size_t)(w->end - w->at), "%s%s", random_below(w->seed, 8) ? "" : " ", text);
    w->at += used < w->end - w->at ? used : w->end - w->at;
}

static void put_size(writer *w, int64_t n)
{
    char digits[32];
    snprintf(digits, sizeof digits, ":%lld", (long long)n);
    put(w, digits);
}

typedef struct place {
    int depth, krons;
    bool blocked, exact; /* below a block; every size below must be written */
} place;

static void put_group(writer *w, int64_t n, place here);

static void put_leaf(writer *w)
{
    static const char *const leaves[] = {"identity", "scale", "diag", "tri", "tril", "dense", "norm", "bnorm", "xmat"};
    put(w, leaves[random_below(w->seed, 9)]);
}

static int64_t divisor(uint64_t *seed, int64_t n)
{
    int64_t d = 1 + random_below(seed, n);
    while (n % d) d--;
    return d;
}

/* A kron inside a sum: one to three factors, each with its size. */
static void put_kron(writer *w, int64_t n, place here)
{
    int64_t d = divisor(w->seed, n), e = divisor(w->seed, n / d);
    int64_t factors[] = {d, e, n / d / e};
    int count = 1 + (int)random_below(w->seed, 3);
    if (count == 1) factors[0] = n;
    if (count == 2) factors[1] = n / d;
    here.krons++;
    here.exact = true;
    put(w, "kron(");
    for (int i = 0; i < count; i++) {
        if (i) put(w, ",");
        put_group(w, factors[i], here);
        put_size(w, factors[i]);
    }
    put(w, ")");
}

static void put_sum(writer *w, int64_t n, place here)
{
    int64_t parts = 1 + random_below(w->seed, n < 3 ? n : 3), left = n;
    int64_t open = here.exact ? -1 : random_below(w->seed, parts + 1);
    put(w, "sum(");
    for (int64_t i = 0; i < parts; i++) {
        int64_t size = i == parts - 1 ? left : 1 + random_below(w->seed, left - (parts - 1 - i));
        place inner = here;
        inner.exact = here.exact || i != open;
        if (i) put(w, ",");
        if (!here.blocked && here.krons < 3 && here.depth > 0 && random_below(w->seed, 3) == 0) {
            put_kron(w, size, inner);
        } else {
            put_group(w, size, inner);
        }
        if (i != open) put_size(w, size);
        left -= size;
    }
    put(w, ")");
}

static void put_block(writer *w, int64_t n, place here)
{
    int64_t k = 1 + random_below(w->seed, n - 1), open = here.exact ? 2 : random_below(w->seed, 3);
    place inner = here;
    inner.blocked = true;
    put(w, "block(");
    inner.exact = here.exact || open != 0;
    put_group(w, k, inner);
    if (open != 0) put_size(w, k);
    put(w, ",");
    inner.exact = here.exact || open != 1;
    put_group(w, n - k, inner);
    if (open != 1) put_size(w, n - k);
    put(w, ")");
}

static void put_group(writer *w, int64_t n, place here)
{
    int64_t choice = here.depth > 0 ? random_below(w->seed, 8) : 9;
    here.depth--;
    if (choice < 2) {
        put_sum(w, n, here);
    } else if (choice < 4 && n > 1) {
        put_block(w, n, here);
    } else if (choice == 4) {
        put(w, "t(");
        put_group(w, n, here);
        put(w, ")");
    } else {
        put_leaf(w);
    }
}

static int random_shape(uint64_t *seed, int64_t limit, int64_t shape[4])
{
    static const int64_t sizes[] = {1, 1, 2, 2, 3, 3, 4, 5, 7, 9, 16, 33, 61};
    int ndim = 1 + (int)random_below(seed, 4);
    for (;;) {
        int64_t n = 1;
        for (int i = 0; i < ndim; i++) n *= shape[i] = sizes[random_below(seed, 13)];
        if (n <= limit) return ndim;
    }
}

int random_spec(uint64_t *seed, int64_t limit, char spec[SPEC_ROOM], int64_t shape[4])
{
    int ndim = random_shape(seed, limit, shape);
    int64_t n = 1, turned = random_below(seed, 4) == 0;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    writer w = {.seed = seed, .at = spec, .end = spec + SPEC_ROOM};
    place here = {.depth = 4};
    if (turned) put(&w, "t(");
    if (ndim == 2 && random_below(seed, 10) == 0) {
        put(&w, random_below(seed, 2) ? "scan" : "scaw");
    } else if (ndim == 2 && n <= 256 && random_below(seed, 8) == 0) {
        char counts[64];
        int64_t down = 1 + random_below(seed, shape[0] < 3 ? shape[0] : 3);
        int64_t across = 1 + random_below(seed, shape[1] < 3 ? shape[1] : 3);
        bool kron = random_below(seed, 2);
        put(&w, kron ? "tiles(kron(" : "tiles(");
        put_leaf(&w);
        if (kron) put(&w, ",");
        if (kron) put_leaf(&w);
        snprintf(counts, sizeof counts, ",%lld,%lld)", (long long)down, (long long)across);
        put(&w, kron ? ")" : "");
        put(&w, counts);
    } else if (random_below(seed, 3)) {
        here.krons = 1;
        put(&w, "kron(");
        for (int i = 0; i < ndim; i++) {
            if (i) put(&w, ",");
            put_group(&w, shape[i], here);
        }
        put(&w, ")");
    } else {
        put_group(&w, n, here);
    }
    if (turned) put(&w, ")");
    return ndim;
}
