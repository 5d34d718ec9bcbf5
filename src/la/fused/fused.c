#include "la/fused/fused.h"
#include "la/array/dispatch.h"
#include "la/kernel/stream.h"

#include <string.h>

enum {
    CHUNK = 1 << 14,    /* numbers that one call of a kernel takes */
    PARALLEL = 1 << 15, /* numbers below which one thread is faster */
    STREAM = 1 << 25,   /* bytes from which on results do not fit a cache */
    MAX_PARTS = 16,
    SOME_COLUMNS = 1 << 9
};

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline real worse(real a, real b)
{
    return a > b || a != a ? a : b;
}

static inline bool past_caches(int64_t n)
{
    return n >= STREAM / (int64_t)sizeof(real);
}

real la_diag_fused(int64_t n, const real *q, const real *h, const real *v, real damping, int sign, real *r)
{
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) return k->diag_fused(n, q, h, v, damping, (real)sign, r, false);
    bool stream = past_caches(n);
    real max = 0;
#pragma omp parallel
    {
        real mine = 0;
#pragma omp for nowait schedule(static)
        for (int64_t i = 0; i < n; i += CHUNK) {
            mine = worse(mine,
                         k->diag_fused(smaller(CHUNK, n - i), q + i, h + i, v + i, damping, (real)sign, r + i, stream));
        }
        stream_done();
#pragma omp critical(psgd_la_max)
        max = worse(max, mine);
    }
    return max;
}

void la_diag_apply(int64_t n, real alpha, const real *q, const real *x, bool add, real *y)
{
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) {
        k->diag_apply(n, alpha, q, x, add, y, false);
        return;
    }
    bool stream = x != y && past_caches(n);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i += CHUNK) {
            k->diag_apply(smaller(CHUNK, n - i), alpha, q + i, x + i, add, y + i, stream);
        }
        stream_done();
    }
}

void la_cross_take(int64_t n, const real *Q, const real *h, const real *v, real damping, int sign, real *R,
                   real *largest, real *spectral)
{
    const la_kernels *k = la_kernel();
    int64_t pairs = n / 2;
    real max = 0, norm = 0;
#pragma omp parallel if (n > PARALLEL)
    {
        real own_max = 0, own_norm = 0;
#pragma omp for nowait schedule(static)
        for (int64_t i = 0; i < pairs; i += CHUNK) {
            la_cross_pairs p = {.size = n, .from = i, .d = Q, .e = Q + n, .h = h, .v = v};
            real a, b;
            k->cross_fused(smaller(CHUNK, pairs - i), &p, damping, (real)sign, R, past_caches(n), &a, &b);
            own_max = worse(own_max, a);
            own_norm = worse(own_norm, b);
        }
        stream_done();
#pragma omp critical(psgd_la_max)
        {
            max = worse(max, own_max);
            norm = worse(norm, own_norm);
        }
    }
    if (n % 2) {
        real r, middle = k->diag_fused(1, Q + pairs, h + pairs, v + pairs, damping, (real)sign, &r, false);
        R[pairs] = r;
        R[n + pairs] = 0;
        max = worse(max, middle);
        norm = worse(norm, middle);
    }
    *largest = max;
    *spectral = norm;
}

void la_cross_step(int64_t n, real c, const real *R, real *Q)
{
    const la_kernels *k = la_kernel();
    int64_t pairs = n / 2;
#pragma omp parallel for schedule(static) if (n > PARALLEL)
    for (int64_t i = 0; i < pairs; i += CHUNK) {
        la_cross_pairs p = {.size = n, .from = i};
        k->cross_retract(smaller(CHUNK, pairs - i), &p, c, R, Q);
    }
    if (n % 2) Q[pairs] -= c * R[pairs] * Q[pairs];
}

void la_cross_apply(int64_t n, real alpha, const real *Q, const real *x, bool add, real *y)
{
    const la_kernels *k = la_kernel();
    int64_t pairs = n / 2;
    bool stream = x != y && past_caches(n);
#pragma omp parallel if (n > PARALLEL)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < pairs; i += CHUNK) {
            la_cross_pairs p = {.size = n, .from = i, .d = Q, .e = Q + n};
            k->cross_apply(smaller(CHUNK, pairs - i), &p, alpha, x, add, y, stream);
        }
        stream_done();
    }
    if (n % 2) k->diag_apply(1, alpha, Q + pairs, x + pairs, add, y + pairs, false);
}

static int64_t bordered_parts(int64_t rows, int64_t columns)
{
    int64_t parts = rows * columns <= PARALLEL ? 1 : rows / 32;
    return parts < 1 ? 1 : smaller(parts, MAX_PARTS);
}

/* The first row of a part, at a whole block of the kernel. Parts get shorter one by one, so that threads are done at
 * about the same time. */
static int64_t part_begin(int64_t rows, int64_t parts, int64_t p)
{
    int64_t begin = parts < MAX_PARTS ? rows * p / parts : rows * p * (2 * parts + 1 - p) / (parts * (parts + 1));
    return p < parts ? begin / LA_BORDERED_BLOCK * LA_BORDERED_BLOCK : rows;
}

/* Doubles for each part and column: two sums, and two of the last few rows in f32. */
enum { SUMS = sizeof(real) == sizeof(double) ? 2 : 3 };

int64_t la_bordered_sums(int64_t rows, int64_t columns)
{
    return bordered_parts(rows, columns) * SUMS * la_bordered_ld(columns);
}

static la_column_sums sums_of(const la_bordered *t, int64_t part)
{
    int64_t n = la_bordered_ld(t->columns);
    double *own = t->sums + part * SUMS * n;
    real *few = (real *)(void *)(own + (SUMS - 2) * 2 * n);
    return (la_column_sums){own, own + n, few, few + n};
}

