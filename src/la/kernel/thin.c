/* Straight from h and v to R, and from x to Px, without A and B: matrices under a diagonal on the left and a diagonal
 * with perhaps one more column on the right. Ends of rows are vectors of which some lanes are off. */
#include "la/kernel/thin.h"
#include "la/kernel/vec.h"

enum { STRETCH = 4096 }; /* numbers that lanes of reals sum up before they are added in double */

/* Lanes of reals within a stretch, stretches in double. */
double KERNEL(row_dot)(int64_t n, const real *restrict x, const real *restrict y)
{
    double total = 0;
    for (int64_t from = 0; from < n; from += STRETCH) {
        int64_t to = n - from < STRETCH ? n : from + STRETCH;
        real sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = from; j < to; j++) sum += x[j] * y[j];
        total += (double)sum;
    }
    return total;
}

/* Lanes of reals within a stretch, stretches in double; four rows are four independent sums. */
void KERNEL(rows_dot)(int64_t n, const real *restrict e, const real *const *rows, double *dot)
{
    for (int r = 0; r < 4; r++) dot[r] = 0;
    for (int64_t from = 0; from < n; from += STRETCH) {
        int64_t to = n - from < STRETCH ? n : from + STRETCH;
        const real *restrict y0 = rows[0], *restrict y1 = rows[1], *restrict y2 = rows[2], *restrict y3 = rows[3];
        real s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t j = from; j < to; j++) {
            s0 += e[j] * y0[j];
            s1 += e[j] * y1[j];
            s2 += e[j] * y2[j];
            s3 += e[j] * y3[j];
        }
        dot[0] += (double)s0;
        dot[1] += (double)s1;
        dot[2] += (double)s2;
        dot[3] += (double)s3;
    }
}

/* Whether lanes are off is a constant wherever this is called. */
ALWAYS_INLINE vec load(const real *x, bool whole, int64_t count)
{
    return whole ? vec_load(x) : vec_load_some(x, count);
}

ALWAYS_INLINE void store(real *x, vec v, bool whole, int64_t count)
{
    if (whole) {
        vec_store(x, v);
    } else {
        vec_store_some(x, v, count);
    }
}

/* What is a constant wherever capture_some is called. */
typedef struct row_kind {
    bool plus, damped, column;
} row_kind;

ALWAYS_INLINE void capture_lanes(int64_t j, bool whole, int64_t count, const la_rows *g, const la_columns *f,
                                 row_kind kind, vec *sum, vec *dot)
{
    vec p = load(f->p + j, whole, count), r = load(f->r + j, whole, count), d = load(f->diagonal + j, whole, count);
    vec c = {0}, ahead = {0}, m = {0};
    if (kind.column) {
        c = load(f->c + j, whole, count);
        ahead = load(f->e + j, whole, count);
        m = load(f->side + j, whole, count);
    }
    for (int k = 0; k < 4; k++) {
        vec x = load(g->x[k] + j, whole, count), y = load(g->y[k] + j, whole, count);
        if (kind.damped) {
            vec before = x;
            x += g->x_damping * y;
            y += g->y_damping * before;
        }
        vec a = g->x_row[k] * (kind.column ? p * x + c * g->x_last[k] : p * x), b = g->y_row[k] * (r * y);
        vec e = kind.plus ? a * a + b * b : a * a - b * b;
        sum[k] += e;
        d += e;
        if (!kind.column) continue;
        m += g->x_side[k] * a + g->y_side[k] * b;
        dot[k] += ahead * load(g->next[k] + j, whole, count);
    }
    store(f->diagonal + j, d, whole, count);
    if (kind.column) store(f->side + j, m, whole, count);
}

ALWAYS_INLINE void capture_some(int64_t n, la_rows *rows, const la_columns *columns, row_kind kind)
{
    const la_rows g = *rows;
    const la_columns f = *columns;
    vec sum[4] = {{0}}, dot[4] = {{0}};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) capture_lanes(j, true, LANES, &g, &f, kind, sum, dot);
    if (j < n) capture_lanes(j, false, n - j, &g, &f, kind, sum, dot);
    for (int k = 0; k < 4; k++) {
        rows->sum[k] += (double)vec_sum(sum[k]);
        if (kind.column) rows->dot[k] += (double)vec_sum(dot[k]);
    }
}

void KERNEL(rows_capture)(int64_t n, la_rows *rows, const la_columns *columns)
{
    bool damped = rows->x_damping != 0 || rows->y_damping != 0;
    if (rows->plus && columns->c) {
        capture_some(n, rows, columns, (row_kind){.plus = true, .damped = true, .column = true});
    } else if (rows->plus) {
        capture_some(n, rows, columns, (row_kind){.plus = true, .damped = true});
    } else if (damped && columns->c) {
        capture_some(n, rows, columns, (row_kind){.damped = true, .column = true});
    } else if (damped) {
        capture_some(n, rows, columns, (row_kind){.damped = true});
    } else if (columns->c) {
        capture_some(n, rows, columns, (row_kind){.column = true});
    } else {
        capture_some(n, rows, columns, (row_kind){0});
    }
}

/* One row for row_apply. side, add and stream below are constants wherever they are given. */
typedef struct apply_row {
    const real *d, *x, *f;
    real alpha, t, *y;
} apply_row;

ALWAYS_INLINE void apply_lanes(const apply_row *r, bool side, bool add, bool stream, int64_t j, bool whole,
                               int64_t count, vec *dot)
{
    vec x = load(r->x + j, whole, count), next = load(r->d + j, whole, count) * x;
    if (side) {
        vec f = load(r->f + j, whole, count);
        *dot += f * x;
        next += r->t * f;
    }
    next *= r->alpha;
    if (add) next += load(r->y + j, whole, count);
    if (stream && whole) {
        vec_stream(r->y + j, next);
    } else {
        store(r->y + j, next, whole, count);
    }
}

ALWAYS_INLINE double apply_some(const apply_row *row, bool side, bool add, bool stream, int64_t from, int64_t to)
{
    const apply_row r = *row;
    vec dot = {0};
    int64_t j = from, head = stream ? vec_head(r.y + from, to - from) : 0;
    if (head) apply_lanes(&r, side, add, stream, j, false, head, &dot);
    for (j += head; j + LANES <= to; j += LANES) apply_lanes(&r, side, add, stream, j, true, LANES, &dot);
    if (j < to) apply_lanes(&r, side, add, stream, j, false, to - j, &dot);
    return side ? (double)vec_sum(dot) : 0;
}

static double apply_stretch(const apply_row *r, bool add, bool stream, int64_t from, int64_t to)
{
    if (r->f) {
        return add      ? apply_some(r, true, true, false, from, to)
               : stream ? apply_some(r, true, false, true, from, to)
                        : apply_some(r, true, false, false, from, to);
    }
    return add      ? apply_some(r, false, true, false, from, to)
           : stream ? apply_some(r, false, false, true, from, to)
                    : apply_some(r, false, false, false, from, to);
}

double KERNEL(row_apply)(int64_t n, real alpha, const real *d, const real *x, real t, const real *f, bool add, real *y,
                         bool stream)
{
    apply_row r = {.d = d, .x = x, .f = f, .alpha = alpha, .t = t, .y = y};
    double dot = 0;
    for (int64_t from = 0; from < n; from += STRETCH) {
        dot += apply_stretch(&r, add, stream, from, n - from < STRETCH ? n : from + STRETCH);
    }
    return dot;
}
