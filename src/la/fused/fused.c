#include "la/fused/fused.h"
#include "la/array/columns.h"
#include "la/array/dispatch.h"
#include "la/kernel/stream.h"
#include "la/la.h"
#include "la/pool.h"

#include <string.h>

enum {
    CHUNK = 1 << 14,    /* elements that one call of a kernel takes */
    PARALLEL = 1 << 15, /* elements below which one thread is faster */
    STREAM = 1 << 25,   /* bytes from which on results do not fit a cache */
    MAX_PARTS = 16,
    SOME_COLUMNS = 1 << 9
};

static inline bool past_caches(int64_t n)
{
    return n >= STREAM / (int64_t)sizeof(real);
}

/* What one call works on. */
typedef struct arrays {
    int64_t n;
    const real *q, *h, *v, *x;
    real c, sign, *y;
    bool stream;
} arrays;

static void diag_fused_some(void *data, const la_chunk *rows)
{
    const arrays *a = data;
    int64_t from = rows->from;
    real own = la_kernel()->diag_fused(rows->count, a->q + from, a->h + from, a->v + from, a->c, a->sign, a->y + from,
                                       a->stream);
    stream_done();
    la_raise(&rows->max[0], (double)own);
}

real la_diag_fused(int64_t n, const real *q, const real *h, const real *v, real damping, int sign, real *r)
{
    if (n <= PARALLEL) return la_kernel()->diag_fused(n, q, h, v, damping, (real)sign, r, false);
    double max[2];
    arrays a = {.q = q, .h = h, .v = v, .c = damping, .sign = (real)sign, .y = r, .stream = past_caches(n)};
    la_sweep_max(n, diag_fused_some, &a, max);
    return (real)max[0];
}

typedef struct entries {
    la_entry_rule rule;
    const real *h, *v;
    real *q;
} entries;

static void diag_entries_some(const void *data, int64_t from, int64_t count)
{
    const entries *e = data;
    la_kernel()->diag_entries(count, &e->rule, e->h + from, e->v + from, e->q + from);
}

void la_diag_entries(int64_t n, const real *h, const real *v, real damping, double step, double vanishing, real *q)
{
    la_entry_rule rule = {.damping = damping,
                          .step = (real)step,
                          .floor = (real)vanishing,
                          .ceiling = (real)(1 / vanishing),
                          .min = (real)((double)LA_MIN / (1 - step)),
                          .max = (real)((double)LA_MAX / (1 + step))};
    la_chunks(n, CHUNK, PARALLEL, diag_entries_some, &(entries){rule, h, v, q});
}

static void diag_apply_some(const void *data, int64_t from, int64_t count)
{
    const arrays *a = data;
    la_kernel()->diag_apply(count, a->q + from, a->x + from, a->y + from, a->stream);
    stream_done();
}

void la_diag_apply(int64_t n, const real *q, const real *x, real *y)
{
    arrays a = {.q = q, .x = x, .y = y, .stream = x != y && past_caches(n)};
    la_chunks(n, CHUNK, PARALLEL, diag_apply_some, &a);
}

static void cross_fused_some(void *data, const la_chunk *rows)
{
    const arrays *a = data;
    la_cross_pairs p = {.size = a->n, .from = rows->from, .d = a->q, .e = a->q + a->n, .h = a->h, .v = a->v};
    real own[2];
    la_kernel()->cross_fused(rows->count, &p, a->c, a->sign, a->y, a->stream, &own[0], &own[1]);
    stream_done();
    for (int i = 0; i < 2; i++) la_raise(&rows->max[i], (double)own[i]);
}

void la_cross_take(int64_t n, const real *Q, const real *h, const real *v, real damping, int sign, real *R,
                   real *largest, real *spectral)
{
    int64_t pairs = n / 2;
    arrays a = {.n = n, .q = Q, .h = h, .v = v, .c = damping, .sign = (real)sign, .y = R, .stream = past_caches(n)};
    double max[2];
    la_sweep_max(pairs, cross_fused_some, &a, max);
    if (n % 2) {
        real r, middle = la_kernel()->diag_fused(1, Q + pairs, h + pairs, v + pairs, damping, (real)sign, &r, false);
        R[pairs] = r;
        R[n + pairs] = 0;
        for (int i = 0; i < 2; i++) la_raise(&max[i], (double)middle);
    }
    *largest = (real)max[0];
    *spectral = (real)max[1];
}

static void cross_step_some(const void *data, int64_t from, int64_t count)
{
    const arrays *a = data;
    la_kernel()->cross_retract(count, &(la_cross_pairs){.size = a->n, .from = from}, a->c, a->x, a->y);
}

void la_cross_step(int64_t n, real c, const real *R, real *Q)
{
    int64_t pairs = n / 2;
    la_chunks(pairs, CHUNK, PARALLEL / 2, cross_step_some, &(arrays){.n = n, .c = c, .x = R, .y = Q});
    if (n % 2) Q[pairs] -= c * R[pairs] * Q[pairs];
}