/* The sum over all parts of some of their sums. Line by line: the parts come from many threads, and their lines are
 * waited for together. */
static void add_parts(const la_bordered *t, int64_t parts, int64_t at, int64_t count, double *to)
{
    enum { LINE = STREAM_LINE / sizeof(double) };
    int64_t ld = SUMS * la_bordered_ld(t->columns);
    for (int64_t i = 0; i < count; i += LINE) {
        const double *part = t->sums + at + i;
        double sum[LINE] = {0};
        for (int64_t p = 0; p < parts; p++, part += ld) {
            for (int64_t l = 0; l < (int64_t)LINE; l++) sum[l] += part[l];
        }
        memcpy(to + i, sum, (size_t)smaller(LINE, count - i) * sizeof sum[0]);
    }
}

/* Which of h and v gets the extra column of Q2 and which the dot product with it: h and v, or with a last row v and h.
 * p and c are those of Q2 where x is h, else of Q2^-T; r and e are those of the other. */
static la_bordered_pass make_pass(const la_bordered *t, const real *h, const real *v, real damping, int sign)
{
    int64_t n = t->columns, last = n - 1;
    real *inverse = t->scratch, *column = inverse + la_bordered_ld(n);
    const real *d = t->diagonal;
    for (int64_t j = 0; j < n; j++) inverse[j] = 1 / d[j];
    for (int64_t j = 0; t->side && j < last; j++) column[j] = -t->side[j] * inverse[j] * inverse[last];
    la_bordered_pass pass = {.columns = n, .row = t->row, .plus = sign > 0, .swapped = t->side && t->side_is_row};
    pass.x = pass.swapped ? v : h;
    pass.y = pass.swapped ? h : v;
    pass.x_damping = pass.swapped ? 0 : damping;
    pass.y_damping = pass.swapped ? damping : 0;
    pass.p = pass.swapped ? inverse : d;
    pass.r = pass.swapped ? d : inverse;
    if (t->side) {
        pass.c = pass.swapped ? column : t->side;
        pass.e = pass.swapped ? t->side : column;
    }
    return pass;
}

/* Where x is v, what comes out of X^2 - Y^2 is minus what is wanted. */
static void negate(int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = -x[i];
}

void la_bordered_fused(const la_bordered *t, const real *h, const real *v, real damping, int sign, double *row_sums,
                       double *column_sums, double *side_sums)
{
    const la_kernels *k = la_kernel();
    int64_t n = t->columns, parts = bordered_parts(t->rows, n);
    la_bordered_pass pass = make_pass(t, h, v, damping, sign);
#pragma omp parallel for schedule(dynamic, 1) if (parts > 1)
    for (int64_t p = 0; p < parts; p++) {
        la_column_sums own = sums_of(t, p);
        memset(own.few_diagonal, 0, (size_t)(2 * la_bordered_ld(n)) * sizeof(real));
        k->bordered_fused(&pass, part_begin(t->rows, parts, p), part_begin(t->rows, parts, p + 1), row_sums, &own);
    }
#pragma omp parallel for schedule(static) if (parts * n > PARALLEL)
    for (int64_t from = 0; from < n; from += SOME_COLUMNS) {
        int64_t count = smaller(SOME_COLUMNS, n - from);
        add_parts(t, parts, from, count, column_sums + from);
        if (pass.c) add_parts(t, parts, la_bordered_ld(n) + from, count, side_sums + from);
    }
    if (!pass.swapped || sign > 0) return;
    negate(t->rows, row_sums);
    negate(n, column_sums);
    negate(n, side_sums);
}

/* P2 = Q2'Q2 has D^2 on its diagonal; with a last column c above s also dc beside it and s^2 + c'c in the corner, with
 * a last row c beside s everywhere (c, s)(c, s)' instead. Either way y_j = D_j^2 x_j + f_j t. */
void la_bordered_apply(const la_bordered *t, real alpha, const real *x, bool add, real *y)
{
    const la_kernels *k = la_kernel();
    int64_t n = t->columns, last = n - 1;
    real *square = t->scratch, *f = square + la_bordered_ld(n);
    double corner = 0;
    for (int64_t j = 0; j < n; j++) square[j] = t->diagonal[j] * t->diagonal[j];
    for (int64_t j = 0; j < n; j++) {
        real c = t->side && j < last ? t->side[j] : 0;
        f[j] = t->side_is_row ? c : c * t->diagonal[j];
        if (!t->side_is_row) corner += (double)c * (double)c;
    }
    real s = t->diagonal[last];
    bool stream = x != y && !add && past_caches(t->rows * n);
#pragma omp parallel if (t->rows * n > PARALLEL)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < t->rows; i++) {
            const real *from = x + i * n;
            real *to = y + i * n, scale = alpha * (t->row[i] * t->row[i]);
            if (!t->side) {
                k->row_apply(n, scale, square, from, 0, NULL, add, to, stream);
                continue;
            }
            double x_last = (double)from[last], s_last = (double)s * x_last, corner_last;
            if (t->side_is_row) {
                double side = s_last + k->row_dot(last, f, from);
                k->row_apply(last, scale, square, from, (real)side, f, add, to, stream);
                corner_last = (double)s * (double)(real)side;
            } else {
                double dot = k->row_apply(last, scale, square, from, (real)x_last, f, add, to, stream);
                corner_last = (double)s * s_last + corner * x_last + dot;
            }
            to[last] = (add ? to[last] : 0) + scale * (real)corner_last;
        }
        stream_done();
    }
}
