/* Views and arrays, split over threads where they are long enough to gain. */
#include "la/la.h"
#include "la/array/columns.h"
#include "la/array/dispatch.h"
#include "la/pool.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK = 1 << 14,    /* elements that one call of a kernel takes: fits the second-level cache */
    PARALLEL = 1 << 16, /* elements below which one thread is faster */
    TILE = 512          /* columns that sums run over at a time */
};

/* What one call works on. */
typedef struct arrays {
    const la_kernels *k;
    real c;
    const real *x, *v;
    real *y;
} arrays;

static void scale_some(const void *data, int64_t from, int64_t count)
{
    const arrays *a = data;
    a->k->scale(count, a->c, a->y + from);
}

void la_scale(int64_t n, real c, real *x)
{
    la_chunks(n, CHUNK, PARALLEL, scale_some, &(arrays){.k = la_kernel(), .c = c, .y = x});
}

static void axpy_some(const void *data, int64_t from, int64_t count)
{
    const arrays *a = data;
    a->k->axpy(count, a->c, a->x + from, a->y + from);
}

void la_axpy(int64_t n, real c, const real *x, real *y)
{
    la_chunks(n, CHUNK, PARALLEL, axpy_some, &(arrays){.k = la_kernel(), .c = c, .x = x, .y = y});
}

static void copy_some(const void *data, int64_t from, int64_t count)
{
    const arrays *a = data;
    memcpy(a->y + from, a->x + from, (size_t)count * sizeof *a->y);
}

void la_copy(int64_t n, const real *x, real *y)
{
    la_chunks(n, CHUNK, PARALLEL, copy_some, &(arrays){.x = x, .y = y});
}

static void sum_difference_some(const void *data, int64_t from, int64_t count)
{
    real *const *pair = data, *x = pair[0] + from, *y = pair[1] + from;
    for (int64_t i = 0; i < count; i++) {
        real difference = x[i] - y[i];
        y[i] += x[i];
        x[i] = difference;
    }
}

void la_sum_difference(int64_t n, real *x, real *y)
{
    la_chunks(n, CHUNK, PARALLEL, sum_difference_some, (real *[]){x, y});
}

enum { DOTS = 64 };

typedef struct dots {
    int64_t n, each;
    const real *x, *y;
    double sum[DOTS];
} dots;

static void dot_part(void *data, int64_t p)
{
    dots *d = data;
    int64_t from = smaller(d->n, p * d->each);
    d->sum[p] = la_kernel()->dot(smaller(d->each, d->n - from), d->x + from, d->y + from);
}

/* A fixed number of partial sums, each over its own stretch, added in order. */
double la_dot(int64_t n, const real *x, const real *y)
{
    if (n <= PARALLEL) return la_kernel()->dot(n, x, y);
    dots d = {.n = n, .each = (n + DOTS - 1) / DOTS, .x = x, .y = y};
    double sum = 0;
    la_parallel(DOTS, 4 * (double)n, dot_part, &d);
    for (int p = 0; p < DOTS; p++) sum += d.sum[p];
    return sum;
}

/* max |x|, of x alone, copied to y, or with c v added. */
static void max_some(void *data, const la_chunk *rows)
{
    const arrays *a = data;
    int64_t from = rows->from, n = rows->count;
    la_raise(rows->max, (double)(a->v   ? a->k->damp_max(n, a->x + from, a->c, a->v + from, a->y + from)
                                 : a->y ? a->k->copy_max(n, a->x + from, a->y + from)
                                        : a->k->max_abs(n, a->x + from)));
}

static real max_over(int64_t n, arrays a)
{
    double max[2] = {0, 0};
    a.k = la_kernel();
    if (n <= PARALLEL) {
        max_some(&a, &(la_chunk){.count = n, .max = max});
    } else {
        la_sweep_max(n, max_some, &a, max);
    }
    return (real)max[0];
}

real la_max_abs(int64_t n, const real *x)
{
    return max_over(n, (arrays){.x = x});
}

real la_copy_max(int64_t n, const real *x, real *y)
{
    return max_over(n, (arrays){.x = x, .y = y});
}

real la_damp_max(int64_t n, const real *x, real c, const real *v, real *y)
{
    return max_over(n, (arrays){.c = c, .x = x, .v = v, .y = y});
}

void la_view_scale(view X, real c)
{
    for (int64_t p = 0; p < X.blocks * X.outer; p++) la_scale(X.n * X.inner, c, view_matrix(&X, p));
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
    double max = 0;
    for (int64_t p = 0; X.x && p < X.blocks * X.outer; p++) {
        la_raise(&max, (double)la_max_abs(X.n * X.inner, view_matrix(&X, p)));
    }
    return (real)max;
}

void la_view_copy(view from, view to)
{
    for (int64_t p = 0; p < from.blocks * from.outer; p++) {
        memcpy(view_matrix(&to, p), view_matrix(&from, p), (size_t)(from.n * from.inner) * sizeof(real));
    }
}

typedef struct rows_job {
    const la_kernels *k;
    view X, x;
    const real *q;
    real scale;
    bool divide;
    void (*op)(int64_t n, const real *q, real *x);
} rows_job;