static void cross_apply_some(const void *data, int64_t from, int64_t count)
{
    const arrays *a = data;
    la_cross_pairs p = {.size = a->n, .from = from, .d = a->q, .e = a->q + a->n};
    la_kernel()->cross_apply(count, &p, a->x, a->y, a->stream);
    stream_done();
}

void la_cross_apply(int64_t n, const real *Q, const real *x, real *y)
{
    int64_t pairs = n / 2;
    arrays a = {.n = n, .q = Q, .x = x, .y = y, .stream = x != y && past_caches(n)};
    la_chunks(pairs, CHUNK, PARALLEL / 2, cross_apply_some, &a);
    if (n % 2) la_kernel()->diag_apply(1, Q + pairs, x + pairs, y + pairs, false);
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

/* to <- the sum over all parts of count of their sums, from at on. One cache line at a time: other threads have written
 * the parts, and the cache misses of all parts overlap. */
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

typedef struct bordered_job {
    const la_bordered *t;
    la_bordered_pass pass;
    int64_t parts;
    double *row_sums, *column_sums, *side_sums;
} bordered_job;

static void fuse_part(void *data, int64_t p)
{
    const bordered_job *j = data;
    la_column_sums own = sums_of(j->t, p);
    memset(own.few_diagonal, 0, (size_t)(2 * la_bordered_ld(j->t->columns)) * sizeof(real));
    la_kernel()->bordered_fused(&j->pass, part_begin(j->t->rows, j->parts, p), part_begin(j->t->rows, j->parts, p + 1),
                                j->row_sums, &own);
}

static void add_columns(const void *data, int64_t from, int64_t count)
{
    const bordered_job *j = data;
    add_parts(j->t, j->parts, from, count, j->column_sums + from);
    if (j->pass.c) add_parts(j->t, j->parts, la_bordered_ld(j->t->columns) + from, count, j->side_sums + from);
}

void la_bordered_fused(const la_bordered *t, const real *h, const real *v, real damping, int sign, double *row_sums,
                       double *column_sums, double *side_sums)
{
    int64_t n = t->columns, parts = bordered_parts(t->rows, n);
    bordered_job j = {t, make_pass(t, h, v, damping, sign), parts, row_sums, column_sums, side_sums};
    la_parallel(parts, 4 * (double)t->rows * (double)n, fuse_part, &j);
    la_chunks(n, SOME_COLUMNS, parts * n > PARALLEL ? 0 : n, add_columns, &j);
    if (!j.pass.swapped || sign > 0) return;
    negate(t->rows, row_sums);
    negate(n, column_sums);
    negate(n, side_sums);
}

typedef struct apply_job {
    const la_bordered *t;
    const real *square, *f, *x;
    double corner;
    real *y;
    bool stream;
} apply_job;

static void apply_row(const apply_job *j, int64_t i)
{
    const la_kernels *k = la_kernel();
    const la_bordered *t = j->t;
    int64_t n = t->columns, last = n - 1;
    const real *from = j->x + i * n;
    real *to = j->y + i * n, scale = t->row[i] * t->row[i], s = t->diagonal[last];
    if (!t->side) {
        k->row_apply(n, scale, j->square, from, 0, NULL, to, j->stream);
        return;
    }
    double x_last = (double)from[last], s_last = (double)s * x_last, corner_last;
    if (t->side_is_row) {
        double side = s_last + k->row_dot(last, j->f, from);
        k->row_apply(last, scale, j->square, from, (real)side, j->f, to, j->stream);
        corner_last = (double)s * (double)(real)side;
    } else {
        double dot = k->row_apply(last, scale, j->square, from, (real)x_last, j->f, to, j->stream);
        corner_last = (double)s * s_last + j->corner * x_last + dot;
    }
    to[last] = scale * (real)corner_last;
}

static void apply_rows(const void *data, int64_t from, int64_t count)
{
    for (int64_t i = from; i < from + count; i++) apply_row(data, i);
    stream_done();
}

/* P2 = Q2'Q2 has D^2 on its diagonal; with a last column c above s also dc next to it and s^2 + c'c in the corner, with
 * a last row c left of s everywhere (c, s)(c, s)' instead. Either way y_j = D_j^2 x_j + f_j t. */
void la_bordered_apply(const la_bordered *t, const real *x, real *y)
{
    int64_t n = t->columns, last = n - 1;
    real *square = t->scratch, *f = square + la_bordered_ld(n);
    double corner = 0;
    for (int64_t j = 0; j < n; j++) square[j] = t->diagonal[j] * t->diagonal[j];
    for (int64_t j = 0; j < n; j++) {
        real c = t->side && j < last ? t->side[j] : 0;
        f[j] = t->side_is_row ? c : c * t->diagonal[j];
        if (!t->side_is_row) corner += (double)c * (double)c;
    }
    apply_job j = {t, square, f, x, corner, y, x != y && past_caches(t->rows * n)};
    la_chunks(t->rows, n < CHUNK ? CHUNK / n : 1, t->rows * n > PARALLEL ? 0 : t->rows, apply_rows, &j);
}
