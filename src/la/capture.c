#include "la/capture.h"
#include "la/dispatch.h"
#include "la/kernel/stream.h"

#include <string.h>

enum {
    CHUNK = 1 << 14,    /* numbers that one call of a kernel takes */
    PARALLEL = 1 << 15, /* numbers below which one thread is faster */
    STREAM = 1 << 25,   /* bytes from which on results do not fit a cache */
    TILE = 1 << 13,     /* columns whose factors and sums stay in the second-level cache */
    FEW_ROWS = 32,      /* rows that are summed in the number type before they are added in double */
    MAX_PARTS = 16
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

real la_diag_capture(int64_t n, const real *q, const real *h, const real *v, real damping, int sign, real *r)
{
    const la_kernels *k = la_kernel();
    if (n <= PARALLEL) return k->diag_capture(n, q, h, v, damping, (real)sign, r, false);
    bool stream = past_caches(n);
    real most = 0;
#pragma omp parallel
    {
        real mine = 0;
#pragma omp for nowait schedule(static)
        for (int64_t i = 0; i < n; i += CHUNK) {
            mine = worse(
                mine, k->diag_capture(smaller(CHUNK, n - i), q + i, h + i, v + i, damping, (real)sign, r + i, stream));
        }
        stream_done();
#pragma omp critical(psgd_la_max)
        most = worse(most, mine);
    }
    return most;
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
    real most = 0, norm = 0;
#pragma omp parallel if (n > PARALLEL)
    {
        real own_most = 0, own_norm = 0;
#pragma omp for nowait schedule(static)
        for (int64_t i = 0; i < pairs; i += CHUNK) {
            la_cross_pairs p = {.size = n, .from = i, .d = Q, .e = Q + n, .h = h, .v = v};
            real a, b;
            k->cross_capture(smaller(CHUNK, pairs - i), &p, damping, (real)sign, R, past_caches(n), &a, &b);
            own_most = worse(own_most, a);
            own_norm = worse(own_norm, b);
        }
        stream_done();
#pragma omp critical(psgd_la_max)
        {
            most = worse(most, own_most);
            norm = worse(norm, own_norm);
        }
    }
    if (n % 2) {
        real middle = k->diag_capture(1, Q + pairs, h + pairs, v + pairs, damping, (real)sign, R + pairs, false);
        R[n + pairs] = 0;
        most = worse(most, middle);
        norm = worse(norm, middle);
    }
    *largest = most;
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

static int64_t thin_parts(int64_t rows, int64_t columns)
{
    int64_t parts = rows * columns <= PARALLEL ? 1 : rows / 32;
    return parts < 1 ? 1 : smaller(parts, MAX_PARTS);
}

/* For each part and column two doubles and two of the number type, which may be double as well. */
int64_t la_thin_sums(int64_t rows, int64_t columns)
{
    return thin_parts(rows, columns) * 4 * columns;
}

/* The sums of one part: along the columns, and of products with the last one; all rows so far, and the last few. */
typedef struct part_sums {
    double *diagonal, *side;
    real *few_diagonal, *few_side;
} part_sums;

static part_sums sums_of(const la_thin *t, int64_t part)
{
    int64_t n = t->columns;
    double *own = t->sums + part * 4 * n;
    real *few = (real *)(void *)(own + 2 * n);
    return (part_sums){own, own + n, few, few + n};
}

/* sums += few, few = 0. */
static void gather(int64_t n, real *restrict few, double *restrict sums)
{
    for (int64_t j = 0; j < n; j++) {
        sums[j] += (double)few[j];
        few[j] = 0;
    }
}

/* Which of h and v gets the extra column of Q2 and which the dot product with it: h and v, or with a last row v and h.
 */
typedef struct sides {
    const real *x, *y;
    real x_damping, y_damping;
    int sign;                  /* of Y^2 beside X^2 */
    bool swapped;              /* x is v: what comes out is sign times what is wanted */
    const real *p, *c, *r, *e; /* X_j = p_j x_j + c_j x_last; Y_j = r_j y_j, Y_last = r_last y_last + sum e_j y_j */
} sides;

/* p and c are those of Q2 where x is h, else of Q2^-T; r and e are those of the other. */
static sides make_sides(const la_thin *t, const real *h, const real *v, real damping, int sign)
{
    int64_t n = t->columns, last = n - 1;
    real *inverse = t->scratch, *column = inverse + n;
    const real *d = t->diagonal;
    for (int64_t j = 0; j < n; j++) inverse[j] = 1 / d[j];
    for (int64_t j = 0; t->side && j < last; j++) column[j] = -t->side[j] * inverse[j] * inverse[last];
    if (!t->side || !t->side_is_row) {
        return (sides){h, v, damping, 0, sign, false, d, t->side, inverse, column};
    }
    return (sides){v, h, 0, damping, sign, true, inverse, column, d, t->side};
}

/* Where the four rows of a group start; those past the end repeat the last one. */
static void find_rows(const la_thin *t, const real *x, int64_t from, int64_t to, const real **rows)
{
    for (int r = 0; r < 4; r++) rows[r] = x + smaller(from + r, to - 1) * t->columns;
}

/* Fills in four rows, those past the end with a factor of zero. dot is e'y. */
static void set_rows(const la_kernels *k, const la_thin *t, const sides *s, int64_t from, int64_t to, const double *dot,
                     la_rows *g, double *diagonal)
{
    int64_t last = t->columns - 1;
    *g = (la_rows){.x_damping = s->x_damping, .y_damping = s->y_damping, .plus = s->sign > 0};
    find_rows(t, s->x, from, to, g->x);
    find_rows(t, s->y, from, to, g->y);
    find_rows(t, s->y, from + 4, to, g->next);
    for (int r = 0; r < 4; r++) {
        real q = t->row[smaller(from + r, to - 1)], inverse = 1 / q, on = from + r < to ? 1 : 0;
        g->x_row[r] = on * (s->swapped ? inverse : q);
        g->y_row[r] = on * (s->swapped ? q : inverse);
    }
    if (!s->c) return;

    double damped[4] = {0};
    if (s->y_damping != 0) k->rows_dot(last, s->e, g->x, damped);
    for (int r = 0; r < 4; r++) {
        real x_last = g->x[r][last], y_last = g->y[r][last];
        g->x_last[r] = x_last + s->x_damping * y_last;
        y_last += s->y_damping * x_last;
        real a = g->x_row[r] * (s->p[last] * g->x_last[r]);
        real b = g->y_row[r] * (real)((double)(s->r[last] * y_last) + dot[r] + (double)s->y_damping * damped[r]);
        g->x_side[r] = a;
        g->y_side[r] = (real)s->sign * b;
        g->sum[r] = (double)(a * a + (real)s->sign * (b * b));
        diagonal[last] += g->sum[r];
    }
}

/* Four rows, tile by tile. */
static void capture_rows(const la_kernels *k, const sides *s, int64_t inner, la_rows *four, const part_sums *sums)
{
    int64_t tiles = (inner + TILE - 1) / TILE;
    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t left = inner * tile / tiles, width = inner * (tile + 1) / tiles - left;
        la_columns columns = {.p = s->p + left, .r = s->r + left, .diagonal = sums->few_diagonal + left};
        if (s->c) {
            columns.c = s->c + left;
            columns.e = s->e + left;
            columns.side = sums->few_side + left;
        }
        k->rows_capture(width, four, &columns);
        for (int r = 0; r < 4; r++) {
            four->x[r] += width;
            four->y[r] += width;
            four->next[r] += width;
        }
    }
}

/* Rows from .. to - 1, four at a time. The last entry of Y needs a whole row before the others can be used: what the
 * next four need is found beside the work on these. */
static void capture_part(const la_kernels *k, const la_thin *t, const sides *s, int64_t from, int64_t to,
                         double *row_sums, const part_sums *sums)
{
    int64_t n = t->columns, inner = s->c ? n - 1 : n;
    memset(sums->diagonal, 0, (size_t)(2 * n) * sizeof(double));
    memset(sums->few_diagonal, 0, (size_t)(2 * n) * sizeof(real));
    double dot[4] = {0};
    if (s->c && from < to) {
        const real *first[4];
        find_rows(t, s->y, from, to, first);
        k->rows_dot(inner, s->e, first, dot);
    }
    for (int64_t top = from; top < to; top += 4) {
        la_rows four;
        set_rows(k, t, s, top, to, dot, &four, sums->diagonal);
        capture_rows(k, s, inner, &four, sums);
        memcpy(dot, four.dot, sizeof dot);
        for (int64_t i = top; i < smaller(top + 4, to); i++) row_sums[i] = four.sum[i - top];
        if ((top + 4 - from) % FEW_ROWS && top + 4 < to) continue;
        gather(inner, sums->few_diagonal, sums->diagonal);
        if (s->c) gather(inner, sums->few_side, sums->side);
    }
}

void la_thin_capture(const la_thin *t, const real *h, const real *v, real damping, int sign, double *row_sums,
                     double *column_sums, double *side_sums)
{
    const la_kernels *k = la_kernel();
    int64_t n = t->columns, parts = thin_parts(t->rows, n), each = (t->rows + parts - 1) / parts;
    sides s = make_sides(t, h, v, damping, sign);
#pragma omp parallel for schedule(dynamic, 1) if (parts > 1)
    for (int64_t p = 0; p < parts; p++) {
        part_sums own = sums_of(t, p);
        capture_part(k, t, &s, smaller(t->rows, p * each), smaller(t->rows, (p + 1) * each), row_sums, &own);
    }
    memcpy(column_sums, t->sums, (size_t)n * sizeof(double));
    if (s.c) memcpy(side_sums, t->sums + n, (size_t)n * sizeof(double));
    for (int64_t p = 1; p < parts; p++) {
        part_sums own = sums_of(t, p);
        for (int64_t j = 0; j < n; j++) column_sums[j] += own.diagonal[j];
        for (int64_t j = 0; s.c && j < n; j++) side_sums[j] += own.side[j];
    }
    if (!s.swapped || sign > 0) return;
    for (int64_t i = 0; i < t->rows; i++) row_sums[i] = -row_sums[i];
    for (int64_t j = 0; j < n; j++) column_sums[j] = -column_sums[j];
    for (int64_t j = 0; j < n; j++) side_sums[j] = -side_sums[j];
}

/* P2 = Q2'Q2 has D^2 on its diagonal; with a last column c above s also dc beside it and s^2 + c'c in the corner, with
 * a last row c beside s everywhere (c, s)(c, s)' instead. Either way y_j = D_j^2 x_j + f_j t. */
void la_thin_apply(const la_thin *t, real alpha, const real *x, bool add, real *y)
{
    const la_kernels *k = la_kernel();
    int64_t n = t->columns, last = n - 1;
    real *square = t->scratch, *f = square + n;
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