/* Operations for la_parallel, of two per element. */
static double work_of(view X)
{
    return 2 * (double)X.n * (double)view_fibres(X);
}

static void multiply_some(const void *data, int64_t from, int64_t count)
{
    const rows_job *j = data;
    j->op(count, j->q + from, view_matrix(&j->X, 0) + from);
}

static void multiply_fibre(void *data, int64_t p)
{
    const rows_job *j = data;
    j->op(j->X.n, j->q, view_matrix(&j->X, p));
}

static void multiply_row(void *data, int64_t row)
{
    const rows_job *j = data;
    int64_t p = row / j->X.n, i = row % j->X.n;
    j->k->scale(j->X.inner, j->divide ? 1 / j->q[i] : j->q[i], view_matrix(&j->X, p) + i * j->X.inner);
}

static void multiply_rows(view X, const real *q, bool divide)
{
    const la_kernels *k = la_kernel();
    rows_job j = {.k = k, .X = X, .q = q, .divide = divide, .op = divide ? k->div : k->mul};
    int64_t matrices = X.blocks * X.outer;
    if (X.inner == 1 && matrices == 1) {
        la_chunks(X.n, CHUNK, PARALLEL, multiply_some, &j);
    } else if (X.inner == 1) {
        la_parallel(matrices, work_of(X), multiply_fibre, &j);
    } else {
        la_parallel(matrices * X.n, work_of(X), multiply_row, &j);
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
static void add_energies(const la_kernels *k, view X, view y, double c, int64_t from, int64_t count, double *sum)
{
    (void)y;
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

typedef struct sums_job {
    view A, a, B, b;
    int sign;
    bool accumulate;
    real *r;
    void (*add)(const la_kernels *k, view X, view y, double c, int64_t from, int64_t count, double *sum);
} sums_job;

static void sum_tile(void *data, int64_t tile)
{
    const sums_job *j = data;
    double sum[TILE];
    int64_t from = tile * TILE, count = smaller(TILE, j->A.n - from);
    for (int64_t i = 0; i < count; i++) sum[i] = j->accumulate ? (double)j->r[from + i] : 0;
    j->add(la_kernel(), j->A, j->a, 1, from, count, sum);
    j->add(la_kernel(), j->B, j->b, j->sign, from, count, sum);
    for (int64_t i = 0; i < count; i++) j->r[from + i] = (real)sum[i];
}

void la_row_energies(view A, view B, int sign, bool accumulate, real *r)
{
    sums_job j = {.A = A, .B = B, .sign = sign, .accumulate = accumulate, .r = r, .add = add_energies};
    la_parallel((A.n + TILE - 1) / TILE, work_of(A), sum_tile, &j);
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
    sums_job j = {A, a, B, b, sign, accumulate, r, add_row_products};
    la_parallel((A.n + TILE - 1) / TILE, work_of(A), sum_tile, &j);
}

static void add_row_part(void *data, int64_t p)
{
    const rows_job *j = data;
    const view *X = &j->X;
    real *to = view_matrix(X, p);
    const real *row = view_matrix(&j->x, p);
    if (X->inner == 1) {
        j->k->axpy(X->n, j->scale * *row, j->q, to);
    } else {
        for (int64_t i = 0; i < X->n; i++) j->k->axpy(X->inner, j->scale * j->q[i], row, to + i * X->inner);
    }
}

void la_add_row(view X, real scale, const real *c, view x)
{
    rows_job j = {.k = la_kernel(), .X = X, .x = x, .q = c, .scale = scale};
    la_parallel(X.blocks * X.outer, work_of(X), add_row_part, &j);
}

static void dot_row_part(void *data, int64_t p)
{
    const rows_job *j = data;
    const view *X = &j->X;
    const real *from = view_matrix(X, p);
    real *row = view_matrix(&j->x, p);
    if (X->inner == 1) {
        *row += j->scale * (real)j->k->dot(X->n, j->q, from);
    } else {
        for (int64_t i = 0; i < X->n; i++) j->k->axpy(X->inner, j->scale * j->q[i], from + i * X->inner, row);
    }
}

void la_dot_row(view X, const real *c, real scale, view x)
{
    rows_job j = {.k = la_kernel(), .X = X, .x = x, .q = c, .scale = scale};
    la_parallel(X.blocks * X.outer, work_of(X), dot_row_part, &j);
}

static void find_above_one(void *data, const la_chunk *rows)
{
    const arrays *a = data;
    for (int64_t i = rows->from; i < rows->from + rows->count; i++) {
        if (!(a->c * a->x[i] < 1)) rows->max[0] = 1;
    }
}

bool la_below_one(int64_t n, real c, const real *r)
{
    double max[2];
    la_sweep_max(n, find_above_one, &(arrays){.c = c, .x = r}, max);
    return max[0] == 0;
}

static void retract_some(const void *data, int64_t from, int64_t count)
{
    const arrays *a = data;
    a->k->retract(count, a->c, a->x + from, LA_MIN, a->y + from);
}

void la_retract_diagonal(int64_t n, real c, const real *r, real *q)
{
    la_chunks(n, CHUNK, PARALLEL, retract_some, &(arrays){.k = la_kernel(), .c = c, .x = r, .y = q});
}
