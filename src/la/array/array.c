/* Views and arrays, split over threads where they are long enough to gain. */
#include "la/la.h"
#include "la/array/dispatch.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK = 1 << 14,    /* numbers that one call of a kernel takes: fits the second-level cache */
    PARALLEL = 1 << 16, /* numbers below which one thread is faster */
    TILE = 512          /* columns that sums run over at a time */
};

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The larger of two maxima, where a NaN is larger than anything. */
static inline real worse(real a, real b)
{
    return a > b || a != a ? a : b;
}

void la_scale(int64_t n, real c, real *x)
{
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) {
        k->scale(n, c, x);
        return;
    }
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += CHUNK) k->scale(smaller(CHUNK, n - i), c, x + i);
}

void la_axpy(int64_t n, real c, const real *x, real *y)
{
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) {
        k->axpy(n, c, x, y);
        return;
    }
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += CHUNK) k->axpy(smaller(CHUNK, n - i), c, x + i, y + i);
}

/* A fixed number of partial sums, each over its own stretch, added in order. */
double la_dot(int64_t n, const real *x, const real *y)
{
    enum { PARTS = 64 };
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) return k->dot(n, x, y);

    double part[PARTS], sum = 0;
    int64_t each = (n + PARTS - 1) / PARTS;
#pragma omp parallel for
    for (int p = 0; p < PARTS; p++) {
        int64_t from = smaller(n, p * each);
        part[p] = k->dot(smaller(each, n - from), x + from, y + from);
    }
    for (int p = 0; p < PARTS; p++) sum += part[p];
    return sum;
}

real la_max_abs(int64_t n, const real *x)
{
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) return k->max_abs(n, x);
    real max = 0;
#pragma omp parallel
    {
        real mine = 0;
#pragma omp for nowait
        for (int64_t i = 0; i < n; i += CHUNK) mine = worse(mine, k->max_abs(smaller(CHUNK, n - i), x + i));
#pragma omp critical(psgd_la_max)
        max = worse(max, mine);
    }
    return max;
}

real la_copy_max(int64_t n, const real *x, real *y)
{
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) return k->copy_max(n, x, y);
    real max = 0;
#pragma omp parallel
    {
        real mine = 0;
#pragma omp for nowait
        for (int64_t i = 0; i < n; i += CHUNK) mine = worse(mine, k->copy_max(smaller(CHUNK, n - i), x + i, y + i));
#pragma omp critical(psgd_la_max)
        max = worse(max, mine);
    }
    return max;
}

real la_damp_max(int64_t n, const real *x, real c, const real *v, real *y)
{
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) return k->damp_max(n, x, c, v, y);
    real max = 0;
#pragma omp parallel
    {
        real mine = 0;
#pragma omp for nowait
        for (int64_t i = 0; i < n; i += CHUNK) {
            mine = worse(mine, k->damp_max(smaller(CHUNK, n - i), x + i, c, v + i, y + i));
        }
#pragma omp critical(psgd_la_max)
        max = worse(max, mine);
    }
    return max;
}

void la_view_scale(view X, real c)
{
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) la_view_scale(view_block(X, b), c);
        return;
    }
    for (int64_t o = 0; o < X.outer; o++) la_scale(X.n * X.inner, c, X.x + o * X.ld);
}

double la_view_energy(view X)
{
    double sum = 0;
    for (int64_t p = 0; p < X.blocks * X.outer; p++) {
        const real *x = view_matrix(&X, p);
        sum += la_dot(X.n * X.inner, x, x);
    }
    return sum;
}

double la_view_norm(view X, int e)
{
    double energy = la_view_energy(X);
    if (energy > 0x1p-900 && isfinite(energy)) return ldexp(sqrt(energy), -e);
    double max = (double)la_view_max(X);
    if (max == 0 || !isfinite(max)) return max;
    double sum = 0;
    for (int64_t p = 0; p < X.blocks * X.outer; p++) {
        const real *x = view_matrix(&X, p);
        for (int64_t i = 0; i < X.n * X.inner; i++) sum += (double)x[i] / max * ((double)x[i] / max);
    }
    return ldexp(max, -e) * sqrt(sum);
}

real la_view_max(view X)
{
    real max = 0;
    for (int64_t p = 0; X.x && p < X.blocks * X.outer; p++) {
        max = worse(max, la_max_abs(X.n * X.inner, view_matrix(&X, p)));
    }
    return max;
}

void la_view_copy(view from, view to)
{
    if (from.blocks > 1) {
        for (int64_t b = 0; b < from.blocks; b++) la_view_copy(view_block(from, b), view_block(to, b));
        return;
    }
    for (int64_t o = 0; o < from.outer; o++) {
        memcpy(to.x + o * to.ld, from.x + o * from.ld, (size_t)(from.n * from.inner) * sizeof(real));
    }
}

static void multiply_rows(view X, const real *q, bool divide)
{
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) multiply_rows(view_block(X, b), q, divide);
        return;
    }
    const la_kernels *k = la_kernel();
    void (*op)(int64_t n, const real *q, real *x) = divide ? k->div : k->mul;
    if (X.inner == 1 && X.outer == 1) {
#pragma omp parallel for if (X.n > PARALLEL)
        for (int64_t i = 0; i < X.n; i += CHUNK) op(smaller(CHUNK, X.n - i), q + i, X.x + i);
        return;
    }
    bool parallel = X.n * view_fibres(X) > PARALLEL;
    if (X.inner == 1) {
#pragma omp parallel for if (parallel)
        for (int64_t o = 0; o < X.outer; o++) op(X.n, q, X.x + o * X.ld);
        return;
    }
