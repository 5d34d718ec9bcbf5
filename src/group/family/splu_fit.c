/* The update of the sparse LU family: L from the left, L <- (I - c R)L with R = Pi(aa' - bb') on its pattern, and U
 * from the right, U <- U(I - c R) with R = Pi((Ph)h' - v(P^-1 v)') on its own, both from the old values.
 *
 * On U' that is U' <- (I - c R')U' with R' = Pi(h(Ph)' - (P^-1 v)v'), so the two halves are one procedure on
 * R = Pi(sum_k x_k y_k' - z_k w_k'), lower pattern. From a and b come Ph = Q'a, h = Q^-1 a, v = Q'b and P^-1 v = Q^-1 b
 * in one pass over each half. */
#include "group/family/splu.h"
#include "la/array/dispatch.h"
#include "la/la.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { BALANCE_EVERY = 16 };

/* R of one half: pairs of vectors, x y' - z w'. */
typedef struct outer_pair {
    const real *x, *y, *z, *w; /* [n] */
} outer_pair;

typedef struct half_step {
    splu *self;
    splu_half *half;
    int64_t pairs;
    outer_pair pair[FIT_MAX_PAIRS];
    int sign;           /* -1: x y' - z w'; 1: the bound of the sizes of its terms, for second */
    double *corner;     /* [r][r] R in the corner */
    double c;           /* of the step */
    const double *tops; /* [pairs][2][r]: T'y1, T'w1 */
} half_step;

/* One entry of R, or of |x y'| + |z w'|. */
static double entry(const half_step *s, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < s->pairs; k++) {
        const outer_pair *p = &s->pair[k];
        double first = (double)p->x[i] * (double)p->y[j], second = (double)p->z[i] * (double)p->w[j];
        sum += s->sign < 0 ? first - second : fabs(first) + fabs(second);
    }
    return sum;
}

static void add_terms(const half_step *s, const la_chunk *rows, int64_t j, real *e)
{
    int64_t r = s->self->r;
    memset(e, 0, (size_t)rows->count * sizeof(real));
    for (int64_t k = 0; k < s->pairs; k++) {
        const outer_pair *p = &s->pair[k];
        const real *x = p->x + r + rows->from, *z = p->z + r + rows->from;
        const real *y = j < r ? NULL : p->y + r + rows->from, *w = p->w + r + rows->from;
        real yj = j < r ? p->y[j] : 0, wj = j < r ? p->w[j] : 0;
        for (int64_t i = 0; i < rows->count; i++) {
            real first = x[i] * (y ? y[i] : yj), second = z[i] * (y ? w[i] : wj);
            if (s->sign < 0) {
                e[i] += first - second;
            } else {
                e[i] += (first < 0 ? -first : first) + (second < 0 ? -second : second);
            }
        }
    }
}

/* Sums: of |R| down each of the r columns, then of R^2. Maxima: |R|, sums along rows, the diagonal, |diagonal|. */
static void visit_sizes(void *data, const la_chunk *rows)
{
    const half_step *s = data;
    int64_t r = s->self->r, count = rows->count;
    real e[LA_CHUNK], along[LA_CHUNK];
    memset(along, 0, sizeof along);
    for (int64_t j = 0; j <= r; j++) { /* column r stands for the diagonal */
        real max = 0, upper = 0;
        double sum = 0, squares = 0;
        add_terms(s, rows, j, e);
        for (int64_t i = 0; i < count; i++) {
            real size = e[i] < 0 ? -e[i] : e[i];
            along[i] += size;
            sum += (double)size;
            squares += (double)size * (double)size;
            max = size > max ? size : max;
            upper = e[i] > upper ? e[i] : upper;
        }
        if (j < r) rows->sums[j] += sum;
        rows->sums[r] += squares;
        rows->max[0] = fmax(rows->max[0], (double)max);
        if (j == r) rows->max[2] = fmax(rows->max[2], (double)upper);
        if (j == r) rows->max[3] = fmax(rows->max[3], (double)max);
    }
    rows->max[1] = fmax(rows->max[1], (double)la_kernel()->max_abs(count, along));
}

typedef struct half_sizes {
    double largest, spectral, upper; /* upper: the largest entry of the diagonal, with its sign */
} half_sizes;

