/* From x to Px in one pass: matrices under a diagonal on the left and a diagonal with perhaps one more column on the
 * right. Ends of rows are vectors of which some lanes are off. */
#include "la/kernel/kernel.h"
#include "la/kernel/vec.h"

enum { STRETCH = 4096 }; /* elements that lanes of reals sum up before they are added in double */

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

/* One row for row_apply. side and stream below are constants wherever they are given. */
typedef struct apply_row {
    const real *d, *x, *f;
    real alpha, t, *y;
} apply_row;

ALWAYS_INLINE void apply_lanes(const apply_row *r, bool side, bool stream, int64_t j, bool whole, int64_t count,
                               vec *dot)
{
    vec x = vec_load_part(r->x + j, whole, count), next = vec_load_part(r->d + j, whole, count) * x;
    if (side) {
        vec f = vec_load_part(r->f + j, whole, count);
        *dot += f * x;
        next += r->t * f;
    }
    next *= r->alpha;
    if (stream && whole) {
        vec_stream(r->y + j, next);
    } else {
        vec_store_part(r->y + j, next, whole, count);
    }
}

ALWAYS_INLINE double apply_some(const apply_row *row, bool side, bool stream, int64_t from, int64_t to)
{
    const apply_row r = *row;
    vec dot = {0};
    int64_t j = from, head = stream ? vec_head(r.y + from, to - from) : 0;
    if (head) apply_lanes(&r, side, stream, j, false, head, &dot);
    for (j += head; j + LANES <= to; j += LANES) apply_lanes(&r, side, stream, j, true, LANES, &dot);
    if (j < to) apply_lanes(&r, side, stream, j, false, to - j, &dot);
    return side ? (double)vec_sum(dot) : 0;
}

static double apply_stretch(const apply_row *r, bool stream, int64_t from, int64_t to)
{
    if (r->f) return stream ? apply_some(r, true, true, from, to) : apply_some(r, true, false, from, to);
    return stream ? apply_some(r, false, true, from, to) : apply_some(r, false, false, from, to);
}

double KERNEL(row_apply)(int64_t n, real alpha, const real *d, const real *x, real t, const real *f, real *y,
                         bool stream)
{
    apply_row r = {.d = d, .x = x, .f = f, .alpha = alpha, .t = t, .y = y};
    double dot = 0;
    for (int64_t from = 0; from < n; from += STRETCH) {
        dot += apply_stretch(&r, stream, from, n - from < STRETCH ? n : from + STRETCH);
    }
    return dot;
}
