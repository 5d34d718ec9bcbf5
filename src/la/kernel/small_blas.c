/* Triangles times panels, for sizes at which the calls of a BLAS cost more than they save.
 *
 * A panel is a few fibres, one vector or two of each entry: P[i PANEL + j] is entry i of fibre j. A block of rows of
 * the result stays in registers while all entries pass by, and the diagonal block of the triangle is applied to it
 * there, so a product or a solve is one pass over the panel, in place. The triangle is read where it lies. */
#include "la/kernel/kernel.h"
#include "la/kernel/tile.h"

enum { SOME_ROWS = 4 };

typedef enum block_op { BLOCK_MUL, BLOCK_RETRACT, BLOCK_SOLVE } block_op;

/* What of the block's own entries goes into its rows. */
ALWAYS_INLINE void add_corner(int rows, int columns, bool lower, const real *D, int64_t row, int64_t column,
                              const real *P, vec *sum)
{
#pragma GCC unroll 12
    for (int k = 0; k < rows; k++) {
        vec x[2];
#pragma GCC unroll 2
        for (int c = 0; c < columns; c++) x[c] = vec_load(P + k * PANEL + c * LANES);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            if (lower ? i < k : i > k) continue;
            real w = D[i * row + k * column];
#pragma GCC unroll 2
            for (int c = 0; c < columns; c++) sum[i * columns + c] += w * x[c];
        }
    }
}

/* sum <- D^-1 sum. */
ALWAYS_INLINE void solve_corner(int rows, int columns, bool lower, const real *D, int64_t row, int64_t column, vec *sum)
{
    real inverse[BLOCK_ROWS];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) inverse[i] = 1 / D[i * (row + column)];
#pragma GCC unroll 12
    for (int step = 0; step < rows; step++) {
        int k = lower ? step : rows - 1 - step;
#pragma GCC unroll 2
        for (int c = 0; c < columns; c++) sum[k * columns + c] *= inverse[k];
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            if (lower ? i <= k : i >= k) continue;
            real w = D[i * row + k * column];
#pragma GCC unroll 2
            for (int c = 0; c < columns; c++) sum[i * columns + c] -= w * sum[k * columns + c];
        }
    }
}

/* Rows i .. i + rows - 1. What they take from the other rows is those not yet changed by a product, and those solved
 * already by a solution. */
ALWAYS_INLINE void block(block_op op, int rows, int columns, bool lower, const la_tri *t, int64_t i, real c, real *P)
{
    vec sum[BLOCK_ROWS * 2];
    tile_fill(rows, columns, 0, sum);
    int64_t from = lower ? 0 : i + rows, depth = lower ? i : t->n - i - rows;
    const real *T = t->T + i * t->row, *D = T + i * t->column;
    real *own = P + i * PANEL;
    tile_product(rows, columns, depth, T + from * t->column, t->row, t->column, P + from * PANEL, PANEL, sum);
    if (op == BLOCK_SOLVE) {
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
            for (int v = 0; v < columns; v++)
                sum[r * columns + v] = vec_load(own + r * PANEL + v * LANES) - sum[r * columns + v];
        }
        solve_corner(rows, columns, lower, D, t->row, t->column, sum);
    } else {
        add_corner(rows, columns, lower, D, t->row, t->column, own, sum);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < columns; v++) {
            real *to = own + r * PANEL + v * LANES;
            if (op == BLOCK_RETRACT) sum[r * columns + v] = vec_load(to) - c * sum[r * columns + v];
            vec_store(to, sum[r * columns + v]);
        }
    }
}

/* Rows are cut from the top; the last ones that make no whole block are taken by fours and one by one. */
ALWAYS_INLINE void sweep(block_op op, int columns, bool lower, const la_tri *t, real c, real *P)
{
    int64_t whole = t->n / BLOCK_ROWS * BLOCK_ROWS, fours = whole + (t->n - whole) / SOME_ROWS * SOME_ROWS;
    bool downward = lower == (op == BLOCK_SOLVE);
    if (downward) {
        for (int64_t i = 0; i < whole; i += BLOCK_ROWS) block(op, BLOCK_ROWS, columns, lower, t, i, c, P);
        for (int64_t i = whole; i < fours; i += SOME_ROWS) block(op, SOME_ROWS, columns, lower, t, i, c, P);
        for (int64_t i = fours; i < t->n; i++) block(op, 1, columns, lower, t, i, c, P);
    } else {
        for (int64_t i = t->n - 1; i >= fours; i--) block(op, 1, columns, lower, t, i, c, P);
        for (int64_t i = fours - SOME_ROWS; i >= whole; i -= SOME_ROWS)
            block(op, SOME_ROWS, columns, lower, t, i, c, P);
        for (int64_t i = whole - BLOCK_ROWS; i >= 0; i -= BLOCK_ROWS) block(op, BLOCK_ROWS, columns, lower, t, i, c, P);
    }
}

ALWAYS_INLINE void sweep_any(block_op op, const la_tri *t, int64_t width, real c, real *P)
{
    if (width > LANES) {
        if (t->lower) {
            sweep(op, 2, true, t, c, P);
        } else {
            sweep(op, 2, false, t, c, P);
        }
    } else if (t->lower) {
        sweep(op, 1, true, t, c, P);
    } else {
        sweep(op, 1, false, t, c, P);
    }
}

void KERNEL(tri_mul)(const la_tri *t, int64_t width, real *P)
{
    sweep_any(BLOCK_MUL, t, width, 0, P);
}