static half_sizes measure(half_step *s, int sign)
{
    const splu *self = s->self;
    int64_t r = self->r;
    double *sums = psgd__work_at(self->base.work, self->sums), *corner = s->corner, max_column;
    s->sign = sign;
    la_sweep(self->m, visit_sizes, s, r + 1, 4, sums);
    double *max = sums + r + 1;
    max_column = max[3];
    for (int64_t i = 0; i < r; i++) {
        double row = 0;
        for (int64_t j = 0; j <= i; j++) {
            double e = corner[i * r + j] = entry(s, i, j);
            row += fabs(e);
            sums[j] += fabs(e);
            sums[r] += e * e;
            max[0] = fmax(max[0], fabs(e));
            if (i == j) max[2] = fmax(max[2], e);
        }
        max[1] = fmax(max[1], row);
    }
    for (int64_t j = 0; j < r; j++) max_column = fmax(max_column, sums[j]);
    return (half_sizes){
        .largest = max[0], .spectral = fmin(sqrt(sums[r]), sqrt(max[1]) * sqrt(max_column)), .upper = max[2]};
}

typedef struct asking {
    half_step *step;
    half_sizes sizes;
} asking;

/* For "second" the sizes of the terms are added: a bound of Pi(AA' + BB') on L, and of its counterpart on U. */
static double size_of_half(void *data, group_size which)
{
    asking *a = data;
    if (which == SIZE_LARGEST) return a->sizes.largest;
    if (which == SIZE_SPECTRAL) return a->sizes.spectral;
    double second = measure(a->step, 1).spectral;
    measure(a->step, -1); /* the corner again */
    return second;
}

/* X <- X - c (T'y1 x2' - T'w1 z2' + R3 X), d <- d - c R3 d, with R3 = x2 y2 - z2 w2. */
static void visit_step(void *data, const la_chunk *rows)
{
    const half_step *s = data;
    const la_kernels *kernel = la_kernel();
    int64_t r = s->self->r, m = s->self->m, count = rows->count;
    real e[LA_CHUNK], *d = s->half->d + rows->from;
    add_terms(s, rows, r, e);
    for (int64_t i = 0; i < count; i++) e[i] = 1 - (real)s->c * e[i];
    kernel->mul(count, e, d);
    for (int64_t j = 0; j < r; j++) {
        real *row = s->half->X + j * m + rows->from;
        kernel->mul(count, e, row);
        for (int64_t k = 0; k < s->pairs; k++) {
            const double *top = s->tops + 2 * k * r + j;
            kernel->axpy(count, (real)(-s->c * top[0]), s->pair[k].x + r + rows->from, row);
            kernel->axpy(count, (real)(s->c * top[r]), s->pair[k].z + r + rows->from, row);
        }
    }
}

/* T <- (I - c corner) T, both lower: from the last row up, the old rows are still there. */
static void step_corner(half_step *s)
{
    int64_t r = s->self->r;
    real *T = s->half->T;
    for (int64_t i = r - 1; i >= 0; i--) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = j; k <= i; k++) sum += s->corner[i * r + k] * (double)T[k * r + j];
            T[i * r + j] = (real)((double)T[i * r + j] - s->c * sum);
        }
    }
}

/* R is what rounding leaves of terms that cancel, as at an exact fit: a step along it gains nothing, and a long one
 * ruins both halves while their product stays as it is. */
static bool is_rounding(const half_step *s, double largest)
{
    int64_t n = s->self->base.n;
    double terms = 0;
    for (int64_t k = 0; k < s->pairs; k++) {
        const outer_pair *p = &s->pair[k];
        terms += (double)la_max_abs(n, p->x) * (double)la_max_abs(n, p->y);
        terms += (double)la_max_abs(n, p->z) * (double)la_max_abs(n, p->w);
    }
    return largest <= FIT_ROUNDING * (double)REAL_EPSILON * terms;
}

/* c of a half and whether it may move. */
static bool choose(half_step *s, int part, group_fit *how)
{
    asking a = {.step = s, .sizes = measure(s, -1)};
    if (!(a.sizes.largest > 0)) return false;
    s->c = how->step(how->data, &(group_part){.size = size_of_half, .data = &a, .index = part});
    how->moved = true;
    if (is_rounding(s, a.sizes.largest)) return false;
    bool sane = s->c < (double)REAL_MAX && s->c * a.sizes.upper < 1 && s->c * a.sizes.largest < 1e6;
    if (!sane) how->skipped++;
    return sane;
}

/* T'y1 and T'w1 of every pair. */
static void tops(half_step *s, double *to)
{
    int64_t r = s->self->r;
    for (int64_t k = 0; k < s->pairs; k++) {
        for (int which = 0; which < 2; which++) {
            const real *y = which ? s->pair[k].w : s->pair[k].y;
            double *t = to + (2 * k + which) * r;
            for (int64_t j = 0; j < r; j++) {
                t[j] = 0;
                for (int64_t i = j; i < r; i++) t[j] += (double)s->half->T[i * r + j] * (double)y[i];
            }
        }
    }
    s->tops = to;
}