#pragma omp parallel for collapse(2) if (parallel)
    for (int64_t o = 0; o < X.outer; o++) {
        for (int64_t i = 0; i < X.n; i++) {
            k->scale(X.inner, divide ? 1 / q[i] : q[i], X.x + o * X.ld + i * X.inner);
        }
    }
}

void la_scale_rows(view X, const real *q)
{
    multiply_rows(X, q, false);
}

void la_divide_rows(view X, const real *q)
{
    multiply_rows(X, q, true);
}

/* sum[i] += c * sum over fibres of X_i^2 for rows from .. from + count - 1. */
static void add_energies(const la_kernels *k, view X, double c, int64_t from, int64_t count, double *sum)
{
    if (!X.x) return;
    for (int64_t p = 0; p < X.blocks * X.outer; p++) {
        const real *x = view_matrix(&X, p) + from * X.inner;
        if (X.inner == 1) {
            k->add_squares(count, c, x, sum);
        } else {
            for (int64_t i = 0; i < count; i++, x += X.inner) sum[i] += c * k->dot(X.inner, x, x);
        }
    }
}

void la_row_energies(view A, view B, int sign, bool accumulate, real *r)
{
    const la_kernels *k = la_kernel();
#pragma omp parallel for if (A.n * view_fibres(A) > PARALLEL)
    for (int64_t from = 0; from < A.n; from += TILE) {
        double sum[TILE];
        int64_t count = smaller(TILE, A.n - from);
        for (int64_t i = 0; i < count; i++) sum[i] = accumulate ? (double)r[from + i] : 0;
        add_energies(k, A, 1, from, count, sum);
        add_energies(k, B, sign, from, count, sum);
        for (int64_t i = 0; i < count; i++) r[from + i] = (real)sum[i];
    }
}

/* sum[i] += c * <X_i, y> for rows from .. from + count - 1; y is one row over the same fibres. */
static void add_row_products(const la_kernels *k, view X, view y, double c, int64_t from, int64_t count, double *sum)
{
    if (!X.x) return;
    for (int64_t p = 0; p < X.blocks * X.outer; p++) {
        const real *x = view_matrix(&X, p) + from * X.inner, *row = view_matrix(&y, p);
        if (X.inner == 1) {
            k->add_products(count, c, x, *row, sum);
        } else {
            for (int64_t i = 0; i < count; i++, x += X.inner) sum[i] += c * k->dot(X.inner, x, row);
        }
    }
}

void la_row_products(view A, view a, view B, view b, int sign, bool accumulate, real *r)
{
    const la_kernels *k = la_kernel();
#pragma omp parallel for if (A.n * view_fibres(A) > PARALLEL)
    for (int64_t from = 0; from < A.n; from += TILE) {
        double sum[TILE];
        int64_t count = smaller(TILE, A.n - from);
        for (int64_t i = 0; i < count; i++) sum[i] = accumulate ? (double)r[from + i] : 0;
        add_row_products(k, A, a, 1, from, count, sum);
        add_row_products(k, B, b, sign, from, count, sum);
        for (int64_t i = 0; i < count; i++) r[from + i] = (real)sum[i];
    }
}

void la_add_row(view X, real scale, const real *c, view x)
{
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) la_add_row(view_block(X, b), scale, c, view_block(x, b));
        return;
    }
    const la_kernels *k = la_kernel();
#pragma omp parallel for if (X.n * view_fibres(X) > PARALLEL)
    for (int64_t o = 0; o < X.outer; o++) {
        real *to = X.x + o * X.ld;
        const real *row = x.x + o * x.ld;
        if (X.inner == 1) {
            k->axpy(X.n, scale * *row, c, to);
        } else {
            for (int64_t i = 0; i < X.n; i++) k->axpy(X.inner, scale * c[i], row, to + i * X.inner);
        }
    }
}

void la_dot_row(view X, const real *c, real scale, view x)
{
    if (X.blocks > 1) {
        for (int64_t b = 0; b < X.blocks; b++) la_dot_row(view_block(X, b), c, scale, view_block(x, b));
        return;
    }
    const la_kernels *k = la_kernel();
#pragma omp parallel for if (X.n * view_fibres(X) > PARALLEL)
    for (int64_t o = 0; o < X.outer; o++) {
        const real *from = X.x + o * X.ld;
        real *row = x.x + o * x.ld;
        if (X.inner == 1) {
            *row += scale * (real)k->dot(X.n, c, from);
        } else {
            for (int64_t i = 0; i < X.n; i++) k->axpy(X.inner, scale * c[i], from + i * X.inner, row);
        }
    }
}

bool la_below_one(int64_t n, real c, const real *r)
{
    bool below = true;
#pragma omp parallel for if (n > PARALLEL) reduction(&& : below)
    for (int64_t i = 0; i < n; i++) below = below && c * r[i] < 1;
    return below;
}

void la_retract_diagonal(int64_t n, real c, const real *r, real *q)
{
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) {
        k->retract(n, c, r, LA_MIN, q);
        return;
    }
#pragma omp parallel for
    for (int64_t i = 0; i < n; i += CHUNK) k->retract(smaller(CHUNK, n - i), c, r + i, LA_MIN, q + i);
}