void KERNEL(tri_retract)(const la_tri *t, int64_t width, real c, real *P)
{
    sweep_any(BLOCK_RETRACT, t, width, c, P);
}

void KERNEL(tri_solve)(const la_tri *t, int64_t width, real *P)
{
    sweep_any(BLOCK_SOLVE, t, width, 0, P);
}

/* y[j y_ld + i] <- x[i x_ld + j], LANES x LANES. */
#if defined(__AVX512F__) && !defined(PSGD_REAL_F64)
ALWAYS_INLINE void transpose(const real *x, int64_t x_ld, real *y, int64_t y_ld)
{
    __m512 a[16], b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_ps(x + i * x_ld);
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        a[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[i]), _mm512_castps_pd(b[i + 2])));
        a[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[i]), _mm512_castps_pd(b[i + 2])));
        a[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b[i + 1]), _mm512_castps_pd(b[i + 3])));
        a[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b[i + 1]), _mm512_castps_pd(b[i + 3])));
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
        b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
        b[i + 8] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
        b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm512_storeu_ps(y + i * y_ld, _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88));
        _mm512_storeu_ps(y + (i + 8) * y_ld, _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd));
        _mm512_storeu_ps(y + (i + 4) * y_ld, _mm512_shuffle_f32x4(b[i + 4], b[i + 12], 0x88));
        _mm512_storeu_ps(y + (i + 12) * y_ld, _mm512_shuffle_f32x4(b[i + 4], b[i + 12], 0xdd));
    }
}
#elif defined(__AVX512F__)
ALWAYS_INLINE void transpose(const real *x, int64_t x_ld, real *y, int64_t y_ld)
{
    __m512d a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        __m512d even = _mm512_loadu_pd(x + i * x_ld), odd = _mm512_loadu_pd(x + (i + 1) * x_ld);
        a[i] = _mm512_unpacklo_pd(even, odd);
        a[i + 1] = _mm512_unpackhi_pd(even, odd);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        b[i] = _mm512_shuffle_f64x2(a[i], a[i + 2], 0x88);
        b[i + 2] = _mm512_shuffle_f64x2(a[i], a[i + 2], 0xdd);
        b[i + 4] = _mm512_shuffle_f64x2(a[i + 4], a[i + 6], 0x88);
        b[i + 6] = _mm512_shuffle_f64x2(a[i + 4], a[i + 6], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm512_storeu_pd(y + i * y_ld, _mm512_shuffle_f64x2(b[i], b[i + 4], 0x88));
        _mm512_storeu_pd(y + (i + 4) * y_ld, _mm512_shuffle_f64x2(b[i], b[i + 4], 0xdd));
    }
}
#else
ALWAYS_INLINE void transpose(const real *x, int64_t x_ld, real *y, int64_t y_ld)
{
    for (int j = 0; j < LANES; j++) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) y[j * y_ld + i] = x[i * x_ld + j];
    }
}
#endif

/* y[j y_ld + i] <- x[i x_ld + j] for i < rows, j < columns. */
static void turn(int64_t rows, int64_t columns, const real *x, int64_t x_ld, real *y, int64_t y_ld)
{
    int64_t i = 0;
    for (; i + LANES <= rows; i += LANES) {
        int64_t j = 0;
        for (; j + LANES <= columns; j += LANES) transpose(x + i * x_ld + j, x_ld, y + j * y_ld + i, y_ld);
        for (; j < columns; j++) {
            for (int l = 0; l < LANES; l++) y[j * y_ld + i + l] = x[(i + l) * x_ld + j];
        }
    }
    for (; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) y[j * y_ld + i] = x[i * x_ld + j];
    }
}

/* y[i y_ld + j] <- x[i x_ld + j] for i < rows, j < columns, at most a panel's. */
static void copy_rows(int64_t rows, int64_t columns, const real *x, int64_t x_ld, real *y, int64_t y_ld)
{
    if (columns == PANEL) {
        for (int64_t i = 0; i < rows; i++) {
            vec_store(y + i * y_ld, vec_load(x + i * x_ld));
            vec_store(y + i * y_ld + LANES, vec_load(x + i * x_ld + LANES));
        }
        return;
    }
    for (int64_t i = 0; i < rows; i++) memcpy(y + i * y_ld, x + i * x_ld, (size_t)columns * sizeof(real));
}

/* Entry i of fibre j of x is x[i entry + j fibre], one of which is 1. The fibres that are missing are zero. */
void KERNEL(panel_load)(int64_t n, int64_t width, const real *x, int64_t entry, int64_t fibre, real *P)
{
    if (width < PANEL) memset(P, 0, (size_t)(n * PANEL) * sizeof(real));
    if (entry == 1) {
        turn(width, n, x, fibre, P, PANEL);
    } else {
        copy_rows(n, width, x, entry, P, PANEL);
    }
}

void KERNEL(panel_store)(int64_t n, int64_t width, const real *P, real *x, int64_t entry, int64_t fibre)
{
    if (entry == 1) {
        turn(n, width, P, PANEL, x, fibre);
    } else {
        copy_rows(n, width, P, PANEL, x, entry);
    }
}

/* X[j n + i] <- entry i of fibre j, j < count. */
void KERNEL(gather)(int64_t count, int64_t n, const real *x, int64_t entry, int64_t fibre, real *X)
{
    if (entry == 1) {
        for (int64_t j = 0; j < count; j++) memcpy(X + j * n, x + j * fibre, (size_t)n * sizeof(real));
    } else {
        turn(n, count, x, entry, X, n);
    }
}