static void move(half_step *s, double *small)
{
    splu *self = s->self;
    tops(s, small);
    s->sign = -1;
    la_sweep(self->m, visit_step, s, 0, 0, psgd__work_at(self->base.work, self->sums));
    step_corner(s);
}

/* images of pair k: Q'a, Q^-1 a, Q'b, Q^-1 b. */
static void make_images(const splu *s, const real *a, const real *b, real *to)
{
    int64_t n = s->base.n, r = s->r;
    double *small = psgd__work_at(s->base.work, s->small);
    splu_job jobs[4];
    for (int i = 0; i < 4; i++) {
        real *x = to + i * n;
        const real *from = i < 2 ? a : b;
        memcpy(x, from, (size_t)n * sizeof(real));
        jobs[i] = (splu_job){.x2 = x + r, .x1 = small + 2 * i * r, .old = small + (2 * i + 1) * r};
        jobs[i].backward = i % 2 == 1;
        jobs[i].up = i % 2 == 0; /* L' gathers, L^-1 spreads */
        for (int64_t j = 0; j < r; j++) jobs[i].x1[j] = (double)from[j];
    }
    psgd__splu_pass(s, &s->L, jobs, 4);
    for (int i = 0; i < 4; i++) jobs[i].up = !jobs[i].up; /* (U')x spreads, (U')^-T gathers */
    psgd__splu_pass(s, &s->U, jobs, 4);
    for (int i = 0; i < 4; i++) {
        for (int64_t j = 0; j < r; j++) to[i * n + j] = (real)jobs[i].x1[j];
    }
}

/* The power of two that brings two diagonal entries to within a factor of two of the same size. */
static int shift_between(real l, real u)
{
    double ratio = fabs((double)u) / fabs((double)l);
    return ratio > 0 && isfinite(ratio) ? (int)lround(log2(ratio) / 2) : 0;
}

static void scale_column(const splu *s, splu_half *half, int64_t j, int shift)
{
    real c = (real)ldexp(1, shift);
    if (j >= s->r) {
        half->d[j - s->r] *= c;
        return;
    }
    for (int64_t i = 0; i < s->r; i++) half->T[i * s->r + j] *= c;
    la_scale(s->m, c, half->X + j * s->m);
}

/* L <- LD and U <- D^-1 U, D diagonal of powers of two, which changes nothing: the diagonals of the two drift apart,
 * entry by entry, until one underflows. */
static void balance(splu *s)
{
    for (int64_t j = 0; j < s->base.n; j++) {
        int64_t k = j - s->r;
        int shift = j < s->r ? shift_between(s->L.T[j * s->r + j], s->U.T[j * s->r + j])
                             : shift_between(s->L.d[k], s->U.d[k]);
        if (shift == 0) continue;
        scale_column(s, &s->L, j, shift);
        scale_column(s, &s->U, j, -shift);
    }
}

void psgd__splu_fit(group *self, const group_pair *pair, group_fit *how)
{
    splu *s = (splu *)self;
    int64_t n = self->n, pairs = pair->A.outer;
    real *images = psgd__work_at(self->work, s->images);
    double *small = psgd__work_at(self->work, s->small);
    half_step L = {.self = s, .half = &s->L, .pairs = pairs}, U = {.self = s, .half = &s->U, .pairs = pairs};
    for (int64_t k = 0; k < pairs; k++) {
        const real *a = pair->A.x + k * pair->A.ld, *b = pair->B.x + k * pair->B.ld;
        real *to = images + 4 * k * n;
        make_images(s, a, b, to);
        L.pair[k] = (outer_pair){.x = a, .y = a, .z = b, .w = b};
        U.pair[k] = (outer_pair){.x = to + n, .y = to, .z = to + 3 * n, .w = to + 2 * n};
    }
    L.corner = small + 4 * s->r * pairs + 8 * s->r;
    U.corner = L.corner + s->r * s->r;
    bool move_l = choose(&L, 0, how), move_u = choose(&U, 1, how);
    if (move_l) move(&L, small);
    if (move_u) move(&U, small);
    if (!how->moved) return;
    int turn = (fit_turn(s->turn[0], BALANCE_EVERY) + 1) % BALANCE_EVERY;
    s->turn[0] = (real)turn;
    if (turn == 0) balance(s);
}
